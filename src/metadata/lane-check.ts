/**
 * The checksum of a lane's row, over what delivery trusts: a flipped bit in a cursor would pass messages over without a
 * sign. A row that fails it says nothing about where its lane is.
 */
import { crc32 } from 'node:zlib'
import type { LaneRow } from './database.ts'

const checkedColumns = [
  'destination_id',
  'cursor_seq',
  'cursor_mark',
  'batch_first_seq',
  'batch_last_seq',
  'bisect_last_seq',
  'record_offset',
  'lease_msg_id',
  'owner_epoch',
] as const satisfies readonly (keyof LaneRow)[]

/** Later columns count where they hold something: a row from before them keeps its checksum. */
const laterColumns = [
  'next_first_seq',
  'next_last_seq',
  'generation',
] as const satisfies readonly (keyof LaneRow)[]

export type CheckedLane = Pick<LaneRow, (typeof checkedColumns)[number]> &
  Partial<Pick<LaneRow, (typeof laterColumns)[number]>>

/** Numbers count by their digits: PostgreSQL returns 64-bit integers as text. */
export function laneRowCheck(row: CheckedLane): number {
  const checked = checkedColumns.map((column) => row[column] ?? '')
  const later = laterColumns.map((column) => Number(row[column] ?? 0) || '')
  while (later.at(-1) === '') later.pop()
  return crc32([...checked, ...later].join('\n'))
}

/** A row without a checksum was not written by this version: nothing is known against it. */
export function isLaneRowIntact(row: LaneRow): boolean {
  return row.row_check === null || Number(row.row_check) === laneRowCheck(row)
}
