/**
 * Stored bodies from which records were deleted (`erasure.ts`). The format is part of `record-text.ts`: the body begins
 * with a newline, and an empty line is in the place of each deleted record.
 *
 *   {"id":1}\n{"id":2}\n{"id":3}    ──delete id 2──▶    \n{"id":1}\n\n{"id":3}    ──delete all──▶    \n\n\n
 *   {"id":1}                        ──delete id 1──▶    \n
 *
 * The other records keep their indexes, from which their ids are derived, and the message keeps its count of records, which
 * offsets within a batch refer to. So a body from the log is passed on as it is, and whatever shows or delivers records
 * leaves the empty lines out.
 */
import type { StoredMessage } from './buffer.ts'
import { hasDeleted, lineFeed, recordPlace, records, recordTexts } from './record-text.ts'

export interface ErasedBody {
  body: Buffer
  /** The number of records that were deleted now. */
  records: number
}

/** Deletes records from a stored body. Null: there is nothing to delete. The new body is never larger. */
export function eraseRecords(body: Buffer, isMeant: (record: Buffer) => boolean): ErasedBody | null {
  const kept: Buffer[] = []
  let erased = 0
  for (const record of records(body)) {
    const isErased = record.length > 0 && isMeant(record)
    if (isErased) erased += 1
    kept.push(isErased ? record.subarray(0, 0) : record)
  }
  if (erased === 0) return null
  const lines: Buffer[] = []
  for (const record of kept) lines.push(newline, record)
  return { body: Buffer.concat(lines), records: erased }
}

const newline = Buffer.from([lineFeed])

/** The remaining records of a body. */
export interface KeptRecords {
  /** Without empty lines. Empty when all records were deleted. */
  body: Buffer
  /** The index of each in the given body. */
  places: number[]
  deleted: number
}

/** Null: no record of the body was deleted. */
export function keptRecords(body: Buffer): KeptRecords | null {
  if (!hasDeleted(body)) return null
  const lines: Buffer[] = []
  const places: number[] = []
  let index = 0
  for (const record of records(body)) {
    if (record.length > 0) {
      if (places.length > 0) lines.push(newline)
      lines.push(record)
      places.push(index)
    }
    index += 1
  }
  return { body: Buffer.concat(lines), places, deleted: index - places.length }
}

/** The message without its deleted records. */
export function withoutDeleted<Message extends StoredMessage>(message: Message): Message {
  const kept = keptRecords(message.body)
  if (kept === null) return message
  const places = kept.places.map((place) => recordPlace(message, place))
  return { ...message, body: kept.body, recordCount: places.length, places }
}

/** The records that were not deleted, each with its index in the body, from an index on. */
export function* placedRecords(body: Buffer, from = 0): Generator<{ index: number; record: Buffer }> {
  let index = -1
  for (const record of records(body)) {
    index += 1
    if (index >= from && record.length > 0) yield { index, record }
  }
}

/** The texts of the remaining records. */
export function keptTexts(body: Buffer): string[] {
  return recordTexts(body).filter((text) => text !== '')
}

/** A stored body with the records from an index on. */
export function bodyFrom(body: Buffer, index: number): Buffer {
  const texts = recordTexts(body).slice(index).join('\n')
  return Buffer.from(hasDeleted(body) ? `\n${texts}` : texts)
}
