/**
 * Reads the records of a management body as text: parsing and printing them would change 12345678901234567890 and
 * 1.10. The body was parsed before, so it is valid JSON and an object.
 */
import { validationError } from '../../contract/errors.ts'
import { isObject } from '../../contract/is-object.ts'
import { scanJson } from '../../ingest/parse.ts'
import { afterByteOrderMark, jsonTextOnOneLine, members, stringValue } from '../../log/record-text.ts'

/** A body `{…head, "records": […], …tail}` with the text of each record, which must not pass through a parser. */
export function bodyWithRecords(head: object, recordTexts: readonly string[], tail: object = {}): Buffer {
  const before = JSON.stringify(head).slice(0, -1)
  const after = JSON.stringify(tail).slice(1)
  return Buffer.from(`${before},"records":[${recordTexts.join(',')}]${after === '}' ? '' : ','}${after}`)
}

/**
 * Returns the text of each object in the array at `key`, each on one line. Null if there is no such array or it is
 * empty.
 */
export function recordTextsAt(body: Buffer, key: string): string[] | null {
  let array: Buffer | null = null
  // If the key is repeated, its last value counts, as in JSON.parse.
  for (const member of members(body.subarray(afterByteOrderMark(body))))
    if (stringValue(member.key.toString()) === key) array = member.value
  if (array === null) return null
  const limits = { maxRecords: array.length, maxKeys: array.length }
  const { bounds, isArray } = scanJson(array, 0, array.length, limits)
  if (!isArray || bounds.length === 0) return null
  const texts: string[] = []
  for (let at = 0; at < bounds.length; at += 2)
    texts.push(jsonTextOnOneLine(array.toString('utf8', bounds[at], bounds[at + 1])))
  return texts
}

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
