/**
 * The condition `key=value` on a record: the same in searches, tails and pages. Values are compared as text, so that no
 * number is rounded: 1.10 is not 1.1. A string is compared with or without its quotes. Free of schemas, because pages
 * use it.
 *
 *   status=paid              {"status":"paid"}
 *   customer.country=AT      {"customer":{"country":"AT"}}, or the key with this name: {"customer.country":"AT"}
 */
export interface RecordCondition {
  path: string
  value: string
}

/** Null: the text is not a condition. */
export function conditionIn(text: string): RecordCondition | null {
  const [, path, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  return path === undefined || value === undefined ? null : { path, value }
}

/** Returns the text of the value of a top-level key of an object. Null: the key does not exist. */
export type MemberText = (json: string, key: string) => string | null

export function meets(record: string, { path, value }: RecordCondition, memberText: MemberText): boolean {
  const text = textAt(record, path, memberText)
  return text !== null && (text === value || (text.startsWith('"') && JSON.parse(text) === value))
}

/** The value of the key with this name, or else of a key inside the object named before the first dot. */
function textAt(json: string, path: string, memberText: MemberText): string | null {
  if (!json.trimStart().startsWith('{')) return null
  const whole = memberText(json, path)
  const dot = path.indexOf('.')
  if (whole !== null || dot === -1) return whole
  const inner = memberText(json, path.slice(0, dot))
  return inner === null ? null : textAt(inner, path.slice(dot + 1), memberText)
}
