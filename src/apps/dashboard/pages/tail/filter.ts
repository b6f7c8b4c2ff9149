/** The filter of records: `key=value`. Pure. */
import { conditionIn, meets } from '../../../../contract/record-condition.ts'
import { valueText } from '../../../client/json-text.ts'

/** Null: the text is not a valid filter. An empty filter matches every record. */
export function filterOf(text: string): ((recordText: string) => boolean) | null {
  if (text.trim() === '') return () => true
  const found = conditionIn(text.trim())
  if (found === null) return null
  const condition = { path: found.path.trim(), value: found.value.trim() }
  return (recordText) => meets(recordText, condition, valueText)
}
