/**
 * Compiles a verified schema into functions: one per schema inside it, made of the checks of its keywords. No text
 * becomes code. (TypeBox's compiler generates source text, evaluates `pattern` with RegExp, and cannot stop: a schema
 * of 64 KiB and a record of 1 MiB can hold a thread for minutes.)
 *
 * Every check spends steps of its `Run`, in proportion to its time, and throws OutOfSteps when they are used up.
 */
import { definitionName, type SchemaNode, type Subschema } from '../../contract/record-schema.ts'
import { identityOf, sizeOf, stepsPerValue } from './canonical.ts'
import { listCheck } from './list-check.ts'
import { objectCheck } from './object-check.ts'
import type { Check, Compiling, PatternCompiler, Run } from './run.ts'
import { numberCheck, stringCheck } from './value-checks.ts'

/** Returns the check of any schema inside `root`. `pattern` compiles the patterns of the schema. */
export function schemaCompiler(root: SchemaNode, pattern: PatternCompiler): (schema: Subschema) => Check {
  const definitions = new Map<string, Check>()
  const known = new Map<SchemaNode, Check>()
  const compiling: Compiling = {
    pattern,
    compile: (schema) => {
      if (schema === true) return acceptAll
      if (schema === false) return acceptNothing
      const made = known.get(schema) ?? compiled(schema)
      known.set(schema, made)
      return made
    },
  }
  const compiled = (schema: SchemaNode) => {
    const checks = checksOf(schema, compiling)
    if (schema.$ref !== undefined) checks.push(definition(schema.$ref))
    return typed(schema, checks)
  }
  const definition = (ref: string): Check => {
    const known = definitions.get(ref)
    if (known !== undefined) return known
    const made = compiling.compile(root.$defs?.[definitionName(ref) ?? ''] ?? true)
    definitions.set(ref, made)
    return made
  }
  return compiling.compile
}

function acceptAll(): boolean {
  return true
}

function acceptNothing(_: unknown, run: Run): boolean {
  run.spend(1)
  return run.fail('is not allowed')
}

function checksOf(schema: SchemaNode, compiling: Compiling): Check[] {
  const made = [
    'enum' in schema ? enumCheck(schema.enum ?? []) : null,
    'const' in schema ? enumCheck([schema.const]) : null,
    stringCheck(schema, compiling.pattern),
    numberCheck(schema),
    objectCheck(schema, compiling),
    listCheck(schema, compiling),
    ...combinations(schema, compiling),
  ]
  return made.filter((check) => check !== null)
}

/** The type is checked first: a value of another type gets one error, not one per keyword. */
function typed({ type }: SchemaNode, checks: readonly Check[]): Check {
  const types = type === undefined ? null : typeof type === 'string' ? [type] : type
  const isOfType = types === null ? null : typeTest(types)
  const message = `must be ${(types ?? []).map((one) => typeNames[one]).join(' or ')}`
  if (checks.length === 0)
    return isOfType === null
      ? acceptAll
      : (value, run) => {
          run.spend(1)
          return isOfType(value) || run.fail(`${message}, not ${nameOf(value)}`)
        }
  const [first, ...others] = checks
  const isSingle = others.length === 0
  return (value, run) => {
    run.spend(1)
    if (isOfType !== null && !isOfType(value)) return run.fail(`${message}, not ${nameOf(value)}`)
    return isSingle ? first!(value, run) : everyCheck(checks, value, run)
  }
}

/** While errors are collected, all keywords are checked. */
function everyCheck(checks: readonly Check[], value: unknown, run: Run): boolean {
  let matches = true
  for (const check of checks) {
    if (check(value, run)) continue
    matches = false
    if (run.isFull) break
  }
  return matches
}

const typeNames = {
  string: 'a string',
  number: 'a number',
  integer: 'a whole number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
  null: 'null',
} as const

const typeTests: Readonly<Record<keyof typeof typeNames, (value: unknown) => boolean>> = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: Number.isInteger,
  boolean: (value) => typeof value === 'boolean',
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  array: Array.isArray,
  null: (value) => value === null,
}

function typeTest(types: readonly (keyof typeof typeNames)[]): (value: unknown) => boolean {
  const tests = types.map((type) => typeTests[type])
  return tests.length === 1 ? tests[0]! : (value) => tests.some((test) => test(value))
}

/** The type of a value, in words, without the value. */
function nameOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'number')
    return Number.isInteger(value) ? 'a whole number' : 'a number with a fraction'
  return typeof value === 'boolean' ? 'true or false' : typeof value === 'string' ? 'a string' : 'an object'
}

const shownValues = 200

function enumCheck(values: readonly unknown[]): Check {
  const allowed = new Set(values.map(identityOf))
  const hasContainers = values.some((value) => typeof value === 'object' && value !== null)
  const list = values.map((value) => JSON.stringify(value)).join(', ')
  const shown = list.length > shownValues ? `${list.slice(0, shownValues)}…` : list
  const message = values.length === 1 ? `must be ${shown}` : `must be one of ${shown}`
  return (value, run) => {
    run.spend(1 + (typeof value === 'string' ? value.length >> 4 : 0))
    const isContainer = typeof value === 'object' && value !== null
    if (isContainer && hasContainers) run.spend(stepsPerValue * sizeOf(value, run.steps / stepsPerValue))
    const isAllowed = isContainer
      ? hasContainers && allowed.has(identityOf(value))
      : allowed.has(identityOf(value))
    return isAllowed || run.fail(message)
  }
}

function combinations({ allOf, anyOf, oneOf, not }: SchemaNode, compiling: Compiling): Check[] {
  const checks: Check[] = (allOf ?? []).map(compiling.compile)
  if (anyOf !== undefined) checks.push(anyOfCheck(alternatives(anyOf, compiling)))
  if (oneOf !== undefined) checks.push(oneOfCheck(alternatives(oneOf, compiling)))
  if (not !== undefined) {
    const excluded = compiling.compile(not)
    checks.push((value, run) => !run.probe(excluded, value) || run.fail('must not match the schema in `not`'))
  }
  return checks
}

interface Alternative {
  check: Check
  /** Whether the value has a type of the alternative. */
  isOfType(value: unknown): boolean
}

function alternatives(schemas: readonly Subschema[], { compile }: Compiling): Alternative[] {
  return schemas.map((schema) => {
    const { type } = typeof schema === 'boolean' ? {} : schema
    const types = type === undefined ? null : typeof type === 'string' ? [type] : type
    return { check: compile(schema), isOfType: types === null ? () => true : typeTest(types) }
  })
}

function anyOfCheck(all: readonly Alternative[]): Check {
  return (value, run) => {
    for (const { check } of all) if (run.probe(check, value)) return true
    return explained(all, value, run)
  }
}

function oneOfCheck(all: readonly Alternative[]): Check {
  return (value, run) => {
    let matching = 0
    for (const { check } of all) if (run.probe(check, value) && ++matching > 1) break
    if (matching === 1) return true
    return matching === 0
      ? explained(all, value, run)
      : run.fail(`must match exactly one of the ${all.length} alternatives of the schema, not several`)
  }
}

/** If only one alternative is for values of this type, its errors are the useful ones. */
function explained(all: readonly Alternative[], value: unknown, run: Run): false {
  if (run.errors === null) return false
  const [first, ...others] = all.filter(({ isOfType }) => isOfType(value))
  const before = run.errors.length
  if (first !== undefined && others.length === 0) first.check(value, run)
  if (run.errors.length > before) return false
  return run.fail(`must match one of the ${all.length} alternatives of the schema`)
}
