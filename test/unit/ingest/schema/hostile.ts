/** Pairs of a schema and a record whose check would take millions of steps. The schemas are within the limits. */
import type { RecordSchema } from '../../../../src/contract/record-schema.ts'

export interface HostilePair {
  /** Of the value of the member `a`. */
  schema: RecordSchema
  value: unknown
}

const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

function nested(depth: number, innermost: RecordSchema): RecordSchema {
  return depth === 0 ? innermost : { not: nested(depth - 1, innermost) }
}

/** Each definition names the next one twice. */
const doubling = Object.fromEntries(
  times(9, (level): [string, unknown] => [
    `d${level}`,
    level === 8 ? { type: 'object' } : { allOf: times(2, () => ({ $ref: `#/$defs/d${level + 1}` })) },
  ]),
)

/** `[[[…]]]` */
function lists(depth: number, innermost: unknown): unknown {
  return depth === 0 ? innermost : [lists(depth - 1, innermost)]
}

/** Each value matches, but only the last alternative. */
export const hostilePairs: Readonly<Record<string, HostilePair>> = {
  '600 alternatives, 14,000 elements': {
    schema: { items: { anyOf: times(600, (index) => ({ type: 'array', minItems: 600 - index })) } },
    value: times(14_000, () => [1]),
  },
  '900 times uniqueItems': {
    schema: { allOf: times(900, () => ({ uniqueItems: true })) },
    value: times(6_000, (index) => ({ k: index })),
  },
  '900 constant objects': {
    schema: { items: { anyOf: times(900, (index) => ({ const: { k: index } })) } },
    value: times(6_000, () => ({ k: 899 })),
  },
  'nested `not` around 300 alternatives': {
    schema: { items: nested(20, { oneOf: times(300, (index) => ({ required: [`k${index}`] })) }) },
    value: times(6_000, () => ({ k299: 1 })),
  },
  '25 patterns, a long text': {
    schema: { allOf: times(25, (index) => ({ pattern: `(a|b|ab){1,${10 + index}}c$` })) },
    value: `${'ab'.repeat(60_000)}c`,
  },
  'definitions that name each other twice': {
    schema: { items: { $ref: '#/$defs/d0' } },
    value: times(14_000, () => ({})),
  },
  'a deep value in each of many alternatives': {
    schema: { items: { anyOf: times(900, (index) => ({ const: lists(20, index) })) } },
    value: times(1_000, () => lists(90, 'x')),
  },
  'an enumeration of long texts': {
    schema: { allOf: times(300, () => ({ items: { enum: ['x'.repeat(60), 'y'] } })) },
    value: times(3_000, () => 'x'.repeat(60)),
  },
}

/** The schema of a record. */
export function recordSchema({ schema }: HostilePair): RecordSchema {
  return { properties: { a: schema }, $defs: doubling }
}
