/** `pipectl replica orphans` and `rejoin`: for the old machine after a takeover. */
import type { Command } from 'commander'
import type { OrphanPipe, Orphans, OrphansReport } from '../../maintenance/replica-orphans.ts'
import { count, counted } from '../../platform/quantities.ts'
import { commandFailure, usageFailure } from '../client/failure.ts'
import { connect } from './connection.ts'
import { addSettingFlags } from './daemon-commands.ts'
import { singleMachineSettings } from './daemon-settings.ts'
import { define } from './define.ts'
import { io } from './io.ts'
import { listView, print, type View } from './output.ts'
import { confirm, say } from './terminal.ts'

interface OrphanFlags {
  export?: string
  send?: boolean
  skipDelivered?: boolean
}

export function addReplicaOrphansCommands(replica: Command): void {
  define<OrphanFlags>(replica, {
    usage: 'orphans',
    summary: 'list, export or send what a replaced machine accepted and never replicated',
    help: `Run it on the old machine, with the settings of its daemon, which no longer starts (exit code 78). Its log is only read.
--export writes a line of JSON for each message. --send sends the messages to the new primary at --server, in order, each under an
Idempotency-Key of its own: within 24 hours you can repeat it. They get new ids and are enriched again. A destination that had them from
the old machine gets them again; --skip-delivered leaves out what every destination of the pipe had.`,
    examples: [
      'pipectl replica orphans --config /etc/pipectl/pipectl.toml',
      'pipectl replica orphans --export orphans.ndjson',
      'pipectl replica orphans --send --server https://pipes.example.com',
    ],
    output: true,
    daemon: true,
    options: (command) => {
      addSettingFlags(command)
      command.option('--export <file>', 'write the messages into this file')
      command.option('--send', 'send the messages to the new primary')
      command.option('--skip-delivered', 'with --send: leave out what every destination had')
    },
    action: async (_, options) => {
      if (options.skipDelivered === true && options.send !== true)
        throw usageFailure('--skip-delivered needs --send', 'add --send')
      const settings = await singleMachineSettings('verify', options)
      const { Orphans } = await import('../../maintenance/replica-orphans.ts')
      const client = options.send === true ? await connect(options) : null
      const orphans = await Orphans.open(settings, io().env)
      try {
        if (options.export !== undefined) await exportAll(orphans, options.export)
        const { sendOrphans } = await import('./replica-orphans-send.ts')
        const left = client === null ? [] : await sendOrphans(client, orphans, options.skipDelivered === true)
        await print(orphansView(orphans.report), options.output)
        if (left.length > 0)
          throw commandFailure(
            `${counted(left.length, 'pipe')} not sent: ${left.join(', ')}`,
            'send them with a key of their workspace, or --export them',
          )
      } finally {
        orphans.close()
      }
    },
  })
  addRejoinCommand(replica)
}

async function exportAll(orphans: Orphans, file: string): Promise<void> {
  const { exportOrphans } = await import('../../maintenance/export-orphans.ts')
  const messages = exportOrphans(orphans, file)
  say(`Exported ${counted(messages, 'message')} to ${file}.`)
}

function addRejoinCommand(replica: Command): void {
  define<{ discardOrphans?: boolean }>(replica, {
    usage: 'rejoin',
    summary: 'move the directory of a replaced machine aside, so that it can be a standby',
    help: `Run it on the old machine, with the settings of its daemon. The directory gets another name and is not deleted. It is rejected while messages
were neither exported nor sent (\`pipectl replica orphans\`).`,
    examples: ['pipectl replica rejoin --config /etc/pipectl/pipectl.toml'],
    destructive: true,
    options: (command) => {
      addSettingFlags(command)
      command.option('--discard-orphans', 'also if messages were neither exported nor sent')
    },
    action: async (_, options) => {
      const settings = await singleMachineSettings('restore', options)
      const { Orphans } = await import('../../maintenance/replica-orphans.ts')
      const orphans = await Orphans.open(settings, io().env)
      try {
        requireSettled(orphans.report, options.discardOrphans === true)
        await confirm(`Move ${settings.data_dir} aside? It is not deleted.`, options.yes)
        const aside = orphans.moveAside(Date.now())
        say(`Moved ${settings.data_dir} to ${aside}.`)
        const key = settings['secrets.key_file'] === null ? ` --key-file ${aside}/sealing.key` : ''
        say(`Next: pipectl serve --standby ${settings['replica.url']}${key} --data-dir ${settings.data_dir}`)
      } finally {
        orphans.close()
      }
    },
  })
}

function requireSettled({ pipes, damaged_messages: damaged }: OrphansReport, isDiscarding: boolean): void {
  const messages = pipes.filter(({ settled }) => settled === null).reduce((sum, one) => sum + one.messages, 0)
  if (isDiscarding || messages + damaged === 0) return
  const what =
    damaged > 0
      ? `${counted(messages, 'message')} and ${count(damaged)} damaged`
      : counted(messages, 'message')
  throw commandFailure(
    `${what} of this directory were never replicated, and neither exported nor sent`,
    '`pipectl replica orphans --send` or --export; `rejoin --discard-orphans` leaves them in the directory that is moved aside',
  )
}

function orphansView(report: OrphansReport): View {
  return listView<OrphanPipe>(report.pipes, {
    json: JSON.stringify(report),
    name: ({ pipe_name, pipe_id }) => pipe_name ?? pipe_id,
    columns: [
      ['PIPE', ({ pipe_name, pipe_id }) => pipe_name ?? pipe_id],
      ['WORKSPACE', ({ workspace_name }) => workspace_name ?? '-'],
      ['MESSAGES', ({ messages }) => count(messages)],
      ['DELIVERED', ({ delivered_messages }) => count(delivered_messages)],
      ['STREAM_SEQ', ({ first_stream_seq: first, last_stream_seq: last }) => `${first} to ${last}`],
      ['FIRST', ({ first_received_ts }) => first_received_ts],
      ['LAST', ({ last_received_ts }) => last_received_ts],
      ['SETTLED', ({ settled }) => settled ?? 'no'],
    ],
    empty: 'Everything that this machine accepted is in the replica.',
  })
}
