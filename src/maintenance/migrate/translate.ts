/**
 * What becomes of the rows that name a seq when their messages get others. Pure.
 *
 *   cursor        just after the newest moved message that it was after; what was kept no longer when the lane stood before it
 *                 counts as dropped now, as it would when the lane ran next
 *   fixed ranges  first and last message as they were; a range one end of which is not kept is cut again
 *   history       the messages of the run that are kept; the batch that carried them has no number any more
 *   parked        the message's; one that the buffer does not keep any longer keeps its number, which lies below all others
 */
import type { Cursor } from '../../log/buffer.ts'
import type { LaneHistoryRow, LaneRow, ParkedRow } from '../../metadata/database.ts'
import { laneRowCheck } from '../../metadata/lane-check.ts'
import type { MovedLane } from './metadata-store.ts'
import type { SeqMap } from './seq-map.ts'

/** Messages of a pipe that are not there to be moved. */
export interface Gap {
  /** The lanes that stand before it have lost them. */
  throughSeq: number
  messages: number
}

/** Every seq that the lane's rows name. */
export function namedSeqs({ row, isIntact, history, parkedSeqs }: MovedLane): number[] {
  const { cursor_seq, batch_first_seq, batch_last_seq, bisect_last_seq, next_first_seq, next_last_seq } = row
  const ranges = [batch_first_seq, batch_last_seq, bisect_last_seq, next_first_seq, next_last_seq]
  const runs = history.flatMap((run) => [run.firstSeq, run.lastSeq])
  const place = isIntact ? [cursor_seq, ...ranges.filter((seq) => seq !== null)] : []
  return [...place, ...runs, ...parkedSeqs].map(Number)
}

/** Where the lane's cursor is to be: a seq of the target, 0 before the first message. */
export function cursorOf({ row, isIntact }: MovedLane, map: SeqMap): number {
  return isIntact ? (map.of(Number(row.cursor_seq)).through ?? 0) : 0
}

/** `cursor`: as the target says it for `cursorOf`. Nobody owns the lane there yet. */
export function translatedLane(
  { row, isIntact }: MovedLane,
  cursor: Cursor,
  map: SeqMap,
  gaps: Gap[],
): LaneRow {
  const moved = {
    ...row,
    ...(isIntact ? rangesOf(row, map) : noRanges),
    cursor_seq: cursor.seq,
    cursor_mark: cursor.mark,
    dropped_messages:
      Number(row.dropped_messages) + (isIntact ? lostBehind(Number(row.cursor_seq), gaps) : 0),
    owner_epoch: 0,
  }
  const check = laneRowCheck(moved)
  // Damaged it stays: whoever opens the lane there finds it so, and begins at the earliest message.
  return { ...moved, row_check: isIntact ? check : (check + 1) % 2 ** 32 }
}

/** Null: nothing of it is kept. */
export function translatedRun(row: LaneHistoryRow, map: SeqMap): LaneHistoryRow | null {
  const first = map.of(Number(row.first_seq)).from
  const last = map.of(Number(row.last_seq)).through
  if (first === null || last === null || first > last) return null
  return { ...row, first_seq: first, last_seq: last, batch_last_seq: null }
}

export function translatedParked(row: ParkedRow, map: SeqMap): ParkedRow {
  const { at } = map.of(Number(row.stream_seq))
  return at === null ? row : { ...row, stream_seq: at }
}

const nothingUnderWay = {
  ...{ attempts: 0, first_failed_ms: null, next_attempt_ms: null, blocking_msg_id: null },
  ...{ error_class: null, error_code: null, error_message: null, error_fault: null },
  ...{ error_record_index: null, error_column: null, error_value: null },
  ...{ lease_msg_id: null, lease_until_ms: null },
}

const noRanges = {
  batch_first_seq: null,
  batch_last_seq: null,
  bisect_last_seq: null,
  next_first_seq: null,
  next_last_seq: null,
  record_offset: 0,
}

function rangesOf(row: LaneRow, map: SeqMap): Partial<LaneRow> {
  if (row.batch_first_seq === null) return noRanges
  const at = (seq: number | null) => (seq === null ? null : map.of(Number(seq)).at)
  const [first, last] = [at(row.batch_first_seq), at(row.batch_last_seq)]
  if (first === null || last === null) return { ...noRanges, ...nothingUnderWay }
  const isBisected = row.bisect_last_seq !== null
  const bisectLast = at(row.bisect_last_seq)
  // Without the end of the search nobody would know what is part of it.
  if (isBisected && bisectLast === null) return { ...noRanges, ...nothingUnderWay }
  const [nextFirst, nextLast] = [at(row.next_first_seq), at(row.next_last_seq)]
  const hasNext = nextFirst !== null && nextLast !== null
  return {
    batch_first_seq: first,
    batch_last_seq: last,
    bisect_last_seq: bisectLast,
    next_first_seq: hasNext ? nextFirst : null,
    next_last_seq: hasNext ? nextLast : null,
    record_offset: row.record_offset,
  }
}

function lostBehind(cursorSeq: number, gaps: readonly Gap[]): number {
  return gaps.reduce((sum, gap) => (gap.throughSeq > cursorSeq ? sum + gap.messages : sum), 0)
}
