/**
 * Translates rows that contain seqs when their messages get new seqs. Pure.
 *
 *   cursor        just after the newest moved message that it was after; messages that were dropped before the lane reached
 *                 them are counted as dropped now, as they would be at the lane's next run
 *   fixed ranges  the same first and last message; a range that has lost one end is cut again
 *   history       the kept messages of the run; the batch that carried them has no number any longer
 *   parked        the seq of the message; without a kept message the old seq, which is below all others
 */

import {
  asNextRanges,
  type LaneState,
  type NextRanges,
  nextRanges,
  type SeqRange,
} from '../../metadata/lane-state.ts'
import { encodeLane } from '../../metadata/lane-store.ts'
import type { LaneHistoryRow, LaneRow, ParkedRow } from '../../metadata/tables.ts'
import type { MovedLane } from './metadata-store.ts'
import type { MovedSeq } from './seq-map.ts'

/** `SeqMap`, or a shift of all numbers. */
export interface NewSeqs {
  of(seq: number): MovedSeq
}

/** Messages of a pipe that are missing in the source. */
export interface Gap {
  /** Lanes whose cursor is before this seq have lost them. */
  throughSeq: number
  messages: number
}

/** Every seq in the lane's rows. */
export function namedSeqs({ state, isIntact, history, parkedSeqs }: MovedLane): number[] {
  const { cursorSeq, batchFirstSeq, batchLastSeq, bisectLastSeq, rewoundFromSeq } = state
  const ranges = [batchFirstSeq, batchLastSeq, bisectLastSeq, ...nextRanges(state).flat(), rewoundFromSeq]
  const runs = history.flatMap((run) => [run.firstSeq, run.lastSeq])
  const position = isIntact ? [cursorSeq, ...ranges.filter((seq) => seq !== null)] : []
  return [...position, ...runs, ...parkedSeqs]
}

/** No process owns the lane yet. Its mark is looked up when it starts. */
export function translatedLane({ state, isIntact }: MovedLane, map: NewSeqs, gaps: readonly Gap[]): LaneRow {
  const row = encodeLane({
    ...state,
    ...(isIntact ? rangesOf(state, map) : noRanges),
    cursorSeq: isIntact ? (map.of(state.cursorSeq).through ?? 0) : 0,
    cursorMark: null,
    rewoundFromSeq: state.rewoundFromSeq === null ? null : map.of(state.rewoundFromSeq).through,
    droppedMessages: state.droppedMessages + (isIntact ? lostBehind(state.cursorSeq, gaps) : 0),
    ownerEpoch: 0,
  })
  // A damaged row stays damaged. The lane's owner detects this and starts at the earliest message.
  return isIntact ? row : { ...row, row_check: (row.row_check + 1) % 2 ** 32 }
}

/** Null: no message of the run is kept. */
export function translatedRun(row: LaneHistoryRow, map: NewSeqs): LaneHistoryRow | null {
  const first = map.of(row.first_seq).from
  const last = map.of(row.last_seq).through
  if (first === null || last === null || first > last) return null
  return { ...row, first_seq: first, last_seq: last, batch_last_seq: null }
}

export function translatedParked(row: ParkedRow, map: NewSeqs): ParkedRow {
  const { at } = map.of(row.stream_seq)
  return at === null ? row : { ...row, stream_seq: at }
}

const nothingUnderWay = {
  attempts: 0,
  firstFailedMs: null,
  nextAttemptMs: null,
  blockingMsgId: null,
  lastError: null,
  leaseMsgId: null,
  leaseUntilMs: null,
}

const noRanges = {
  batchFirstSeq: null,
  batchLastSeq: null,
  bisectLastSeq: null,
  nextFirstSeq: null,
  nextLastSeq: null,
  laterRanges: null,
  recordOffset: 0,
}

function rangesOf(state: LaneState, map: NewSeqs): Partial<LaneState> {
  if (state.batchFirstSeq === null) return { ...noRanges, ...translatedNext(state, map) }
  const at = (seq: number | null) => (seq === null ? null : map.of(seq).at)
  const [first, last] = [at(state.batchFirstSeq), at(state.batchLastSeq)]
  if (first === null || last === null) return { ...noRanges, ...nothingUnderWay }
  const bisectLast = at(state.bisectLastSeq)
  // Without the end of the search, its range is undefined.
  if (state.bisectLastSeq !== null && bisectLast === null) return { ...noRanges, ...nothingUnderWay }
  return {
    batchFirstSeq: first,
    batchLastSeq: last,
    bisectLastSeq: bisectLast,
    ...translatedNext(state, map),
  }
}

/** The ranges up to the first that has lost one end. */
function translatedNext(state: LaneState, map: NewSeqs): NextRanges {
  const ranges: SeqRange[] = []
  for (const [firstSeq, lastSeq] of nextRanges(state)) {
    const [first, last] = [map.of(firstSeq).at, map.of(lastSeq).at]
    if (first === null || last === null) break
    ranges.push([first, last])
  }
  return asNextRanges(ranges)
}

function lostBehind(cursorSeq: number, gaps: readonly Gap[]): number {
  return gaps.reduce((sum, gap) => (gap.throughSeq > cursorSeq ? sum + gap.messages : sum), 0)
}
