/**
 * Compiles a schema into a walk over the bytes of a value: it confirms the common cases without JSON.parse and without
 * strings. It never confirms a value that the check rejects. All else is undecided, and the check decides.
 *
 *   { "id" : "a1" , "total" : 19.99 }
 *     key ──▶ the member that is expected next, compared by its bytes; otherwise a look-up
 *            value ──▶ the walk of its type ──▶ the index after it, or undecided
 *
 * Keywords without a walk (`pattern`, `anyOf`, …) are checked for their value alone, after JSON.parse of that value.
 * Every byte is read a bounded number of times.
 */
import { definitionName, type SchemaNode, type Subschema } from '../../contract/record-schema.ts'
import type { SchemaType } from '../../contract/schema-words.ts'
import { closeBracket, comma, openBrace, openBracket, quote } from '../../log/record-text.ts'
import { afterNumber, afterScalar, afterSpace, afterValue, last, undecided } from './body-tokens.ts'
import { objectWalk } from './object-walk.ts'
import type { Check } from './run.ts'
import { stringWalk } from './string-walk.ts'
import { numberRules } from './value-checks.ts'
import { neverConfirmed, parsedWalk, type Walk, type WalkCompiler } from './walk.ts'

/** `check` compiles the check of a schema inside `root`. */
export function compileWalk(root: SchemaNode, check: (schema: Subschema) => Check): Walk | null {
  const definitions = new Map<string, Walk | null>()
  const definition = (ref: string): Walk | null => {
    const known = definitions.get(ref)
    if (known !== undefined) return known
    const made = compile(root.$defs?.[definitionName(ref) ?? ''] ?? true)
    definitions.set(ref, made)
    return made
  }
  const compile: WalkCompiler = (schema) => {
    if (schema === true) return null
    if (schema === false) return neverConfirmed
    const keywords = Object.keys(schema).filter((keyword) => !notes.has(keyword))
    if (keywords.length === 0) return null
    if (keywords.length === 1 && schema.$ref !== undefined) return definition(schema.$ref)
    // One JSON.parse of the body is faster than one per record.
    if (keywords.some((keyword) => withoutWalk.has(keyword)))
      return schema === root ? neverConfirmed : parsedWalk(check(schema))
    return walkByType(schema, compile, check(schema))
  }
  return compile(root)
}

const notes = new Set([
  ...['title', 'description', 'default', 'examples', 'deprecated', '$schema', '$id', '$comment', '$defs'],
])
const withoutWalk = new Set(['$ref', 'anyOf', 'oneOf', 'allOf', 'not'])

const literals: readonly (readonly [SchemaType, string, unknown])[] = [
  ['boolean', 'true', true],
  ['boolean', 'false', false],
  ['null', 'null', null],
]

function walkByType(schema: SchemaNode, compile: WalkCompiler, check: Check): Walk {
  const { type } = schema
  const types = new Set<SchemaType>(typeof type === 'string' ? [type] : type)
  const hasType = (...wanted: SchemaType[]) => type === undefined || wanted.some((one) => types.has(one))
  const values = enumOf(schema)
  const walkIf = (isPossible: boolean, make: () => Walk) => (isPossible ? make() : neverConfirmed)
  const containers = values === null ? null : parsedWalk(check)
  const onString = walkIf(hasType('string'), () => stringWalk(schema, values, check))
  const onNumber = walkIf(hasType('number', 'integer'), () => numberWalk(schema, values, hasType('number')))
  const onObject = walkIf(hasType('object'), () => containers ?? objectWalk(schema, compile, check))
  const onArray = walkIf(hasType('array'), () => containers ?? arrayWalk(schema, compile, check))
  /** By their first byte. */
  const allowed = new Set(
    literals
      .filter(([type, , value]) => hasType(type) && (values === null || values.includes(value)))
      .map(([, text]) => text.charCodeAt(0)),
  )
  return (bytes, at, run) => {
    const first = bytes[at]!
    if (first === quote) return onString(bytes, at, run)
    if (first === openBrace) return onObject(bytes, at, run)
    if (first === openBracket) return onArray(bytes, at, run)
    if (first < 0x3a) return onNumber(bytes, at, run)
    return allowed.has(first) ? afterScalar(bytes, at) : undecided
  }
}

/** The values of `enum` and `const`. Null: any. */
function enumOf(schema: SchemaNode): readonly unknown[] | null {
  if (!('const' in schema)) return schema.enum ?? null
  // Both: the check decides.
  return schema.enum === undefined ? [schema.const] : []
}

function numberWalk(schema: SchemaNode, values: readonly unknown[] | null, isFractionAllowed: boolean): Walk {
  const rules = numberRules(schema)
  const allowed = values === null ? null : new Set(values)
  if (rules.length === 0 && allowed === null && isFractionAllowed) return afterScalar
  return (bytes, at) => {
    const end = afterNumber(bytes, at)
    const value = last.number
    if (!isFractionAllowed && !Number.isInteger(value)) return undecided
    if (allowed !== null && !allowed.has(value)) return undecided
    for (const rule of rules) if (!rule.isMet(value)) return undecided
    return end
  }
}

function arrayWalk(schema: SchemaNode, compile: WalkCompiler, check: Check): Walk {
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY, uniqueItems = false } = schema
  if (uniqueItems) return parsedWalk(check)
  const first = (schema.prefixItems ?? []).map((one) => compile(one) ?? afterValue)
  const others = compile(schema.items ?? true) ?? afterValue
  return (bytes, start, run) => {
    let count = 0
    let at = afterSpace(bytes, start + 1)
    while (bytes[at] !== closeBracket) {
      const walk = count < first.length ? first[count]! : others
      const end = walk(bytes, at, run)
      if (end === undecided || ++count > maxItems) return undecided
      at = afterElement(bytes, end)
    }
    return count >= minItems ? at + 1 : undecided
  }
}

/** The index of the next element, or of the end of the list. */
export function afterElement(bytes: Uint8Array, end: number): number {
  const at = afterSpace(bytes, end)
  return bytes[at] === comma ? afterSpace(bytes, at + 1) : at
}
