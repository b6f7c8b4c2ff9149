/** The keywords of objects. A value of another type passes. */
import type { SchemaNode } from '../../contract/record-schema.ts'
import type { Check, Compiling, Run } from './run.ts'

interface Member {
  /** Null: every value is accepted. */
  check: Check | null
  isRequired: boolean
}

interface ObjectRules {
  members: ReadonlyMap<string, Member>
  required: readonly string[]
  /** Other members. Null: every value is accepted. False: there are none. */
  other: Check | null | false
  otherMessage: string
  min: number
  max: number
}

export function objectCheck(schema: SchemaNode, { compile }: Compiling): Check | null {
  const { properties, required = [], additionalProperties = true, minProperties, maxProperties } = schema
  const isConstrained = properties !== undefined || required.length > 0 || additionalProperties !== true
  if (!isConstrained && minProperties === undefined && maxProperties === undefined) return null
  const names = Object.keys(properties ?? {})
  const checkOf = (name: string) => {
    const inner = Object.hasOwn(properties ?? {}, name) ? properties![name]! : additionalProperties
    return inner === true ? null : compile(inner)
  }
  const member = (name: string): [string, Member] => [
    name,
    { check: checkOf(name), isRequired: required.includes(name) },
  ]
  const rules: ObjectRules = {
    members: new Map([...new Set([...names, ...required])].map(member)),
    required,
    other:
      additionalProperties === true
        ? null
        : additionalProperties === false
          ? false
          : compile(additionalProperties),
    otherMessage: notAllowed(names),
    min: minProperties ?? 0,
    max: maxProperties ?? Number.POSITIVE_INFINITY,
  }
  return (value, run) =>
    typeof value !== 'object' || value === null || Array.isArray(value) || matches(rules, value, run)
}

const shownNames = 200

function notAllowed(names: readonly string[]): string {
  const list = names.join(', ')
  if (list === '') return 'is not allowed'
  return `is not allowed; allowed: ${list.length > shownNames ? `${list.slice(0, shownNames)}…` : list}`
}

function matches(rules: ObjectRules, value: object, run: Run): boolean {
  run.spend(1)
  let found = 0
  let count = 0
  let isValid = true
  // The value is parsed JSON and has no inherited keys that can be enumerated.
  for (const key in value) {
    run.spend(1 + (key.length >> 6))
    count++
    const known = rules.members.get(key)
    if (known?.isRequired) found++
    const inner = (value as Record<string, unknown>)[key]
    if (isMemberValid(rules, known, { key, inner }, run)) continue
    isValid = false
    if (run.isFull) return false
  }
  if (found < rules.required.length) isValid = failRequired(rules, value, run)
  if (count < rules.min) isValid = run.fail(`must have at least ${rules.min} keys`)
  if (count > rules.max) isValid = run.fail(`must have at most ${rules.max} keys`)
  return isValid
}

function isMemberValid(
  { other, otherMessage }: ObjectRules,
  known: Member | undefined,
  { key, inner }: { key: string; inner: unknown },
  run: Run,
): boolean {
  if (known !== undefined) return known.check === null || run.inner(known.check, inner, key)
  if (other === null) return true
  return other === false ? run.fail(otherMessage, key) : run.inner(other, inner, key)
}

function failRequired({ required }: ObjectRules, value: object, run: Run): false {
  run.spend(required.length)
  for (const key of required) if (!Object.hasOwn(value, key)) run.fail('is required', key)
  return false
}
