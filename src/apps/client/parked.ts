/**
 * Functions about parked records that the CLI, `top` and the dashboard share: paging, results of replays, and records
 * as editable text.
 */
import type { ParkedError, ParkedReason, ParkedRecord } from '../../contract/parked.ts'
import type { PipeParkedRecord } from '../../contract/pipe-parked.ts'
import { backoffMs } from '../../platform/backoff.ts'
import type { Client } from './client.ts'
import { ApiFailure } from './failure.ts'
import { elementTexts, indented, valueText } from './json-text.ts'
import { type LanePath, type LaneRef, lanePath } from './workspace.ts'

/** The size of one response, which is the daemon's maximum. */
const pageSize = 500
const firstLookMs = 100
const lookEveryMs = 1_000

/**
 * The body of a replay. `records`: the JSON text of each record, sent unchanged. Null: replays the stored records.
 * `isForced`: of a record that is parked at its pipe, whether or not it matches the schema.
 */
export function replayBody(records: readonly string[] | null, isForced = false): Uint8Array<ArrayBuffer> {
  const members = [
    ...(records === null ? [] : [`"records":[${records.join(',')}]`]),
    ...(isForced ? ['"force":true'] : []),
  ]
  return new TextEncoder().encode(`{${members.join(',')}}`)
}

export interface ParkedFilter {
  error_code?: string | undefined
  reason?: ParkedReason | undefined
}

/** The part of the filter that is set, as queries and bodies of requests take it. */
export function givenFilter({ error_code, reason }: ParkedFilter) {
  return { ...(error_code && { error_code }), ...(reason && { reason }) }
}

export function isFiltered(filter: ParkedFilter): boolean {
  return Object.keys(givenFilter(filter)).length > 0
}

/** The options of `pipectl parked …` for the filter. */
export function filterOptions({ error_code, reason }: ParkedFilter): string[] {
  return [...(error_code ? ['--error-code', error_code] : []), ...(reason ? ['--reason', reason] : [])]
}

/** The first `most` records that match, with as many requests as needed. `hasMore`: there are others. */
export async function parkedRecords(
  client: Client,
  lane: LanePath | LaneRef,
  wanted: ParkedFilter,
  { most, signal }: { most: number; signal?: AbortSignal },
): Promise<{ parked: ParkedRecord[]; hasMore: boolean }> {
  const filter = givenFilter(wanted)
  const parked: ParkedRecord[] = []
  let after: string | null = null
  do {
    const limit = String(Math.min(pageSize, most - parked.length))
    const query: Record<string, string> = { ...filter, limit, ...(after !== null && { after }) }
    const { body } = await client.call('listParked', {
      path: lanePath(lane),
      query,
      signal,
    })
    parked.push(...body.parked)
    after = body.next
  } while (after !== null && parked.length < most)
  return { parked, hasMore: after !== null }
}

/** The result of a replay. `waiting`: it was not known in time. `left`: the record was not replayed. */
export type ReplayOutcome = { kind: 'stored' | 'waiting' | 'left' } | { kind: 'failed'; error: ParkedError }

export interface StartedReplay {
  parkedId: string
  /** The number of replays of the record, including this one. */
  replays: number
}

/** Polls for the result, first after 0.1 s, later every second. */
export async function replayOutcome(
  client: Client,
  lane: LanePath | LaneRef,
  replay: StartedReplay,
  waitMs: number,
): Promise<ReplayOutcome> {
  const untilMs = Date.now() + waitMs
  for (let looks = 1; ; looks += 1) {
    const pauseMs = backoffMs(looks, firstLookMs, lookEveryMs)
    const found = await outcomeNow(client, lane, replay)
    if (found.kind !== 'waiting' || Date.now() + pauseMs > untilMs) return found
    await new Promise((resolve) => setTimeout(resolve, pauseMs))
  }
}

async function outcomeNow(
  client: Client,
  lane: LanePath | LaneRef,
  { parkedId, replays }: StartedReplay,
): Promise<ReplayOutcome> {
  try {
    const { body } = await client.call('getParked', { path: { ...lanePath(lane), parked_id: parkedId } })
    if (body.replays < replays) return { kind: 'left' }
    // Another replay can have been requested meanwhile. Then all that is known is that this one failed.
    return body.state === 'replaying' ? { kind: 'waiting' } : { kind: 'failed', error: body.error }
  } catch (error) {
    if (error instanceof ApiFailure && error.code === 'parked_not_found') return { kind: 'stored' }
    throw error
  }
}

/** `22P02: invalid input syntax (column id, value abc)` */
export function errorWords({ code, message, column, value }: ParkedError): string {
  const where = [column === null ? null : `column ${column}`, value === null ? null : `value ${value}`]
  const known = where.filter((one) => one !== null).join(', ')
  return `${code}: ${message}${known === '' ? '' : ` (${known})`}`
}

/** `/n: must be a number; /m: …` */
export function faultWords({ errors }: Pick<PipeParkedRecord, 'errors'>): string {
  return errors.map(({ path, message }) => `${path || '/'}: ${message}`).join('; ')
}

/** Identifies the record: `104 #3`, or `104` for the complete message. */
export function placeWords({ stream_seq, record_index }: ParkedRecord): string {
  return record_index === null ? String(stream_seq) : `${stream_seq} #${record_index}`
}

export function stateWord({ state, reason }: Pick<ParkedRecord, 'state' | 'reason'>): string {
  if (state === 'replaying') return state
  return reason === 'skipped' ? reason : 'rejected'
}

/** The original text of each record in the body of a parked record or of a blocking message. */
export function recordTextsOf(body: string): string[] {
  return elementTexts(valueText(body, 'records') ?? '[]')
}

/** The text for editing: one record as an object, several as an array. */
export function editableText(records: readonly string[]): string {
  return indented(records.length === 1 ? records[0]! : `[${records.join(',')}]`)
}

/** Removes white space between tokens that editing added. Strings are unchanged. */
export function compacted(json: string): string {
  return json.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (part) => (part.startsWith('"') ? part : ''))
}

/** The start of each id: eight characters, or as many as needed to make them unique. */
export function shortIds(ids: readonly string[]): Map<string, string> {
  const sorted = [...ids].sort()
  const common = (a: string, b: string | undefined) => {
    let length = 0
    while (b !== undefined && length < a.length && a[length] === b[length]) length += 1
    return length
  }
  return new Map(
    sorted.map((id, at) => {
      const needed = 1 + Math.max(common(id, sorted[at - 1]), common(id, sorted[at + 1]))
      return [id, id.slice(0, Math.max(8, needed))]
    }),
  )
}
