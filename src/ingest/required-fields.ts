/** Spec "Ingest": after enrichment each record must have every top-level key that an active database destination requires. */
import { ApiError } from '../contract/errors.ts'
import type { JsonRecord } from './parse.ts'

/** Throws `missing_required_fields` with the first such record's `record_index` and all of its missing `fields`. */
export function requireFields(
  records: readonly JsonRecord[],
  requiredFields: readonly string[],
  enrichmentKeys: readonly string[],
): void {
  const fromClient = requiredFields.filter((field) => !enrichmentKeys.includes(field))
  if (fromClient.length === 0) return
  for (let index = 0; index < records.length; index++) {
    const record = records[index]!
    // hasOwn: a record without the key "toString" still inherits one.
    const fields = fromClient.filter((field) => !Object.hasOwn(record, field))
    if (fields.length > 0) {
      throw new ApiError('missing_required_fields', {
        message: `Record ${index} lacks ${fields.map((field) => JSON.stringify(field)).join(', ')}.`,
        details: { record_index: index, fields },
      })
    }
  }
}
