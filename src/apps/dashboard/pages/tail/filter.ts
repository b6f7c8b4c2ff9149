/** The filter of records: `key=value`, compared with the JSON text, so that 1.10 is not 1.1. Pure. */
import { valueText } from '../../../client/json-text.ts'

/** Null: the text is not a valid filter. An empty filter matches every record. */
export function filterOf(text: string): ((recordText: string) => boolean) | null {
  const given = text.trim()
  if (given === '') return () => true
  const at = given.indexOf('=')
  if (at < 1) return null
  const [key, wanted] = [given.slice(0, at).trim(), given.slice(at + 1).trim()]
  return (recordText) => {
    const value = valueText(recordText, key)
    if (value === null) return false
    return value === wanted || (value.startsWith('"') && JSON.parse(value) === wanted)
  }
}
