/**
 * Reads the records of a management body as text: parsing and printing them would change 12345678901234567890 and
 * 1.10. The body was parsed before, so it is valid JSON and an object.
 */
import { scanJson } from '../../ingest/parse.ts'
import { afterByteOrderMark, members, stringValue } from '../../log/record-text.ts'

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
    texts.push(onOneLine(array.toString('utf8', bounds[at], bounds[at + 1])))
  return texts
}

/** JSON has no line breaks inside strings, and elsewhere they are white space. */
function onOneLine(json: string): string {
  return json.replace(/[\r\n]/g, ' ')
}
