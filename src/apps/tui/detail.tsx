/** One pipe or lane in detail. For a lane: the blocking message with its records and the error. */
import type { OverviewLane, OverviewPipe } from '../../contract/overview.ts'
import { laneWord } from '../../contract/state-words.ts'
import { ago, bytes, count, counted, duration, until } from '../../platform/quantities.ts'
import { laneCause } from '../client/lane-causes.ts'
import { errorLine, faultWords } from '../client/lane-error.ts'
import { fullName, kindOf } from '../client/workspace.ts'
import type { Row } from './rows.ts'
import { type NamedLine, Page, type PageProps } from './scroll.tsx'
import { stateMarks } from './state-marks.ts'

/** The message that blocks a lane, as the daemon returned it. */
export interface Blocking {
  msgId: string
  streamSeq: number
  receivedTs: string
  recordsCount: number
  /** The index of the first shown record, from 0. */
  from: number
  /** The index of the rejected record. Null: the destination does not identify it. */
  refused: number | null
  /** The original text of each record, on one line. */
  records: string[]
}

export interface DetailProps extends Omit<PageProps, 'lines' | 'nameWidth'> {
  row: Row
  blocking: Blocking | null
  /** The time of the snapshot. Times are shown relative to it. */
  nowMs: number
  /** The number of other lanes that fail for the same reason. */
  sameCause?: number
}

export function Detail({ row, blocking, nowMs, sameCause = 0, ...page }: DetailProps) {
  const { pipe, destination } = row
  const lines =
    destination === null ? pipeLines(pipe, nowMs) : laneLines(pipe, destination, { nowMs, sameCause })
  const records = destination === null || blocking === null ? [] : blockingLines(blocking, nowMs)
  const counters = destination === null ? [] : counterLines(destination, nowMs)
  return <Page lines={[...lines, ...records, ...counters]} nameWidth={18} {...page} />
}

function pipeLines(pipe: OverviewPipe, nowMs: number): NamedLine[] {
  const { usage_today: today } = pipe
  return [
    ['pipe', pipe.pipe_name],
    ['id', pipe.pipe_id],
    ['status', pipe.pipe_status],
    ['description', pipe.pipe_description || '-'],
    ['schema', schemaLine(pipe)],
    ['received today', `${count(today.ingest_records)} records, ${bytes(today.ingest_bytes)} (UTC)`],
    ['rejected today', `${count(today.rejected_requests)} requests`],
    ['delivered today', `${count(today.delivered_records)} records`],
    ...(today.filtered_records > 0
      ? [['filtered today', `${count(today.filtered_records)} records`] as [string, string]]
      : []),
    ['last record', ago(pipe.last_ingest_ts, nowMs)],
    ['pending', counted(pipe.pending_messages, 'message')],
    ['lanes', String(pipe.lanes.length)],
  ]
}

function schemaLine({ schema_on_mismatch: action }: OverviewPipe): string {
  if (action === undefined) return '-'
  const outcome = { reject: 'are rejected', park: 'are parked', tag: 'get their errors' }[action]
  return `records that do not match ${outcome}`
}

function laneLines(
  pipe: OverviewPipe,
  destination: OverviewLane,
  { nowMs, sameCause }: { nowMs: number; sameCause: number },
): NamedLine[] {
  const { lane } = destination
  const error = lane.last_error
  const state = laneWord(destination)
  const { sign, colour } = stateMarks[state]
  return [
    ['lane', fullName(pipe, destination)],
    ['target', `${kindOf(destination)}  ${destination.destination_target}`],
    [
      'state',
      `${sign} ${state}${lane.stale === true ? ', as saved last: delivery does not respond' : ''}`,
      colour,
    ],
    error === null ? ['error', '-'] : ['error', `${error.class} ${errorLine(error)}`, 'red'],
    ...(error?.fault
      ? [['at fault', faultWords(error, destination.destination_type)] satisfies NamedLine]
      : []),
    ...causeLines(destination, nowMs, sameCause),
    [
      'attempts',
      `${lane.attempts}${lane.next_attempt_ts === null ? '' : `, next ${until(lane.next_attempt_ts, nowMs)}`}`,
    ],
    ['first failed', lane.first_failed_ts === null ? '-' : withTime(lane.first_failed_ts, nowMs)],
    [
      'pending',
      `${counted(lane.pending_messages, 'message')}, ${bytes(lane.pending_bytes)}, oldest ${duration(lane.oldest_pending_age_seconds)}`,
    ],
  ]
}

/** They come after the blocking message: it has to be on the first screen of 80×24. */
function counterLines({ destination_id: id, lane }: OverviewLane, nowMs: number): NamedLine[] {
  return [
    ['cursor', `${lane.cursor_seq} of ${lane.head_seq}`],
    ...(lane.filtered_records
      ? [['filtered', `${count(lane.filtered_records)} records`] as [string, string]]
      : []),
    ['delivered', `${count(lane.delivered_records)} records, last ${ago(lane.last_delivered_ts, nowMs)}`],
    ['skipped, dropped', `${lane.skipped_messages}, ${lane.dropped_messages} messages`],
    ['parked', lane.parked_records ? `${count(lane.parked_records)}; x shows them` : '-'],
    ...(lane.unmapped_keys
      ? [['no column for', counted(lane.unmapped_keys, 'key')] as [string, string]]
      : []),
    ['id', id],
  ]
}

/** The cause in a few words, how many other lanes have it, and what to do. */
function causeLines(destination: OverviewLane, nowMs: number, sameCause: number): NamedLine[] {
  const found = laneCause(destination, nowMs)
  if (found === null) return []
  const { cause, advice } = found
  const server = destination.destination_server ? `, ${destination.destination_server}` : ''
  const others = sameCause === 0 ? '' : `; ${counted(sameCause, 'other lane')} too`
  return [
    ['cause', `${cause}${server}${others}`],
    ['what to do', advice],
  ]
}

function withTime(timestamp: string, nowMs: number): string {
  return `${ago(timestamp, nowMs)} (${timestamp})`
}

function blockingLines(blocking: Blocking, nowMs: number): NamedLine[] {
  return [
    ['', ''],
    ['blocking message', `${blocking.msgId}  stream_seq ${blocking.streamSeq}`],
    ['received', withTime(blocking.receivedTs, nowMs)],
    ['records', count(blocking.recordsCount)],
    ...blocking.records.map((record, index): NamedLine => {
      const place = blocking.from + index
      return [`  ${place}${place === blocking.refused ? ' rejected' : ''}`, record]
    }),
    ['', ''],
  ]
}
