/** Replays one or many parked records and reports the results. */
import { parkedIdsAtOnce } from '../../../contract/parked.ts'
import { counted } from '../../../platform/quantities.ts'
import type { Client } from '../../client/client.ts'
import { commandFailure, type Failure, nothingToDoFailure } from '../../client/failure.ts'
import {
  errorWords,
  givenFilter,
  type ParkedFilter,
  parkedRecords,
  type ReplayOutcome,
  replayBody,
  replayOutcome,
  type StartedReplay,
} from '../../client/parked.ts'
import { lanePath } from '../../client/workspace.ts'
import { io } from '../io.ts'
import { openCountProgress } from '../progress.ts'
import { say } from '../terminal.ts'
import type { NamedLane } from './references.ts'

export async function replayOne(
  client: Client,
  lane: NamedLane,
  { parkedId, records }: { parkedId: string; records: string[] | null },
  wait: boolean | undefined,
): Promise<void> {
  const { body } = await client.call('replayParked', {
    path: { ...lanePath(lane), parked_id: parkedId },
    body: replayBody(records),
  })
  const { parked_id, replays } = body
  if (shouldWait(wait)) await sayOutcome(client, lane, { parkedId: parked_id, replays })
  else say(`Replaying ${parkedId}; \`pipectl parked show ${lane.name} ${parkedId}\` shows the result.`)
}

/** `ids` empty: all records that match the filter. */
export async function replayMany(
  client: Client,
  lane: NamedLane,
  { ids, filter }: { ids: readonly string[]; filter: ParkedFilter },
  wait: boolean,
): Promise<void> {
  // The replay count of each record before this replay. It identifies the result.
  const known = wait
    ? (await parkedRecords(client, lane, filter, { most: Number.POSITIVE_INFINITY })).parked
    : []
  let replayed = 0
  if (ids.length === 0) {
    const body = { all: true as const, ...givenFilter(filter) }
    replayed = (await client.call('replayManyParked', { path: lanePath(lane), body })).body.replayed
  }
  for (let at = 0; at < ids.length; at += parkedIdsAtOnce) {
    const body = { ids: ids.slice(at, at + parkedIdsAtOnce) }
    replayed += (await client.call('replayManyParked', { path: lanePath(lane), body })).body.replayed
  }
  if (replayed === 0) {
    throw nothingToDoFailure(
      `nothing of ${lane.name} was replayed: none of these is parked, or they are being replayed`,
      `\`pipectl parked list ${lane.name}\` shows what is parked`,
    )
  }
  say(`Replaying ${counted(replayed, 'parked record')} of ${lane.name}.`)
  if (!wait) return
  const wanted = new Set(ids)
  const asked = known.filter(
    (one) => one.state === 'parked' && (ids.length === 0 || wanted.has(one.parked_id)),
  )
  await sayOutcomes(
    client,
    lane,
    asked.map(({ parked_id, replays }) => ({ parkedId: parked_id, replays: replays + 1 })),
  )
}

/** Time without any result after which the command stops waiting for replays. */
const waitMs = 30_000

/** `wait` undefined: waits only on a terminal. */
export function shouldWait(wait: boolean | undefined): boolean {
  return wait ?? io().stderr.isTTY === true
}

/** Throws Failure if the replay failed, or if there is no result after half a minute. */
async function sayOutcome(client: Client, lane: NamedLane, replay: StartedReplay): Promise<void> {
  const outcome = await replayOutcome(client, lane, replay, waitMs)
  if (outcome.kind === 'stored') return say(`Stored: ${lane.name} accepted it.`)
  if (outcome.kind === 'failed') {
    throw commandFailure(
      `failed again: ${errorWords(outcome.error)}`,
      `\`pipectl parked edit ${lane.name} ${replay.parkedId}\` changes the record and replays it`,
    )
  }
  throw stillWaiting(lane)
}

/** The same for several replays in order, because the lane executes them one after another. */
async function sayOutcomes(
  client: Client,
  lane: NamedLane,
  replayed: readonly StartedReplay[],
): Promise<void> {
  const found: Record<ReplayOutcome['kind'], number> = { stored: 0, failed: 0, waiting: 0, left: 0 }
  const failures = new Map<string, number>()
  const progress = openCountProgress('Replayed', replayed.length)
  let done = 0
  try {
    for (const replay of replayed) {
      const outcome = await replayOutcome(client, lane, replay, waitMs)
      found[outcome.kind] += 1
      if (outcome.kind === 'waiting') break
      if (outcome.kind === 'failed')
        failures.set(outcome.error.code, (failures.get(outcome.error.code) ?? 0) + 1)
      progress.update(++done)
    }
  } finally {
    progress.end()
  }
  const left = found.left === 0 ? '' : `, ${found.left} not replayed`
  say(`Stored ${found.stored}, failed again ${found.failed}${left}.`)
  if (found.waiting > 0) throw stillWaiting(lane)
  if (failures.size === 0) return
  const codes = [...failures].map(([code, times]) => `${code} (${times})`).join(', ')
  throw commandFailure(
    `${counted(found.failed, 'record')} failed again: ${codes}`,
    `\`pipectl parked list ${lane.name}\` shows them; \`pipectl parked edit\` changes one`,
  )
}

function stillWaiting({ name }: NamedLane): Failure {
  return commandFailure(
    'the result is not known yet: the replay continues by itself',
    `\`pipectl lanes list\` shows whether ${name} is blocked or retrying, \`pipectl parked list ${name}\` what is still parked`,
  )
}
