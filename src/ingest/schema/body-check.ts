/**
 * The check of a body whose JSON the scanner accepted: true only if every record matches the schema. Everything else,
 * also what is not known, is for `prepareBody`, which finds the errors.
 *
 *   the scanner's walk over the bytes (src/ingest/scanner/match.ts) ──▶ all records match
 *        └──▶ undecided: JSON.parse and the check
 */

import type { BodyFormat } from '../body-source.ts'
import type { BodyLimits } from '../parse.ts'
import { parseToCheck } from './escaped-keys.ts'
import type { MatchTable } from './match-table.ts'
import { allMatch, isConfirmedBy, type SchemaRules } from './record-check.ts'
import type { Check, Run } from './run.ts'

/** The scanner, after it accepted the body. */
export interface BodyWalk {
  /** The values that JSON.parse of the body would create. */
  readonly valueCount: number
  /** True if all records are known to match. Throws OutOfSteps. */
  confirms(table: MatchTable, run: Run): boolean
}

interface Checked {
  format: BodyFormat
  limits: Pick<BodyLimits, 'maxValues'>
}

export function isMatchingBody(
  walk: BodyWalk,
  bytes: Buffer,
  { format, limits }: Checked,
  rules: SchemaRules,
): boolean {
  if (isConfirmed(walk, rules)) return true
  return walk.valueCount <= limits.maxValues && isMatching(bytes, format, rules)
}

/** True if the bytes alone show that all records match. */
export function isConfirmed(walk: BodyWalk, rules: SchemaRules): boolean {
  return isConfirmedBy(rules, (table, run) => walk.confirms(table, run))
}

/** JSON.parse of a small value takes as long as so many steps. */
const decodingSteps = 4

/**
 * Decodes a value that the scanner cannot check, and checks it. `text` has no keys with escapes. Two characters are a
 * step: they can be a value of a list.
 */
export function isValueMatching(text: string, check: Check, run: Run): boolean {
  run.spend(decodingSteps + (text.length >> 1))
  return check(JSON.parse(text), run)
}

function isMatching(bytes: Buffer, format: BodyFormat, rules: SchemaRules): boolean {
  const text = withoutMark(bytes.toString())
  if (format === 'ndjson') return allMatch(linesOf(text), rules)
  const value = parseToCheck(text)
  return allMatch(Array.isArray(value) ? value : [value], rules)
}

function linesOf(text: string): unknown[] {
  return text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [parseToCheck(line)]))
}

function withoutMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}
