/** JSON.parse of Node.js 24 mistakes some keys that are written with escapes, so records with such keys are read again. */
import { hasEscapedKey, readJson } from '../../log/json-reader.ts'
import { backslash } from '../../log/record-text.ts'
import type { ParsedBody } from '../parse.ts'

/** The records of a body, with the keys as they are written. */
export function recordsToCheck({ records, bounds, bytes }: ParsedBody): readonly unknown[] {
  if (!bytes.includes(backslash) || !hasEscapedKey(bytes.toString('latin1'))) return records
  return records.map((record, index) => {
    const text = bytes.toString('utf8', bounds[2 * index], bounds[2 * index + 1])
    return hasEscapedKey(text) ? readJson(text) : record
  })
}

export function parseToCheck(text: string): unknown {
  return hasEscapedKey(text) ? readJson(text) : JSON.parse(text)
}
