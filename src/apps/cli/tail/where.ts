/** `--where key=value`: selects the records of a tail. Values are compared as text, so that no number is rounded. */
import { usageFailure } from '../../client/failure.ts'
import { valueText } from '../../client/json-text.ts'

export type Condition = (recordText: string) => boolean

/** True if all conditions hold. Throws Failure (usage). */
export function conditionOf(wheres: readonly string[]): Condition {
  const conditions = wheres.map(one)
  return (recordText) => conditions.every((holds) => holds(recordText))
}

function one(where: string): Condition {
  const [, path, value] = /^([^=]+)=(.*)$/s.exec(where) ?? []
  if (path === undefined || value === undefined)
    throw usageFailure(
      `--where must be KEY=VALUE, not ${JSON.stringify(where)}`,
      'for instance --where status=paid, or --where customer.country=AT for a key inside an object',
    )
  return (recordText) => {
    const text = textAt(recordText, path)
    return text !== null && (text === value || (text.startsWith('"') && JSON.parse(text) === value))
  }
}

/** The value of the key with this name, or else of a key inside the object named before the first dot. */
function textAt(json: string, path: string): string | null {
  if (!json.trimStart().startsWith('{')) return null
  const whole = valueText(json, path)
  const dot = path.indexOf('.')
  if (whole !== null || dot === -1) return whole
  const inner = valueText(json, path.slice(0, dot))
  return inner === null ? null : textAt(inner, path.slice(dot + 1))
}
