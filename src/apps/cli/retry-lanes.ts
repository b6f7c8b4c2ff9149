/** `pipectl lanes retry`: retries the blocking message of one lane, of several, or of all that fail. */
import type { Command } from 'commander'
import { counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import { commandFailure, Failure, nothingToDoFailure, usageFailure } from '../client/failure.ts'
import { type LaneResult, onLanes, resultWords } from '../client/lane-batch.ts'
import { canRetry } from '../client/lane-causes.ts'
import { troubledLanes } from '../client/overview.ts'
import { OverviewFeed } from '../client/overview-feed.ts'
import { fullName, type LanePath, lanePath } from '../client/workspace.ts'
import { clientCommand } from './define.ts'
import { listView, oneView, print, type View } from './output.ts'
import { openCountProgress } from './progress.ts'
import { findDestination } from './references.ts'
import { say } from './terminal.ts'

interface NamedLane extends LanePath {
  name: string
}

export function addRetryCommand(lanes: Command): void {
  clientCommand<{ allFailing?: boolean }>(lanes, {
    usage: 'retry [destination...]',
    summary: 'retry the blocking message now: of one lane, of several, or of all that fail',
    help: 'Several lanes are retried a few at a time. The exit code is 1 if a request failed, and 6 if nothing blocks any of them.',
    examples: [
      'pipectl lanes retry orders/database',
      'pipectl lanes retry orders/database clicks/database',
      'pipectl lanes retry --all-failing',
    ],
    options: (command) => command.option('--all-failing', 'every lane that is retrying or stuck'),
    action: async (client, references, options) => {
      requireLanes(references, options.allFailing === true)
      const [only] = references
      if (only !== undefined && references.length === 1) {
        const { pipe, destination } = await findDestination(client, only)
        const reply = await client.call('retryNow', { path: lanePath(destination) })
        await print(oneView(reply.text, reply.body.status, [['status', reply.body.status]]), options.output)
        if (!reply.body.retried) throw nothingBlocks()
        say(
          `Retrying message ${reply.body.msg_id}; \`pipectl lanes list ${pipe.pipe_name}\` shows the result.`,
        )
        return
      }
      const wanted = options.allFailing === true ? await failing(client) : await named(client, references)
      const result = await retryAll(client, wanted)
      await print(resultView(result), options.output)
      sayResult(result)
    },
  })
}

function requireLanes(references: readonly string[], isAll: boolean): void {
  if (references.length > 0 === isAll) {
    throw usageFailure(
      isAll ? 'destinations together with --all-failing' : 'no destination is named',
      'give destinations as `pipectl lanes list` shows them, or --all-failing',
    )
  }
}

async function failing(client: Client): Promise<NamedLane[]> {
  const overview = await new OverviewFeed(client).next()
  const lanes = troubledLanes(overview).filter(canRetry)
  if (lanes.length === 0) {
    throw nothingToDoFailure('no lane fails', '`pipectl lanes list` shows the state of every lane')
  }
  return lanes.map(({ pipe, destination }) => ({
    pipe_id: pipe.pipe_id,
    destination_id: destination.destination_id,
    name: fullName(pipe, destination),
  }))
}

/** Every name is resolved before the first retry, so that a typing error changes nothing. */
async function named(client: Client, references: readonly string[]): Promise<NamedLane[]> {
  const found = new Map<string, NamedLane>()
  for (const reference of references) {
    const { pipe, destination } = await findDestination(client, reference)
    found.set(destination.destination_id, {
      ...lanePath(destination),
      name: fullName(pipe, destination),
    })
  }
  return [...found.values()]
}

async function retryAll(client: Client, lanes: readonly NamedLane[]): Promise<LaneResult<NamedLane>> {
  const progress = openCountProgress('Retried', lanes.length)
  try {
    return await onLanes(client, 'retry', lanes, { onProgress: progress.update })
  } finally {
    progress.end()
  }
}

interface RetriedLane {
  destination_id: string
  lane: string
  retried: boolean
  error: string | null
}

function resultView({ outcomes, failures }: LaneResult<NamedLane>): View {
  const lanes: RetriedLane[] = [
    ...outcomes.map(({ item, outcome }) => ({ item, retried: outcome, error: null })),
    ...failures.map(({ item, error }) => ({
      item,
      retried: false,
      error: error instanceof Failure ? error.message : String(error),
    })),
  ]
    .map(({ item, ...rest }) => ({ destination_id: item.destination_id, lane: item.name, ...rest }))
    .sort((a, b) => a.lane.localeCompare(b.lane, 'en'))
  return listView(lanes, {
    json: JSON.stringify({ lanes }),
    name: ({ lane }) => lane,
    columns: [
      [{ label: 'LANE', shrinksTo: 20, keepsEnd: true }, ({ lane }) => lane],
      ['RETRIED', ({ retried }) => (retried ? 'yes' : 'no')],
      [
        { label: 'ERROR', wraps: true },
        ({ error, retried }) => error ?? (retried ? '-' : 'nothing blocks it'),
      ],
    ],
  })
}

function sayResult(result: LaneResult<NamedLane>): void {
  const { outcomes, failures } = result
  if (failures.length > 0) {
    throw commandFailure(
      resultWords('retry', result),
      `run the command again for the ${counted(failures.length, 'lane')}`,
    )
  }
  if (!outcomes.some(({ outcome }) => outcome)) throw nothingBlocks()
  say(`${resultWords('retry', result)} \`pipectl lanes list --blocked\` shows what still fails.`)
}

export function nothingBlocks(): Failure {
  return nothingToDoFailure(
    'no message blocks this lane, or a user blocked its destination',
    '`pipectl lanes list` shows the state; `pipectl destinations unblock` resumes a blocked one',
  )
}
