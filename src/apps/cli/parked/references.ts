/** Resolves parked records on the command line: by id, or by a unique start of an id. */
import type { ParkedRecord } from '../../../contract/parked.ts'
import { isUuid } from '../../../contract/uuid.ts'
import type { Client } from '../../client/client.ts'
import { notFoundFailure, usageFailure } from '../../client/failure.ts'
import { errorWords, isFiltered, type ParkedFilter, parkedRecords } from '../../client/parked.ts'
import type { LaneRef } from '../../client/workspace.ts'
import { fullName } from '../../client/workspace.ts'
import { findDestination } from '../references.ts'

/** The number of records that are searched for the start of an id. */
const searched = 20_000
const shortestPrefix = 4

export interface NamedLane extends LaneRef {
  /** The name that the user gave. */
  name: string
}

export async function findLane(client: Client, reference: string): Promise<NamedLane> {
  const { pipe, destination } = await findDestination(client, reference)
  return {
    pipeId: pipe.pipe_id,
    destinationId: destination.destination_id,
    name: fullName(pipe, destination),
  }
}

/** The ids of these references. Throws Failure: not found for none, usage for several. */
export async function findParkedIds(
  client: Client,
  lane: NamedLane,
  references: readonly string[],
): Promise<string[]> {
  const lower = references.map((reference) => reference.toLowerCase())
  if (lower.every(isUuid)) return [...new Set(lower)]
  const { parked, hasMore } = await parkedRecords(client, lane, {}, { most: searched })
  return [...new Set(lower.map((one) => (isUuid(one) ? one : onlyOne(lane, one, parked, hasMore))))]
}

function onlyOne(
  { name }: NamedLane,
  reference: string,
  parked: readonly ParkedRecord[],
  hasMore: boolean,
): string {
  const matches = parked.filter(
    ({ parked_id: id }) => reference.length >= shortestPrefix && id.startsWith(reference),
  )
  if (matches.length === 1 && !hasMore) return matches[0]!.parked_id
  if (matches.length === 0 || hasMore) {
    throw notFoundFailure(
      hasMore
        ? `${name} has more than ${searched} parked records: they are not searched for ${JSON.stringify(reference)}`
        : `no parked record of ${name} begins with ${JSON.stringify(reference)}`,
      hasMore
        ? 'give the complete id'
        : `\`pipectl parked list ${name}\` shows what is parked; ids can be shortened to ${shortestPrefix} characters or more`,
    )
  }
  const shown = matches.slice(0, 10).map((one) => `  ${one.parked_id}  ${errorWords(one.error)}`)
  throw usageFailure(
    `${JSON.stringify(reference)} matches ${matches.length} parked records:\n${shown.join('\n')}`,
    'name one of them by more of its id',
  )
}

/** Requires either ids or a filter. Both or neither is wrong usage. */
export function requireSelection(
  ids: readonly string[],
  all: boolean | undefined,
  filter: ParkedFilter,
): void {
  const wantsAll = all === true || isFiltered(filter)
  if (ids.length > 0 && wantsAll) {
    throw usageFailure(
      'ids together with --all, --error-code or --reason',
      'give the ids of parked records, or --all, or --error-code or --reason for all records that match',
    )
  }
  if (ids.length === 0 && !wantsAll) {
    throw usageFailure(
      'no parked record is named',
      'give ids as `pipectl parked list DEST` shows them, or --all, or --error-code or --reason for all records that match',
    )
  }
}
