/** `pipectl migrate`: moves a data directory into a cluster. */
import type { Command } from 'commander'
import type { MovePlan, MoveReport } from '../../maintenance/migrate/move.ts'
import { bytes, count, counted, duration } from '../../platform/quantities.ts'
import { usageFailure } from '../client/failure.ts'
import { daemonSettings } from './daemon-settings.ts'
import { define } from './define.ts'
import { io } from './io.ts'
import { print, type View } from './output.ts'
import { withByteProgress } from './progress.ts'
import { say } from './terminal.ts'

interface MigrateOptions {
  toCluster?: boolean
  dryRun?: boolean
  allowRepeats?: boolean
}

export function addMigrateCommand(program: Command): void {
  define<MigrateOptions>(program, {
    usage: 'migrate',
    summary: 'move a stopped data directory into a cluster',
    help: `Copies everything: pipes, destinations with their encrypted secrets, keys, users, lanes, parked records, history, and every
message that is kept, in order per pipe. After an interruption run it again: it starts from the beginning. The data directory
does not change; at the end it is marked, and no daemon starts on it. Make a backup first. metadata.url and buffer.nats are read
from --config or the environment (PIPECTL_METADATA_URL, PIPECTL_BUFFER_NATS): they can contain passwords. See docs/migrate.md.`,
    examples: [
      'pipectl migrate --to-cluster --config /etc/pipectl/pipectl.toml --data-dir /var/lib/pipectl --dry-run',
    ],
    output: true,
    dataDir: true,
    options: (command) => {
      command.option('--to-cluster', 'from the data directory into the cluster')
      command.option(
        '--dry-run',
        'perform every check, count what will be moved and estimate the time; change nothing',
      )
      command.option(
        '--allow-repeats',
        'move even if a destination with exactly_once has an unfinished batch: it can be stored twice',
      )
    },
    action: async (_, options) => {
      if (options.toCluster !== true) throw usageFailure('the direction is missing', 'add --to-cluster')
      const settings = daemonSettings(options)
      const { moveLog, openSides } = await import('../../maintenance/migrate/sides.ts')
      const { planMove, moveAll } = await import('../../maintenance/migrate/move.ts')
      const sides = await openSides(settings, io().env)
      try {
        const places = { direction: 'to_cluster', from: sides.source.place, to: sides.target.place }
        const moveOptions = { log: moveLog, now: Date.now, allowRepeats: options.allowRepeats === true }
        if (options.dryRun === true) {
          const plan = await planMove(sides, moveOptions)
          return await print(planView({ ...places, plan }), options.output)
        }
        const report = await withByteProgress((onProgress) => moveAll(sides, { ...moveOptions, onProgress }))
        await print(reportView({ ...places, report }), options.output)
        say('Start the nodes with these settings, each with a data_dir of its own and this sealing key.')
      } finally {
        await sides.close()
      }
    },
  })
}

/**
 * An estimate. It was higher on two cores with all servers on one machine, and is lower over a network with three
 * replicas.
 */
const bytesPerSecond = 20_000_000
const messagesPerSecond = 20_000

function estimatedSeconds({ messages, bytes: size }: MovePlan): number {
  return Math.ceil(Math.max(messages / messagesPerSecond, size / bytesPerSecond))
}

interface Places {
  direction: string
  from: string
  to: string
}

function planView({ plan, ...places }: Places & { plan: MovePlan }): View {
  const seconds = estimatedSeconds(plan)
  return viewOf({ ...places, is_dry_run: true, ...countsOf(plan), estimated_seconds: seconds }, [
    ...retentionRows(plan),
    ['estimated', `about ${duration(seconds)}`],
  ])
}

function reportView({ report, ...places }: Places & { report: MoveReport }): View {
  const { missingMessages, wasDone } = report
  const facts = { missing_messages: missingMessages, was_done: wasDone }
  return viewOf({ ...places, is_dry_run: false, ...countsOf(report), ...facts }, [
    ...retentionRows(report),
    ...(missingMessages > 0
      ? [['missing', `${counted(missingMessages, 'message')}, damaged or lost before: lanes count them`]]
      : []),
    ...(wasDone ? [['', 'was copied before']] : []),
  ])
}

function retentionRows({ pipesWithRetention }: MovePlan): string[][] {
  if (pipesWithRetention === 0) return []
  const text =
    'pipe_retention_hours is removed, because the buffer of a cluster has one retention for all pipes'
  return [['retention', `${counted(pipesWithRetention, 'pipe')}: ${text}`]]
}

function countsOf({ pipes, pipesWithRetention, lanes, parked, messages, records, bytes: size }: MovePlan) {
  return {
    pipes,
    pipes_with_retention: pipesWithRetention,
    ...{ lanes, parked, messages, records, bytes: size },
  }
}

type Counts = ReturnType<typeof countsOf>

function viewOf<Report extends Places & Counts>(report: Report, more: string[][]): View {
  const { from, to, pipes, lanes, parked, messages, records, bytes: size } = report
  return {
    json: JSON.stringify(report),
    items: () => [JSON.stringify(report)],
    names: () => [to],
    table: () => ({
      columns: ['WHAT', { label: 'VALUE', wraps: true }],
      rows: [
        ['from', from],
        ['to', to],
        ['pipes', count(pipes)],
        ['lanes', count(lanes)],
        ['parked', count(parked)],
        ['messages', `${count(messages)} with ${counted(records, 'record')}, ${bytes(size)}`],
        ...more,
      ],
    }),
  }
}
