/** The walk over the bytes of an object (body-walk.ts). */
import type { SchemaNode } from '../../contract/record-schema.ts'
import { closeBrace, comma, quote } from '../../log/record-text.ts'
import { afterSpace, afterString, afterValue, last, undecided } from './body-tokens.ts'
import type { Check, Run } from './run.ts'
import { neverConfirmed, parsedWalk, type Walk, type WalkCompiler } from './walk.ts'

interface Member {
  /** The bytes of its key. */
  key: Uint8Array
  walk: Walk
  isRequired: boolean
  /** The object in which it was last seen, so that a repeated key counts once. */
  seenIn: number
  /** The member that followed it last: most records have their keys in the same order. */
  next: Member | null
}

interface ObjectRules {
  /** By key, each byte as a character. */
  members: ReadonlyMap<string, Member>
  /** Its `next` is the first member. */
  start: Member
  required: number
  /** Other members. */
  other: Walk
  max: number
  /** The objects that were walked. */
  walked: number
}

export function objectWalk(schema: SchemaNode, compile: WalkCompiler, check: Check): Walk {
  const { properties = {}, required = [], additionalProperties = true, minProperties = 0 } = schema
  const names = [...new Set([...Object.keys(properties), ...required])]
  // Repeated keys count once, so a number of keys says little.
  if (minProperties > 1 || !names.every(isPlainKey)) return parsedWalk(check)
  const other = compile(additionalProperties) ?? afterValue
  const members = new Map(
    names.map((name): [string, Member] => {
      const walk = Object.hasOwn(properties, name) ? (compile(properties[name]!) ?? afterValue) : other
      return [Buffer.from(name).toString('latin1'), memberOf(name, walk, required.includes(name))]
    }),
  )
  if (
    additionalProperties === true &&
    members.size === 0 &&
    schema.maxProperties === undefined &&
    minProperties === 0
  )
    return afterValue
  const rules: ObjectRules = {
    members,
    start: memberOf('', neverConfirmed, false),
    required: required.length,
    other,
    max: schema.maxProperties ?? Number.POSITIVE_INFINITY,
    walked: 0,
  }
  let before = rules.start
  for (const member of members.values()) {
    before.next = member
    before = member
  }
  return (bytes, at, run) => {
    if (bytes[afterSpace(bytes, at + 1)] !== closeBrace) return walkObject(rules, bytes, at, run)
    return required.length === 0 && minProperties === 0 ? afterSpace(bytes, at + 1) + 1 : undecided
  }
}

function memberOf(name: string, walk: Walk, isRequired: boolean): Member {
  return { key: Buffer.from(name), walk, isRequired, seenIn: 0, next: null }
}

/** JSON has the same bytes for such a key, unless it escapes more than it must. */
function isPlainKey(name: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON must escape them
  return name.isWellFormed() && !/["\\\u0000-\u001f]/.test(name)
}

/** At least one member. */
function walkObject(rules: ObjectRules, bytes: Buffer, start: number, run: Run): number {
  rules.walked++
  let required = 0
  let count = 0
  let before = rules.start
  let at = start
  do {
    const keyAt = afterSpace(bytes, at + 1)
    const member = memberAt(rules, before, bytes, keyAt)
    if (member === undecided || ++count > rules.max) return undecided
    if (member !== null) {
      required += firstSeen(member, rules.walked)
      before = member
    }
    const keyEnd = member === null ? afterString(bytes, keyAt) : keyAt + member.key.length + 2
    const valueAt = afterSpace(bytes, afterSpace(bytes, keyEnd) + 1)
    const end = (member === null ? rules.other : member.walk)(bytes, valueAt, run)
    if (end === undecided) return undecided
    at = afterSpace(bytes, end)
  } while (bytes[at] === comma)
  return required === rules.required ? at + 1 : undecided
}

/** 1 if the member is required and not a repeated key. */
function firstSeen(member: Member, object: number): number {
  const isFirst = member.isRequired && member.seenIn !== object
  member.seenIn = object
  return isFirst ? 1 : 0
}

/** The member of the key at `at`. Null: it is another key. */
function memberAt(
  rules: ObjectRules,
  before: Member,
  bytes: Buffer,
  at: number,
): Member | null | typeof undecided {
  const { next } = before
  if (next !== null && isKeyAt(bytes, at, next.key)) return next
  const end = afterString(bytes, at)
  if (end === undecided || last.hasEscape) return undecided
  const member = rules.members.get(bytes.toString('latin1', at + 1, end - 1)) ?? null
  if (member !== null) before.next = member
  return member
}

function isKeyAt(bytes: Uint8Array, at: number, key: Uint8Array): boolean {
  const length = key.length
  if (bytes[at + length + 1] !== quote) return false
  for (let index = 0; index < length; index++) if (bytes[at + 1 + index] !== key[index]) return false
  return true
}
