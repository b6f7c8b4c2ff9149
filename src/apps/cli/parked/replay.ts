/** Replays one or many parked records and reports the results. */
import { parkedIdsAtOnce } from '../../../contract/parked.ts'
import { counted } from '../../../platform/quantities.ts'
import type { Client } from '../../client/client.ts'
import { nothingToDoFailure } from '../../client/failure.ts'
import { type ParkedFilter, parkedRecords, replayBody } from '../../client/parked.ts'
import { lanePath } from '../../client/workspace.ts'
import { say } from '../terminal.ts'
import { sayOutcome, sayOutcomes, shouldWait } from './outcome.ts'
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
    const { error_code } = filter
    const body = { all: true as const, ...(error_code !== undefined && { error_code }) }
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
