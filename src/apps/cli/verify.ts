/** `pipectl verify`: checks all data in a data directory. */
import type { Command } from 'commander'
import type { ShownRange, VerifiedFile, VerifyReport } from '../../maintenance/verify.ts'
import { bytes, count, counted } from '../../platform/quantities.ts'
import { commandFailure } from '../client/failure.ts'
import { singleMachineSettings } from './daemon-settings.ts'
import { define } from './define.ts'
import { print, type Table, type View } from './output.ts'
import { withByteProgress } from './progress.ts'

export function addVerifyCommand(program: Command): void {
  define(program, {
    usage: 'verify',
    summary: 'read a complete data directory and compare it with its checksums; changes nothing',
    help: `Reads every segment of the buffer (structure, checksum of each message, running totals, missing segments), the high-water
mark, the idempotency keys, the metadata and the files of SQLite destinations, and compares the lanes with the log. Run it on the daemon's host, as its user;
the daemon can be running. Exit code 0: everything is as it was written; 1: something is not.`,
    json: true,
    examples: ['pipectl verify --data-dir /var/lib/pipectl', 'pipectl verify --json | jq .missing'],
    output: true,
    dataDir: true,
    action: async (_, options) => {
      const { data_dir: dataDir } = await singleMachineSettings('verify', options)
      const { verifyDataDir } = await import('../../maintenance/verify.ts')
      const { report } = await withByteProgress((onProgress) =>
        verifyDataDir(dataDir, ({ doneBytes, totalBytes }) => onProgress(doneBytes, totalBytes)),
      )
      await print(verifyView(report), options.output)
      const { problems } = report.totals
      if (problems === 0) return
      throw commandFailure(`${counted(problems, 'problem')} in ${dataDir}`, nextStep(report))
    },
  })
}

function nextStep({ is_daemon_running: isRunning, files, missing, data_dir: dataDir }: VerifyReport): string {
  if (files.some((one) => one.file === 'metadata.db' && one.result !== 'ok')) {
    return 'see "What happens to a damaged disk" (docs/damaged-disk.md): metadata is restored from a backup'
  }
  if (missing.length === 0 && files.every((one) => one.result === 'ok' || one.file.startsWith('tables/'))) {
    return 'a file of a SQLite destination is restored from a backup, or with `.recover` of sqlite3'
  }
  if (isRunning) return 'the running daemon continues without it; stop the daemon for `pipectl repair`'
  return `pipectl repair --dry-run --data-dir ${dataDir} shows what can be done`
}

function verifyView(report: VerifyReport): View {
  const damaged = report.files.filter((one) => one.result !== 'ok')
  return {
    json: JSON.stringify(report),
    items: () => report.files.map((one) => JSON.stringify(one)),
    names: () => damaged.map((one) => one.file),
    table: () => tableOf(report),
  }
}

/** Intact segments are summed in one row, because there can be hundreds. */
function tableOf({ files, missing, known_losses: known, totals }: VerifyReport): Table {
  const isSegment = (one: VerifiedFile) => one.messages !== null
  const sound = files.filter((one) => isSegment(one) && one.result === 'ok')
  const messages = sound.reduce((sum, one) => sum + (one.messages ?? 0), 0)
  const size = sound.reduce((sum, one) => sum + one.bytes, 0)
  const listed = files.filter((one) => !isSegment(one) || one.result !== 'ok')
  return {
    columns: [{ label: 'FILE', shrinksTo: 24, keepsEnd: true }, 'RESULT', { label: 'DETAIL', wraps: true }],
    rows: [
      ...listed.flatMap(fileRows),
      ...missing.map((range) => ['buffer', 'missing', `stream_seq ${seqs(range)}: missing, and not dropped`]),
      [
        `${sound.length} of ${counted(totals.segments, 'segment')}`,
        'ok',
        `${counted(messages, 'message')}, ${bytes(size)}`,
      ],
      ...known.ranges.map((range) => ['', '', `stream_seq ${seqs(range)} was lost earlier`]),
      ...(known.messages > 0
        ? [['', '', `${count(known.messages)} lost earlier: not in what was salvaged`]]
        : []),
    ],
  }
}

function fileRows({ file, result, bytes: size, problems }: VerifiedFile): string[][] {
  if (problems.length === 0) return [[file, result, bytes(size)]]
  return problems.map((problem, index) => (index === 0 ? [file, result, problem] : ['', '', problem]))
}

export function seqs({ first_stream_seq: first, last_stream_seq: last }: ShownRange): string {
  return first === last ? `${first}` : `${first} to ${last}`
}
