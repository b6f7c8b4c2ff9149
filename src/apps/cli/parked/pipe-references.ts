/** Resolves records parked at a pipe: by id, or by a unique start of an id. */
import type { PipeParkedRecord } from '../../../contract/pipe-parked.ts'
import { isUuid } from '../../../contract/uuid.ts'
import type { Client } from '../../client/client.ts'
import { notFoundFailure, usageFailure } from '../../client/failure.ts'
import { findPipe } from '../references.ts'

export interface NamedPipe {
  pipe_id: string
  pipe_name: string
}

export interface PipeParkedFilter {
  error_path?: string | undefined
}

const pageSize = 500
/** The number of records that are searched for the start of an id. */
const searched = 20_000
const shortestPrefix = 4

export async function pipeNamed(client: Client, reference: string): Promise<NamedPipe> {
  const { pipe_id, pipe_name } = await findPipe(client, reference)
  return { pipe_id, pipe_name }
}

/** The first `most` records that match, with as many requests as needed. `count`: of all that are parked. */
export async function pipeParkedRecords(
  client: Client,
  { pipe_id }: Pick<NamedPipe, 'pipe_id'>,
  { error_path }: PipeParkedFilter,
  most: number,
): Promise<{ parked: PipeParkedRecord[]; hasMore: boolean; count: number }> {
  const parked: PipeParkedRecord[] = []
  let count = 0
  let after: string | null = null
  do {
    const limit = String(Math.min(pageSize, most - parked.length))
    const filter: Record<string, string> = error_path === undefined ? {} : { error_path }
    const query: Record<string, string> = { ...filter, limit, ...(after !== null && { after }) }
    const { body } = await client.call('listPipeParked', { path: { pipe_id }, query })
    parked.push(...body.parked)
    count = body.count
    after = body.next
  } while (after !== null && parked.length < most)
  return { parked, hasMore: after !== null, count }
}

/** The ids of these references. Throws Failure: not found for none, usage for several. */
export async function findPipeParkedIds(
  client: Client,
  pipe: NamedPipe,
  references: readonly string[],
): Promise<string[]> {
  const lower = references.map((reference) => reference.toLowerCase())
  if (lower.every(isUuid)) return [...new Set(lower)]
  const { parked } = await pipeParkedRecords(client, pipe, {}, searched)
  return [...new Set(lower.map((one) => (isUuid(one) ? one : onlyOne(pipe, one, parked))))]
}

function onlyOne(pipe: NamedPipe, reference: string, parked: readonly PipeParkedRecord[]): string {
  const matches = parked.filter(
    ({ parked_id: id }) => reference.length >= shortestPrefix && id.startsWith(reference),
  )
  if (matches.length === 1) return matches[0]!.parked_id
  if (matches.length > 1)
    throw usageFailure(
      `${JSON.stringify(reference)} matches ${matches.length} parked records`,
      'name one of them by more of its id',
    )
  throw notFoundFailure(
    `no parked record of ${pipe.pipe_name} begins with ${JSON.stringify(reference)}`,
    `\`pipectl pipes parked list ${pipe.pipe_name}\` shows what is parked; ids can be shortened to ${shortestPrefix} characters or more`,
  )
}
