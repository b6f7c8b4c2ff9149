/**
 * Explains a fault in JSON that a user typed, with line and column. The messages are our own, because those of
 * JSON.parse differ from one engine to the next and often name no position. Pure; one pass, no recursion.
 */

/** Levels of nesting that a record may have, as ingest allows them. */
const maxDepth = 100

export interface JsonFault {
  /** From 1. */
  line: number
  column: number
  message: string
}

/** The texts of one record, or of an array of them; or the first thing that is wrong. */
export type CheckedRecords = { records: string[]; fault: null } | { records: null; fault: JsonFault }

interface Problem {
  at: number
  message: string
}

/** Checks records that a user typed: one JSON object or an array of them. At least one, at most `most`. */
export function checkRecords(text: string, most = Number.POSITIVE_INFINITY): CheckedRecords {
  const fault = (at: number, message: string): CheckedRecords => ({
    records: null,
    fault: { ...placeOf(text, at), message },
  })
  const bounds: number[] = []
  const problem = findProblem(text, (start, end) => bounds.push(start, end))
  if (problem !== null) return fault(problem.at, problem.message)
  const records: string[] = []
  for (let at = 0; at < bounds.length; at += 2) {
    const start = bounds[at]!
    if (text[start] !== '{') return fault(start, 'every record must be a JSON object')
    if (records.length === most)
      return fault(start, `there may be ${most} of them at most: as many as are parked`)
    records.push(text.slice(start, bounds[at + 1]!))
  }
  if (records.length === 0) return fault(skipSpace(text, 0), 'there must be at least one record')
  return { records, fault: null }
}

type State = 'value' | 'first value' | 'key' | 'first key' | 'colon' | 'after value'

/**
 * Null: it is JSON. `onRecord` is called with the bounds of each element of the outer array, or of the outer value where it is
 * none.
 */
function findProblem(text: string, onRecord: (start: number, end: number) => void): Problem | null {
  const open: ('{' | '[')[] = []
  let state = 'value' as State
  let recordStart = 0
  let recordDepth = 0
  let at = skipSpace(text, 0)
  const ended = () => {
    if (open.length === recordDepth) onRecord(recordStart, at)
    state = 'after value'
  }
  const close = () => {
    open.pop()
    at += 1
    ended()
  }
  while (at < text.length) {
    const character = text[at]!
    if (state === 'after value') {
      if (open.length === 0) return { at, message: `${shown(character)} after the end` }
      const inObject = open.at(-1) === '{'
      if (character === ',') state = inObject ? 'key' : 'value'
      else if (character !== (inObject ? '}' : ']'))
        return { at, message: `expected , or ${inObject ? '}' : ']'}, found ${shown(character)}` }
      else {
        close()
        at = skipSpace(text, at)
        continue
      }
      at += 1
    } else if (state === 'colon') {
      if (character !== ':') return { at, message: `expected : after the key, found ${shown(character)}` }
      state = 'value'
      at += 1
    } else if (state === 'key' || state === 'first key') {
      if (character === '}' && state === 'first key') close()
      else if (character === '"') {
        const string = stringEnd(text, at)
        if (typeof string !== 'number') return string
        at = string
        state = 'colon'
      } else if (character === '}') return { at, message: 'a comma is before this }, with nothing after it' }
      else return { at, message: `expected a key in double quotes, found ${shown(character)}` }
    } else if (character === ']' && state === 'first value') close()
    else {
      if (open.length === recordDepth) recordStart = at
      if (character === '[' && open.length === 0) {
        open.push('[')
        recordDepth = 1
        state = 'first value'
        at += 1
      } else if (character === '{' || character === '[') {
        if (open.length >= recordDepth + maxDepth)
          return { at, message: `a record is nested more than ${maxDepth} levels deep` }
        open.push(character)
        state = character === '{' ? 'first key' : 'first value'
        at += 1
      } else {
        const end = character === '"' ? stringEnd(text, at) : scalarEnd(text, at)
        if (typeof end !== 'number') return end
        at = end
        ended()
      }
    }
    at = skipSpace(text, at)
  }
  if (state === 'after value' && open.length === 0) return null
  return { at: text.length, message: 'it ends before it is complete' }
}

const scalar = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y
const word = /[^\s,:{}[\]"]*/y

/** Where a number or literal ends. */
function scalarEnd(text: string, at: number): number | Problem {
  word.lastIndex = at
  const found = word.exec(text)?.[0] ?? ''
  scalar.lastIndex = at
  if (scalar.exec(text)?.[0] === found && found !== '') return at + found.length
  if (found === '') return { at, message: `expected a value, found ${shown(text[at]!)}` }
  if (text[at] === "'") return { at, message: 'text is written in double quotes' }
  return {
    at,
    message: `${shown(found)} is no value: text is written in double quotes, numbers like 1.5`,
  }
}

const escapeRest = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y

/** Just after the closing quote of the string that begins at `from`. */
function stringEnd(text: string, from: number): number | Problem {
  for (let at = from + 1; at < text.length; at += 1) {
    const character = text[at]!
    if (character === '"') return at + 1
    if (character === '\n' || character === '\r')
      return { at: from, message: 'this text has no closing quote on its line' }
    if (character < ' ')
      return { at, message: 'a control character in text is written as an escape, like \\t' }
    if (character !== '\\') continue
    escapeRest.lastIndex = at + 1
    const found = escapeRest.exec(text)
    if (found === null) return { at, message: 'no such escape: \\ is written as \\\\' }
    at += found[0].length
  }
  return { at: from, message: 'this text has no closing quote' }
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (at < text.length && ' \t\r\n'.includes(text[at]!)) at += 1
  return at
}

function shown(text: string): string {
  return text.length > 20 ? `${text.slice(0, 20)}…` : text
}

/** The line and column of a position in a text, both from 1. */
function placeOf(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at)
  const lineStart = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: at - lineStart + 1 }
}
