/**
 * Deletes records from a segment by rewriting it (`compaction.ts`) with the same rows, in which the deleted records are
 * empty (`erased-body.ts`). Rows, seqs, totals and idempotency keys stay, so that no position in the log changes.
 *
 *   the erasure thread finds the rows ──▶ the writer rolls the segment if it is being written ──▶ rewrites it in slices
 *                                                                                 ──▶ the old file is unlinked
 *
 *   step                                              found after a crash right after it
 *   1 search a segment (erasure-thread.ts)            nothing has changed
 *   2 roll the newest segment, if it has a match      see layout.ts
 *   3 copy to compacted-segment.tmp, read it back,    the old segment and a .tmp file: removed. The deletion is repeated
 *     compare: only the records meant may differ
 *   4 rename it to the next generation, fsync the     both: the newer one is complete, the older one is removed (or, after
 *     directory                                       a power cut before the fsync, as after 3)
 *   5 unlink the old .db, -wal, -shm                  the new one; -wal and -shm without a .db are removed
 *   6 fsync the directory                             the new one: an unlink can no longer be undone
 *   7 remove quarantined files (erasure-thread.ts)    the others are removed when the deletion is repeated
 *
 * The caller repeats a deletion that a crash has ended. Rows without a match are not changed, so a repeat finds what is
 * left. A lane can have a batch under way meanwhile: its range is fixed by seqs, so a retry is the same batch under the same
 * identity, with fewer records.
 */
import { crc32 } from 'node:zlib'
import { eraseRecords } from '../erased-body.ts'
import { type ErasureCondition, isCandidate, matches } from '../erasure.ts'
import { bodyOf, headerOf, type MessageRow, rowChecksum } from './layout.ts'

/** One segment's part of a deletion. */
export interface SegmentErasure {
  firstSeq: number
  /** The messages with a match. */
  seqs: readonly number[]
  conditions: readonly ErasureCondition[]
}

/**
 * `gone`: the segment does not exist. `later`: it is damaged, or was replaced meanwhile; search it again. `disk_full`:
 * there was no room for the rewritten segment.
 */
export type ErasureOutcome = 'erased' | 'gone' | 'later' | 'disk_full'

export interface ErasedRow {
  row: MessageRow
  records: number
}

const crcAt = 5
const bodyAt = 10

/** Null: no record of the row is meant. */
export function erasedRow(
  row: MessageRow,
  pipeId: string,
  conditions: readonly ErasureCondition[],
): ErasedRow | null {
  const body = bodyOf(row)
  if (!conditions.every((condition) => isCandidate(body, condition))) return null
  const header = headerOf(row, pipeId)
  if (rowChecksum(header, crc32(body)) !== row[crcAt]) return erasedDamage(row, pipeId, conditions)
  const erased = eraseRecords(body, (record) => matches(record, conditions))
  if (erased === null) return null
  const crc = rowChecksum(header, crc32(erased.body))
  return { row: withBody(row, erased.body, crc), records: erased.records }
}

/** A body without records, from the format of `erased-body.ts`. */
const nothing = Buffer.from('\n')

/**
 * A damaged row is never delivered, but its bytes can be those of the person. Where its records are is uncertain, so all
 * of it is removed. The row stays damaged.
 */
function erasedDamage(
  row: MessageRow,
  pipeId: string,
  conditions: readonly ErasureCondition[],
): ErasedRow | null {
  const body = bodyOf(row)
  if (body.length <= nothing.length || !holdsValues(body, conditions)) return null
  const isIntact = rowChecksum(headerOf(row, pipeId), crc32(nothing)) === row[crcAt]
  return { row: withBody(row, nothing, isIntact ? row[crcAt] - 1 : row[crcAt]), records: row[4] }
}

/** True when the bytes contain every value. For bytes that cannot be read as records. */
export function holdsValues(bytes: Buffer, conditions: readonly ErasureCondition[]): boolean {
  return conditions.every(({ value }) => bytes.includes(value))
}

function withBody(row: MessageRow, body: Buffer, crc: number): MessageRow {
  const changed: MessageRow = [...row]
  changed[crcAt] = crc
  changed[bodyAt] = body
  return changed
}

/** Rewrites the rows of one segment: see `CompactionPlan`. */
export function rowEraser({
  seqs,
  conditions,
}: SegmentErasure): (row: MessageRow, pipeId: string) => MessageRow {
  const meant = new Set(seqs)
  return (row, pipeId) => (meant.has(row[0]) ? (erasedRow(row, pipeId, conditions)?.row ?? row) : row)
}
