/** The walk over the bytes of a string (body-walk.ts). */
import type { SchemaNode } from '../../contract/record-schema.ts'
import { afterString, isDigit, last, undecided } from './body-tokens.ts'
import type { Check } from './run.ts'
import { parsedWalk, type Walk } from './walk.ts'

/** Whether the text between two indexes, without the quotes, is known to match. `last` describes it. */
type TextTest = (bytes: Buffer, from: number, to: number) => boolean

export function stringWalk(schema: SchemaNode, values: readonly unknown[] | null, check: Check): Walk {
  if (schema.pattern !== undefined) return parsedWalk(check)
  const tests: TextTest[] = []
  if (values !== null) tests.push(enumTest(values.filter((value) => typeof value === 'string')))
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, format } = schema
  if (minLength > 0 || schema.maxLength !== undefined) tests.push(lengthTest(minLength, maxLength))
  if (format !== undefined) {
    const test = formatTests[format]
    if (test === undefined) return parsedWalk(check)
    tests.push(test)
  }
  const [first, ...others] = tests
  if (first === undefined) return afterString
  const otherwise = parsedWalk(check)
  return (bytes, at, run) => {
    const end = afterString(bytes, at)
    if (end === undecided) return undecided
    let matches = first(bytes, at + 1, end - 1)
    for (const test of others) matches = matches && test(bytes, at + 1, end - 1)
    return matches ? end : otherwise(bytes, at, run)
  }
}

/** Compared by their bytes one after the other. More of the same length are looked up. */
const comparedValues = 8

function enumTest(values: readonly string[]): TextTest {
  const byLength = new Map<number, Buffer[]>()
  for (const value of values.filter((value) => value.isWellFormed())) {
    const bytes = Buffer.from(value)
    byLength.set(bytes.length, [...(byLength.get(bytes.length) ?? []), bytes])
  }
  const tests = new Map(
    [...byLength].map(([length, all]) => [
      length,
      all.length > comparedValues ? setTest(all) : listTest(all),
    ]),
  )
  return (bytes, from, to) => {
    const test = last.hasEscape ? undefined : tests.get(to - from)
    return test?.(bytes, from, to) ?? false
  }
}

function setTest(values: readonly Buffer[]): TextTest {
  const texts = new Set(values.map((value) => value.toString('latin1')))
  return (bytes, from, to) => texts.has(bytes.toString('latin1', from, to))
}

function listTest(values: readonly Buffer[]): TextTest {
  return (bytes, from) => {
    for (const value of values) if (isAt(bytes, from, value)) return true
    return false
  }
}

function isAt(bytes: Uint8Array, from: number, value: Uint8Array): boolean {
  for (let index = 0; index < value.length; index++) if (bytes[from + index] !== value[index]) return false
  return true
}

/** A code point has one to four bytes, and at least as many when it is escaped. */
function lengthTest(min: number, max: number): TextTest {
  return (_, from, to) => {
    const bytes = to - from
    if (bytes > max) return false
    return bytes >= min && (min <= 1 || (last.isAscii && !last.hasEscape))
  }
}

const formatTests: Readonly<Record<string, TextTest>> = {
  'date-time': (bytes, from, to) => isDateAt(bytes, from) && isUtcTime(bytes, from + 10, to),
  date: (bytes, from, to) => to - from === 10 && isDateAt(bytes, from),
  uuid: isUuid,
}

/** A day that every month has: `2026-01-28`. */
function isDateAt(bytes: Uint8Array, at: number): boolean {
  if (bytes[at + 4] !== 0x2d || bytes[at + 7] !== 0x2d) return false
  const month = twoDigits(bytes, at + 5)
  const day = twoDigits(bytes, at + 8)
  return (
    twoDigits(bytes, at) >= 0 &&
    twoDigits(bytes, at + 2) >= 0 &&
    month >= 1 &&
    month <= 12 &&
    day >= 1 &&
    day <= 28
  )
}

/** `T12:00:00Z`, `T12:00:00.123Z` */
function isUtcTime(bytes: Uint8Array, at: number, to: number): boolean {
  if (to - at < 10 || to - at > 30 || bytes[at] !== 0x54 || bytes[to - 1] !== 0x5a) return false
  if (bytes[at + 3] !== 0x3a || bytes[at + 6] !== 0x3a) return false
  const [hour, minute, second] = [
    twoDigits(bytes, at + 1),
    twoDigits(bytes, at + 4),
    twoDigits(bytes, at + 7),
  ]
  if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) return false
  if (to - at === 10) return true
  if (to - at === 11 || bytes[at + 9] !== 0x2e) return false
  for (let index = at + 10; index < to - 1; index++) if (!isDigit(bytes[index]!)) return false
  return true
}

/** -1 if they are no digits. */
function twoDigits(bytes: Uint8Array, at: number): number {
  const tens = bytes[at]!
  const ones = bytes[at + 1]!
  return isDigit(tens) && isDigit(ones) ? (tens - 0x30) * 10 + ones - 0x30 : -1
}

function isUuid(bytes: Uint8Array, from: number, to: number): boolean {
  if (to - from !== 36) return false
  for (let index = 0; index < 36; index++) {
    const byte = bytes[from + index]!
    const isHyphen = index === 8 || index === 13 || index === 18 || index === 23
    const letter = byte | 0x20
    if (isHyphen ? byte !== 0x2d : !isDigit(byte) && (letter < 0x61 || letter > 0x66)) return false
  }
  return true
}
