/** `pipectl migrate`: a data directory into a cluster, or a cluster into a data directory. */
import type { Command } from 'commander'
import type { MovePlan, MoveReport } from '../../maintenance/migrate/move.ts'
import type { Direction } from '../../maintenance/migrate/sides.ts'
import { bytes, count, counted, duration } from '../../platform/quantities.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import { openByteProgress } from './byte-progress.ts'
import { addSettingFlags } from './daemon-commands.ts'
import { daemonSettings } from './daemon-settings.ts'
import { define, formats } from './define.ts'
import { io } from './io.ts'
import { print, type View } from './output.ts'
import { confirm, say } from './terminal.ts'

interface MigrateOptions {
  toCluster?: boolean
  fromCluster?: boolean
  undo?: boolean
  dryRun?: boolean
  allowRepeats?: boolean
}

export function addMigrateCommand(program: Command): void {
  define<MigrateOptions>(program, {
    usage: 'migrate',
    summary: 'move a stopped data directory into a cluster, or a stopped cluster into a data directory',
    help: `Copies everything: pipes, destinations with their sealed secrets, keys, users, lanes, parked records, history, and every
message that is kept, in order per pipe. Each message is read back and compared. Interrupted, it goes on where it was
when it is run again. The side that it came from stays as it was; at the end it is marked, and no daemon starts on it.
metadata.url and buffer.nats are taken from --config or the environment (PIPECTL_METADATA_URL, PIPECTL_BUFFER_NATS):
they may carry passwords. See docs/migrate.md.`,
    examples: [
      'pipectl migrate --to-cluster --config /etc/pipectl.toml --data-dir /var/lib/pipectl --dry-run',
      'pipectl migrate --from-cluster --config /etc/pipectl.toml --data-dir /var/lib/pipectl-alone',
    ],
    output: formats,
    destructive: true,
    options: (command) => {
      addSettingFlags(command, ['data_dir'])
      command.option('--to-cluster', 'from the data directory into the cluster')
      command.option('--from-cluster', 'from the cluster into a data directory that is empty')
      command.option(
        '--dry-run',
        'make every check, count what there is to move and estimate the time; change nothing',
      )
      command.option(
        '--allow-repeats',
        'move although a batch is under way to a destination with exactly_once: it may be stored twice',
      )
      command.option('--undo', 'what was moved away may be served again from where it was')
    },
    action: async (_, options) => {
      const settings = daemonSettings(options)
      const { openSides, undoMove } = await import('../../maintenance/migrate/sides.ts')
      if (options.undo === true) {
        await confirm(
          'Serve again from here? What was accepted where it was moved to is not here.',
          options.yes,
        )
        const wasMoved = await undoMove(settings, io().env)
        return say(wasMoved ? 'It can be served from here again.' : 'It was not moved away.')
      }
      const direction = directionOf(options)
      const { moveLog, planMove, moveAll } = {
        ...(await import('../../maintenance/migrate/sides.ts')),
        ...(await import('../../maintenance/migrate/move.ts')),
      }
      const sides = await openSides(direction, settings, io().env)
      try {
        const { source, target } = sides
        const places = { direction, from: source.place, to: target.place }
        const moveOptions = { log: moveLog, now: Date.now, allowRepeats: options.allowRepeats === true }
        if (options.dryRun === true) {
          const plan = await planMove(source, target, moveOptions)
          return await print(planView({ ...places, plan }), options.output)
        }
        const progress = openByteProgress()
        const report = await moveAll(source, target, {
          ...moveOptions,
          onProgress: (done, total) => progress.update(done, total),
        }).finally(() => progress.end())
        await print(reportView({ ...places, report }), options.output)
        say(nextStep(direction))
      } finally {
        await sides.close()
      }
    },
  })
}

function directionOf({ toCluster, fromCluster }: MigrateOptions): Direction {
  if (toCluster === fromCluster)
    throw new Failure(exitCodes.usage, 'say which way', 'give --to-cluster or --from-cluster')
  return toCluster === true ? 'to_cluster' : 'from_cluster'
}

function nextStep(direction: Direction): string {
  return direction === 'to_cluster'
    ? 'Start the nodes with these settings, each with a data_dir of its own and this sealing key.'
    : 'Start the daemon on the new directory, without metadata.url and buffer.nats in its settings.'
}

/** On two cores with servers on the same machine it was more; over a network and with three replicas it is less. */
const bytesPerSecond = 20_000_000
const messagesPerSecond = 20_000

export function estimatedSeconds({ messages, bytes: size }: MovePlan): number {
  return Math.ceil(Math.max(messages / messagesPerSecond, (size * 2) / bytesPerSecond))
}

interface Places {
  direction: Direction
  from: string
  to: string
}

export function planView({ plan, ...places }: Places & { plan: MovePlan }): View {
  const seconds = estimatedSeconds(plan)
  return viewOf({ ...places, is_dry_run: true, ...countsOf(plan), estimated_seconds: seconds }, [
    ['estimated', `about ${duration(seconds)}`],
  ])
}

export function reportView({ report, ...places }: Places & { report: MoveReport }): View {
  const { missingMessages, wasDone } = report
  const facts = { missing_messages: missingMessages, was_done: wasDone }
  return viewOf({ ...places, is_dry_run: false, ...countsOf(report), ...facts }, [
    ...(missingMessages > 0
      ? [['missing', `${counted(missingMessages, 'message')}, damaged or lost before: lanes count them`]]
      : []),
    ...(wasDone ? [['', 'had been copied before']] : []),
  ])
}

function countsOf({ pipes, lanes, parked, messages, records, bytes: size }: MovePlan) {
  return { pipes, lanes, parked, messages, records, bytes: size }
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
