/** Sample records that a request contains, as NDJSON. */
import { validationError } from '../../contract/errors.ts'
import { isObject } from '../../contract/is-object.ts'

/** Returns the records as they are stored: one per line, without empty lines. Throws `validation_error`. */
export function sampleRecords(sample: string): string {
  const lines = sample.split('\n').map((line) => line.trim())
  const records = lines.filter((line) => line !== '')
  if (records.length === 0) throw validationError({ sample: 'contains no records' })
  lines.forEach((line, index) => {
    if (line !== '' && !isRecord(line))
      throw validationError({
        sample: `line ${index + 1} is not a JSON object: NDJSON has one object per line`,
      })
  })
  return records.join('\n')
}

function isRecord(line: string): boolean {
  try {
    return isObject(JSON.parse(line))
  } catch {
    return false
  }
}
