/** `pipectl replica verify`: restores the replica beside the data directory, and compares the two. */
import type { Command } from 'commander'
import type { ReplicaVerification, VerifiedPipe } from '../../maintenance/verify-replica.ts'
import { bytes, count, counted } from '../../platform/quantities.ts'
import { commandFailure } from '../client/failure.ts'
import { addSettingFlags } from './daemon-commands.ts'
import { singleMachineSettings } from './daemon-settings.ts'
import { define } from './define.ts'
import { io } from './io.ts'
import { print, type Table, type View } from './output.ts'
import { withByteProgress } from './progress.ts'

export function addReplicaVerifyCommand(replica: Command): void {
  define<{ directory?: string }>(replica, {
    usage: 'verify',
    summary:
      'restore the replica into a temporary directory, verify it, and compare it with the data directory',
    help: `Downloads the complete replica and checks it like \`pipectl verify\`. Then it compares every message, and the workspaces, keys, pipes and
destinations, with the data directory: what was acknowledged before the newest slot must be in both. Messages that the log has
dropped since, and newer ones, are counted. Run it on the daemon's host, as its user; the daemon can be running. The temporary
directory is removed. The result is stored, and shown by \`pipectl replica status\`. Exit code 0: the replica is complete; 1: it is not.`,
    json: true,
    examples: [
      'pipectl replica verify --config /etc/pipectl/pipectl.toml',
      'pipectl replica verify --directory /mnt/scratch --json | jq .problems',
    ],
    output: true,
    options: (command) => {
      addSettingFlags(command)
      command.option('--directory <directory>', 'create the temporary directory here')
    },
    action: async (_, options) => {
      const settings = await singleMachineSettings('verify', options)
      const { verifyReplica } = await import('../../maintenance/verify-replica.ts')
      const report = await withByteProgress((onProgress) =>
        verifyReplica(settings, io().env, { directory: options.directory ?? null, onProgress }),
      )
      await print(verificationView(report), options.output)
      if (report.result === 'ok') return
      throw commandFailure(
        `${counted(report.problems.length, 'problem')} in ${report.target}`,
        'docs/replica.md: "When something is wrong"',
      )
    },
  })
}

function verificationView(report: ReplicaVerification): View {
  return {
    json: JSON.stringify(report),
    items: () => report.pipes.map((pipe) => JSON.stringify(pipe)),
    names: () => report.pipes.filter(isIncomplete).map((pipe) => pipe.pipe_name ?? pipe.pipe_id),
    table: () => tableOf(report),
  }
}

const isIncomplete = ({ missing, different }: VerifiedPipe) => missing + different > 0

function tableOf(report: ReplicaVerification): Table {
  const { through_ts, slot, segments, slots, messages, bytes: size, pipes, tables, problems } = report
  const moved = tables.filter(({ rows, data_dir_rows: own }) => rows !== own)
  const restored = `${counted(messages, 'message')}, ${bytes(size)}, from ${counted(segments, 'segment')} and ${counted(slots, 'slot')}`
  return {
    columns: ['PART', 'RESULT', { label: 'DETAIL', wraps: true }],
    rows: [
      ['replica', report.result, `everything acknowledged before ${through_ts} (slot ${slot})`],
      ['restored', '', restored],
      ...(report.is_compared ? [] : [['data directory', '', 'not compared: it has no log']]),
      ...pipes.map((pipe) => [
        pipe.pipe_name ?? pipe.pipe_id,
        isIncomplete(pipe) ? 'failed' : 'ok',
        pipeInWords(pipe),
      ]),
      ['metadata', tables.some(({ missing }) => (missing ?? 0) > 0) ? 'failed' : 'ok', tablesInWords(tables)],
      ...moved.map(({ table_name, rows, data_dir_rows: own }) => [
        '',
        '',
        `${table_name}: ${count(rows)} restored, ${count(own)} now`,
      ]),
      ...problems.map((problem) => ['problem', '', problem]),
    ],
  }
}

function pipeInWords(pipe: VerifiedPipe): string {
  const { messages, first_stream_seq: first, last_stream_seq: last, missing, different } = pipe
  return [
    counted(messages, 'message'),
    first === null ? '' : `stream_seq ${first} to ${last}`,
    missing > 0 ? `${count(missing)} missing` : '',
    different > 0 ? `${count(different)} different` : '',
    pipe.dropped_since > 0 ? `${count(pipe.dropped_since)} dropped or rewritten since` : '',
    pipe.newer > 0 ? `${count(pipe.newer)} newer in the data directory` : '',
  ]
    .filter((part) => part !== '')
    .join(', ')
}

function tablesInWords(tables: ReplicaVerification['tables']): string {
  const total = tables.reduce((sum, { rows }) => sum + rows, 0)
  return `${counted(total, 'row')} in ${counted(tables.length, 'table')}`
}
