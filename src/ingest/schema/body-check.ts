/**
 * The check of a body whose JSON the scanner accepted: true only if every record matches the schema. Everything else,
 * also what is not known, is for `prepareBody`, which finds the errors.
 *
 *   the walk over the bytes (body-walk.ts) ──▶ all records match
 *        └──▶ undecided: JSON.parse and the check
 */

import { afterByteOrderMark, closeBracket, openBracket } from '../../log/record-text.ts'
import type { BodyFormat } from '../body-source.ts'
import { afterSpace, undecided } from './body-tokens.ts'
import { afterElement } from './body-walk.ts'
import { allMatch, type SchemaRules, walkMatches } from './record-check.ts'
import type { Run } from './run.ts'
import type { Walk } from './walk.ts'

export function isMatchingBody(bytes: Buffer, format: BodyFormat, rules: SchemaRules): boolean {
  return isConfirmed(bytes, rules) || isMatching(bytes, format, rules)
}

/** True if the bytes alone show that all records match. */
export function isConfirmed(bytes: Buffer, rules: SchemaRules): boolean {
  return walkMatches(rules, (walk, run) => walk === null || walksAll(bytes, walk, run))
}

/** The records of an array are separated by commas, those of NDJSON by white space. */
function walksAll(bytes: Buffer, walk: Walk, run: Run): boolean {
  let at = afterSpace(bytes, afterByteOrderMark(bytes))
  if (bytes[at] === openBracket) at = afterSpace(bytes, at + 1)
  while (at < bytes.length && bytes[at] !== closeBracket) {
    const end = walk(bytes, at, run)
    if (end === undecided) return false
    at = afterElement(bytes, end)
  }
  return true
}

function isMatching(bytes: Buffer, format: BodyFormat, rules: SchemaRules): boolean {
  if (format === 'ndjson') return allMatch(linesOf(bytes.toString()), rules)
  const value: unknown = JSON.parse(withoutMark(bytes.toString()))
  return allMatch(Array.isArray(value) ? value : [value], rules)
}

function linesOf(text: string): unknown[] {
  const lines = withoutMark(text).split('\n')
  return lines.flatMap((line) => (line.trim() === '' ? [] : [JSON.parse(line)]))
}

function withoutMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}
