/** Finds the first record of a body that meets a condition, and the excerpt that is shown of a record. Pure. */
import { meets, type RecordCondition } from '../../contract/record-condition.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { hasDeleted, lineFeed, pickMembers, records } from '../../log/record-text.ts'
import type { RecordExcerpt } from './history.ts'

/**
 * Most records are rejected by a search for bytes: a record that meets the condition contains the last key of the path
 * and the value as they are, unless it has an escape, which begins with a backslash.
 */
export function matcherOf(condition: RecordCondition): (body: Buffer) => RecordExcerpt | null {
  const key = Buffer.from(condition.path.slice(condition.path.lastIndexOf('.') + 1))
  const value = Buffer.from(condition.value)
  const isCandidate = (text: Buffer) => (text.includes(value) && text.includes(key)) || text.includes('\\')
  return (body) => {
    if (!isCandidate(body)) return null
    let index = 0
    for (const record of records(body)) {
      if (isCandidate(record) && meets(record.toString('utf8'), condition, memberText))
        return excerptOf(record, index, false)
      index += 1
    }
    return null
  }
}

function memberText(json: string, key: string): string | null {
  const values: (string | undefined)[] = [undefined]
  pickMembers(json, new Map([[key, 0]]), values)
  return values[0] ?? null
}

/** The excerpt of the first record that was not deleted; null when the beginning of the body shows none. */
export function firstExcerpt(beginning: Buffer, isPart: boolean): RecordExcerpt | null {
  if (!hasDeleted(beginning)) return excerptOf(beginning, 0, isPart)
  let at = 1
  while (beginning[at] === lineFeed) at += 1
  return at < beginning.length ? excerptOf(beginning.subarray(at), at - 1, isPart) : null
}

/** `text` starts with a record. `isPart`: it is the beginning of a longer text. */
export function excerptOf(text: Buffer, index: number, isPart: boolean): RecordExcerpt {
  const { excerptCharacters, listedBytes } = resourceLimits
  const lineEnd = text.indexOf('\n')
  const bytes = lineEnd === -1 ? text.length : lineEnd
  const record = text.toString('utf8', 0, Math.min(bytes, listedBytes))
  const shown = cutText(record, excerptCharacters)
  const isCut = shown.length < record.length || bytes > listedBytes || (isPart && lineEnd === -1)
  // The bytes can end within a character.
  return { index, text: isCut ? shown.replace(/\ufffd$/, '') : shown, isCut }
}

/** Does not cut a character of two code units. */
function cutText(text: string, characters: number): string {
  if (text.length <= characters) return text
  const last = text.charCodeAt(characters - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? characters - 1 : characters)
}
