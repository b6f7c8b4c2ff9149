/**
 * The records in a management body as text: parsed and printed again, 12345678901234567890 and 1.10 would be others. The body
 * was parsed before, so it is valid JSON, and an object.
 */
import { afterByteOrderMark, scanJson } from '../../ingest/parse.ts'
import { members, stringValue } from '../../log/record-text.ts'

/** The text of each object in the array at `key`, each on one line; null: there is no such array, or it is empty. */
export function recordTextsAt(body: Buffer, key: string): string[] | null {
  let array: Buffer | null = null
  // A key that is there twice counts with its last value, as in JSON.parse.
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

/** Inside strings JSON has no line break, and outside it is white space. */
function onOneLine(json: string): string {
  return json.replace(/[\r\n]/g, ' ')
}
