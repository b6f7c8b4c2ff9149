/** The keywords of strings and numbers. A value of another type passes. */
import type { SchemaNode } from '../../contract/record-schema.ts'
import { schemaFormats } from '../../contract/schema-words.ts'
import { formatChecks } from './formats.ts'
import type { Check, PatternCompiler } from './run.ts'

export function stringCheck(schema: SchemaNode, compilePattern: PatternCompiler): Check | null {
  const { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, format: name } = schema
  const format = schemaFormats.find((one) => one === name)
  if (schema.minLength === undefined && schema.maxLength === undefined && pattern === undefined && !format)
    return null
  const hasForm = format === undefined ? null : formatChecks[format]
  const isFound = pattern === undefined ? null : compilePattern(pattern)
  const isBounded = minLength > 0 || maxLength < Number.POSITIVE_INFINITY
  return (value, run) => {
    if (typeof value !== 'string') return true
    run.spend(1 + (value.length >> 4))
    if (isBounded && !isWithin(value, minLength, maxLength))
      return run.fail(lengthWords(minLength, maxLength))
    if (hasForm !== null && !hasForm(value)) return run.fail(formatWords[format!])
    return isFound === null || isFound(value, run) || run.fail(`must match the pattern ${pattern}`)
  }
}

/** Lengths are in Unicode code points. A code point has one or two UTF-16 units, so most texts need no counting. */
function isWithin(text: string, min: number, max: number): boolean {
  const units = text.length
  if (units < min || units > 2 * max) return false
  if (units <= max && units >= 2 * min) return true
  let points = units
  for (let at = 0; at < units - 1; at++) {
    if ((text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) {
      points--
      at++
    }
  }
  return points >= min && points <= max
}

function lengthWords(min: number, max: number): string {
  if (max === Number.POSITIVE_INFINITY) return `must have at least ${characters(min)}`
  return min === 0 ? `must have at most ${characters(max)}` : `must have ${min} to ${characters(max)}`
}

const characters = (count: number) => (count === 1 ? '1 character' : `${count} characters`)

const formatWords: Readonly<Record<(typeof schemaFormats)[number], string>> = {
  'date-time': 'must be a time such as 2026-01-31T12:00:00Z (date-time)',
  date: 'must be a date such as 2026-01-31 (date)',
  time: 'must be a time of day such as 12:00:00Z (time)',
  email: 'must be an e-mail address (email)',
  uuid: 'must be a UUID (uuid)',
  uri: 'must be an absolute URI (uri)',
  ipv4: 'must be an IPv4 address (ipv4)',
  ipv6: 'must be an IPv6 address (ipv6)',
  hostname: 'must be the name of a host (hostname)',
}

export function numberCheck(schema: SchemaNode): Check | null {
  const rules = numberRules(schema)
  if (rules.length === 0) return null
  return (value, run) => {
    if (typeof value !== 'number') return true
    run.spend(rules.length)
    let matches = true
    for (const { isMet, message } of rules) if (!isMet(value)) matches = run.fail(message)
    return matches
  }
}

interface NumberRule {
  isMet(value: number): boolean
  message: string
}

function numberRules(schema: SchemaNode): NumberRule[] {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = schema
  const rules: NumberRule[] = []
  const add = (
    limit: number | undefined,
    isMet: (value: number, limit: number) => boolean,
    words: string,
  ) => {
    if (limit !== undefined)
      rules.push({ isMet: (value) => isMet(value, limit), message: `must be ${words} ${limit}` })
  }
  add(minimum, (value, limit) => value >= limit, 'at least')
  add(maximum, (value, limit) => value <= limit, 'at most')
  add(exclusiveMinimum, (value, limit) => value > limit, 'more than')
  add(exclusiveMaximum, (value, limit) => value < limit, 'less than')
  add(multipleOf, isMultiple, 'a multiple of')
  return rules
}

/** 0.3 is a multiple of 0.1, although the quotient of the two floating-point numbers is not a whole number. */
function isMultiple(value: number, of: number): boolean {
  if (Number.isInteger(value) && Number.isInteger(of)) return value % of === 0
  const quotient = value / of
  return Math.abs(quotient - Math.round(quotient)) <= 4 * Number.EPSILON * Math.max(1, Math.abs(quotient))
}
