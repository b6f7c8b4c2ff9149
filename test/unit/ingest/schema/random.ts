/** Random schemas of the subset, and random values of which some match. */
import type { RecordSchema } from '../../../../src/contract/record-schema.ts'

export const names = ['a', 'b', 'c', 'd', 'é']
const texts = [
  ...[
    '',
    'a',
    'ab',
    '😀',
    'o-1',
    '2026-01-31T12:00:00Z',
    '2026-01-31',
    'x@y.zz',
    '::1',
    '1.2.3.4',
    '12:00:00Z',
  ],
  ...['123e4567-e89b-12d3-a456-426614174000', 'https://x/y'],
]
const types = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

export class Random {
  #seed: number

  constructor(seed: number) {
    this.#seed = seed
  }

  below(limit: number): number {
    this.#seed = (Math.imul(this.#seed, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((this.#seed / 0x80000000) * limit)
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!
  }

  list<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.below(most + 1) }, make)
  }

  value(depth = 0): unknown {
    const inner = () => this.value(depth + 1)
    const kinds = [
      ...[() => null, () => this.below(2) === 0, () => this.below(6) - 2, () => this.below(40) / 4],
      () => this.pick(texts),
      ...[
        () => this.list(3, inner),
        () => Object.fromEntries(this.list(3, () => [this.pick(names), inner()])),
      ],
    ]
    return this.pick(depth > 3 ? kinds.slice(0, 5) : kinds)()
  }

  schema(depth = 0): RecordSchema | boolean {
    if (depth > 0 && this.below(16) === 0) return this.below(2) === 0
    const made = this.list(2, () => this.#keyword(depth))
    return Object.assign({}, this.#keyword(depth), ...made)
  }

  #keyword(depth: number): RecordSchema {
    const inner = () => this.schema(depth + 1)
    const distinct = (values: unknown[]) => [
      ...new Map(values.map((one) => [JSON.stringify(one), one])).values(),
    ]
    const simple: (() => RecordSchema)[] = [
      () => ({ type: this.pick(types) }),
      () => ({ type: distinct([this.pick(types), this.pick(types)]) }),
      () => ({ enum: distinct([this.value(2), ...this.list(3, () => this.value(2))]) }),
      () => ({ const: this.value(2) }),
      () => ({ minLength: this.below(3), maxLength: 1 + this.below(3) }),
      () => ({ minimum: this.below(5) - 2, exclusiveMaximum: this.below(8) }),
      () => ({ multipleOf: this.pick([1, 2, 0.5, 0.25]) }),
      () => ({ pattern: this.pick(['^a', 'b$', '^o-[0-9]+$', '.']) }),
      () => ({
        format: this.pick(['date-time', 'date', 'time', 'email', 'uuid', 'ipv4', 'ipv6', 'hostname']),
      }),
      () => ({ minItems: this.below(3), uniqueItems: this.below(2) === 0 }),
      () => ({ maxProperties: this.below(4), required: distinct(this.list(2, () => this.pick(names))) }),
    ]
    const nested: (() => RecordSchema)[] = [
      () => ({ properties: Object.fromEntries(this.list(3, () => [this.pick(names), inner()])) }),
      () => ({ additionalProperties: inner() }),
      () => ({ items: inner() }),
      () => ({ prefixItems: [inner(), inner()] }),
      () => ({ anyOf: [inner(), inner()] }),
      () => ({ oneOf: [inner(), inner()] }),
      () => ({ allOf: [inner(), inner()] }),
      () => ({ not: inner() }),
    ]
    return this.pick(depth > 3 ? simple : [...simple, ...nested])()
  }
}
