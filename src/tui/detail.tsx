/** One pipe or lane in full: for a lane what blocks it, with the records and the error. */
import { Box, Text } from 'ink'
import { printable } from '../client/printable.ts'
import { bytes, count, duration } from '../client/quantities.ts'
import { describeTarget, kindOf } from '../client/workspace.ts'
import type { Destination } from '../contract/destination.ts'
import type { PipeState, Row } from './snapshot.ts'

/** The message that blocks a lane, as the daemon showed it. */
export interface Blocking {
  msgId: string
  streamSeq: number
  receivedTs: string
  recordsCount: number
  /** Each record's own text, one line each. */
  records: string[]
}

export function Detail({ row, blocking, height }: { row: Row; blocking: Blocking | null; height: number }) {
  const lines = row.destination === null ? pipeLines(row.pipe) : laneLines(row.pipe, row.destination)
  const records = row.destination === null || blocking === null ? [] : blockingLines(blocking)
  const shown = [...lines, ...records].slice(0, height)
  return (
    <Box flexDirection="column" height={height}>
      {shown.map(([name, value], index) => (
        // The lines of a detail have no identity but their place.
        // biome-ignore lint/suspicious/noArrayIndexKey: see above
        <Text key={index} wrap={name === 'error' ? 'wrap' : 'truncate'}>
          <Text dimColor>{name.padEnd(18)}</Text>
          <Text color={name === 'error' && value !== '-' ? 'red' : undefined}>{printable(value)}</Text>
        </Text>
      ))}
    </Box>
  )
}

type DetailLine = [name: string, value: string]

function pipeLines({ pipe, usage, destinations }: PipeState): DetailLine[] {
  return [
    ['pipe', pipe.pipe_name],
    ['id', pipe.pipe_id],
    ['status', pipe.pipe_status],
    ['description', pipe.pipe_description || '-'],
    ['taken in, 24 h', `${count(usage?.ingest_records ?? 0)} records, ${bytes(usage?.ingest_bytes ?? 0)}`],
    ['rejected, 24 h', `${count(usage?.rejected_requests ?? 0)} requests`],
    ['delivered, 24 h', `${count(usage?.delivered_records ?? 0)} records`],
    ['last record', usage?.last_ingest_ts ?? 'never'],
    ['waiting', `${count(usage?.pending_messages ?? 0)} messages`],
    ['lanes', String(destinations.length)],
  ]
}

function laneLines({ pipe }: PipeState, destination: Destination): DetailLine[] {
  const { lane } = destination
  const error = lane.last_error
  return [
    ['lane', `${pipe.pipe_name}/${kindOf(destination)}  ${destination.destination_id}`],
    ['target', describeTarget(destination)],
    ['state', lane.lane_state],
    ['error', error === null ? '-' : `${error.class} ${error.code}: ${error.message}`],
    [
      'attempts',
      `${lane.attempts}${lane.next_attempt_ts === null ? '' : `, next at ${lane.next_attempt_ts}`}`,
    ],
    ['failing since', lane.first_failed_ts ?? '-'],
    [
      'waiting',
      `${count(lane.pending_messages)} messages, ${bytes(lane.pending_bytes)}, oldest ${duration(lane.oldest_pending_age_seconds)}`,
    ],
    ['cursor', `${lane.cursor_seq} of ${lane.head_seq}`],
    ['delivered', `${count(lane.delivered_records)} records, last ${lane.last_delivered_ts ?? 'never'}`],
    ['skipped, dropped', `${lane.skipped_messages}, ${lane.dropped_messages} messages`],
  ]
}

function blockingLines(blocking: Blocking): DetailLine[] {
  return [
    ['', ''],
    ['blocking message', `${blocking.msgId}  stream_seq ${blocking.streamSeq}`],
    ['received', blocking.receivedTs],
    ['records', count(blocking.recordsCount)],
    ...blocking.records.map((record, index): DetailLine => [`  ${index}`, record]),
  ]
}
