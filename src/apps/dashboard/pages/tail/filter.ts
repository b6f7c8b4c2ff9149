/** The filter for records: `key=value`, by their JSON text, so that 1.10 is not 1.1. Pure. */
import { valueText } from '../../../client/json-text.ts'

/** Null: that is no filter. An empty one keeps everything. */
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
