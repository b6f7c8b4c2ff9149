/**
 * The check of a body whose JSON the scanner accepted: true only if every record matches the schema. Everything else,
 * also what is not known, is for `prepareBody`, which finds the errors.
 */
import type { BodyFormat } from '../body-source.ts'
import { allMatch, type SchemaRules } from './record-check.ts'

export function isMatchingBody(bytes: Buffer, format: BodyFormat, rules: SchemaRules): boolean {
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
