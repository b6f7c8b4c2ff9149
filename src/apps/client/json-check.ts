/**
 * Describes an error in JSON that a user typed, with line and column. JSON.parse is not enough: its messages differ
 * between engines and often have no position. Pure; one pass without recursion.
 */
import { skipSpace } from './json-text.ts'

/** The nesting depth that ingest accepts for a record. */
const maxDepth = 100

export interface JsonFault {
  /** From 1. */
  line: number
  column: number
  message: string
}

/** The texts of one record or of an array of records; or the first fault. */
export type CheckedRecords = { records: string[]; fault: null } | { records: null; fault: JsonFault }

interface Problem {
  at: number
  message: string
}

/** Checks records that a user typed: one JSON object or an array of objects. At least one, at most `most`. */
export function checkRecords(text: string, most = Number.POSITIVE_INFINITY): CheckedRecords {
  const fault = (at: number, message: string): CheckedRecords => ({
    records: null,
    fault: { ...placeOf(text, at), message },
  })
  const bounds: number[] = []
  const problem = new Scan(text, (start, end) => bounds.push(start, end)).problem()
  if (problem !== null) return fault(problem.at, problem.message)
  const records: string[] = []
  for (let at = 0; at < bounds.length; at += 2) {
    const start = bounds[at]!
    if (text[start] !== '{') return fault(start, 'every record must be a JSON object')
    if (records.length === most) return fault(start, `there can be at most ${most}: as many as are parked`)
    records.push(text.slice(start, bounds[at + 1]!))
  }
  if (records.length === 0) return fault(skipSpace(text, 0), 'there must be at least one record')
  return { records, fault: null }
}

type State = 'value' | 'first value' | 'key' | 'first key' | 'colon' | 'after value'

/**
 * Scans a text once. Calls `onRecord` with the bounds of each element of the outer array, or of any other outer
 * value.
 */
class Scan {
  readonly #text: string
  readonly #onRecord: (start: number, end: number) => void
  readonly #open: ('{' | '[')[] = []
  #state: State = 'value'
  #at = 0
  #recordStart = 0
  /** 1 inside an outer array, whose elements are the records. */
  #recordDepth = 0

  constructor(text: string, onRecord: (start: number, end: number) => void) {
    this.#text = text
    this.#onRecord = onRecord
  }

  /** The first fault. Null: the text is valid JSON. */
  problem(): Problem | null {
    const text = this.#text
    for (this.#skipSpace(); this.#at < text.length; this.#skipSpace()) {
      const problem = this.#step(text[this.#at]!)
      if (problem !== null) return problem
    }
    const isComplete = this.#state === 'after value' && this.#open.length === 0
    return isComplete ? null : this.#wrong('it ends before it is complete')
  }

  #step(character: string): Problem | null {
    switch (this.#state) {
      case 'after value':
        return this.#afterValue(character)
      case 'colon':
        return character === ':'
          ? this.#pass('value')
          : this.#wrong(`expected : after the key, found ${shown(character)}`)
      case 'first key':
        return character === '}' ? this.#close() : this.#key(character)
      case 'key':
        return this.#key(character)
      case 'first value':
        return character === ']' ? this.#close() : this.#value(character)
      case 'value':
        return this.#value(character)
    }
  }

  #afterValue(character: string): Problem | null {
    const open = this.#open.at(-1)
    if (open === undefined) return this.#wrong(`${shown(character)} after the end`)
    const end = open === '{' ? '}' : ']'
    if (character === end) return this.#close()
    if (character !== ',') return this.#wrong(`expected , or ${end}, found ${shown(character)}`)
    return this.#pass(open === '{' ? 'key' : 'value')
  }

  #key(character: string): Problem | null {
    if (character === '"') return this.#passTo(stringEnd(this.#text, this.#at), 'colon')
    return this.#wrong(
      character === '}'
        ? 'a comma is before this }, with nothing after it'
        : `expected a key in double quotes, found ${shown(character)}`,
    )
  }

  #value(character: string): Problem | null {
    if (this.#open.length === this.#recordDepth) this.#recordStart = this.#at
    if (character === '[' && this.#open.length === 0) this.#recordDepth = 1
    else if (this.#open.length >= this.#recordDepth + maxDepth && '{['.includes(character))
      return this.#wrong(`a record is nested more than ${maxDepth} levels deep`)
    if (character === '{' || character === '[') {
      this.#open.push(character)
      return this.#pass(character === '{' ? 'first key' : 'first value')
    }
    const end = character === '"' ? stringEnd(this.#text, this.#at) : scalarEnd(this.#text, this.#at)
    return this.#passTo(end, 'after value')
  }

  #close(): Problem | null {
    this.#open.pop()
    return this.#pass('after value')
  }

  /** Consumes one character. */
  #pass(next: State): Problem | null {
    return this.#passTo(this.#at + 1, next)
  }

  #passTo(end: number | Problem, next: State): Problem | null {
    if (typeof end !== 'number') return end
    this.#at = end
    this.#state = next
    const isRecordOver = next === 'after value' && this.#open.length === this.#recordDepth
    if (isRecordOver) this.#onRecord(this.#recordStart, end)
    return null
  }

  #wrong(message: string): Problem {
    return { at: this.#at, message }
  }

  #skipSpace(): void {
    this.#at = skipSpace(this.#text, this.#at)
  }
}

const scalar = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y
const word = /[^\s,:{}[\]"]*/y

/** The end of a number or literal. */
function scalarEnd(text: string, at: number): number | Problem {
  word.lastIndex = at
  const found = word.exec(text)?.[0] ?? ''
  scalar.lastIndex = at
  if (scalar.exec(text)?.[0] === found && found !== '') return at + found.length
  if (found === '') return { at, message: `expected a value, found ${shown(text[at]!)}` }
  if (text[at] === "'") return { at, message: 'text is written in double quotes' }
  return {
    at,
    message: `${shown(found)} is not a value: text is written in double quotes, numbers like 1.5`,
  }
}

const escapeRest = /["\\/bfnrt]|u[0-9a-fA-F]{4}/y

/** Just after the closing quote of the string that starts at `from`. */
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

function shown(text: string): string {
  return text.length > 20 ? `${text.slice(0, 20)}…` : text
}

/** The line and column of a position in a text, both from 1. */
function placeOf(text: string, at: number): { line: number; column: number } {
  const before = text.slice(0, at)
  const lineStart = before.lastIndexOf('\n') + 1
  return { line: before.split('\n').length, column: at - lineStart + 1 }
}
