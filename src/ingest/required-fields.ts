/**
 * Checks required fields. Separate from admission.ts because parser threads load it, and their small heap has no room
 * for the schema library that admission needs.
 */
import { ApiError } from '../contract/errors.ts'
import { members, stringValue } from '../log/record-text.ts'
import type { ParsedBody } from './parse.ts'

/** `indexes`: the index in the request of each record, if some records were left out. */
interface CheckedBody extends Pick<ParsedBody, 'records' | 'bounds' | 'bytes'> {
  indexes?: readonly number[]
}

/**
 * docs/dev/contract.md#required-fields: after enrichment each record must have every top-level key that an active
 * database destination requires. Throws `missing_required_fields` with the first incomplete record and all of its
 * missing fields.
 */
export function requireFields(
  { records, bounds, bytes, indexes }: CheckedBody,
  requiredFields: readonly string[],
  enrichmentKeys: readonly string[],
): void {
  const fromClient = requiredFields.filter((field) => !enrichmentKeys.includes(field))
  if (fromClient.length === 0) return
  for (let index = 0; index < records.length; index++) {
    const record = records[index]!
    // hasOwn, because every record inherits a member "toString".
    if (fromClient.every((field) => Object.hasOwn(record, field))) continue
    // JSON.parse of V8 13.6 (Node.js 24) confuses some keys that are written with escapes, so the raw keys are checked.
    const keys = keysOf(bytes.subarray(bounds[2 * index], bounds[2 * index + 1]))
    const fields = fromClient.filter((field) => !keys.has(field))
    if (fields.length > 0) {
      const place = indexes?.[index] ?? index
      throw new ApiError('missing_required_fields', {
        message: `Record ${place} lacks ${fields.map((field) => JSON.stringify(field)).join(', ')}.`,
        details: { record_index: place, fields },
      })
    }
  }
}

function keysOf(record: Buffer): Set<string> {
  const keys = new Set<string>()
  for (const { key } of members(record)) keys.add(stringValue(key.toString()))
  return keys
}
