/**
 * The shape of all values at one path. Records come from untrusted clients, so paths, depth and the length of keys are
 * bounded. Whatever exceeds a bound is left open: it is never described by a part of its values only.
 */
import { StringFacts } from './string-facts.ts'

export type Kind = 'null' | 'boolean' | 'integer' | 'decimal' | 'infinite' | 'string' | 'object' | 'array'

export const inferenceLimits = {
  /** A schema has at most 2,000 nodes. */
  paths: 1_000,
  /** A schema has at most 32 levels of JSON, and each level of a record takes two. */
  depth: 12,
  keyCharacters: 200,
  /** All keys together: a schema has at most 64 KiB. */
  keysCharacters: 24_000,
} as const

/** Paths and characters that are left, shared by all shapes of one inference. */
export interface Budget {
  paths: number
  characters: number
}

export class Shape {
  readonly #budget: Budget
  readonly #depth: number
  readonly kinds = new Map<Kind, number>()
  strings: StringFacts | null = null
  members: Members | null = null
  /** Null: there were no elements, or they are not described. */
  items: Shape | null = null
  #areItemsOpen = false
  lowest = Number.POSITIVE_INFINITY

  constructor(budget: Budget, depth: number) {
    this.#budget = budget
    this.#depth = depth
  }

  add(value: unknown): void {
    const kind = kindOf(value)
    this.kinds.set(kind, this.countOf(kind) + 1)
    if (typeof value === 'number') this.lowest = Math.min(this.lowest, value)
    else if (typeof value === 'string') this.#strings().add(value)
    else if (Array.isArray(value)) this.#addItems(value)
    else if (typeof value === 'object' && value !== null) this.addObject(value)
  }

  /** `ignored`: keys that are passed over. */
  addObject(value: object, ignored?: ReadonlySet<string>): void {
    const isNew = this.members === null
    this.members ??= new Members(this.#budget, this.#depth + 1)
    if (isNew && this.#depth >= inferenceLimits.depth) this.members.close()
    this.members.add(value, ignored)
  }

  countOf(kind: Kind): number {
    return this.kinds.get(kind) ?? 0
  }

  merge(other: Shape): void {
    for (const [kind, times] of other.kinds) this.kinds.set(kind, this.countOf(kind) + times)
    this.lowest = Math.min(this.lowest, other.lowest)
    if (other.strings !== null) this.#strings().merge(other.strings)
    this.#mergeItems(other)
    if (other.members === null) return
    if (this.members === null) this.members = other.members
    else this.members.merge(other.members)
  }

  #strings(): StringFacts {
    this.strings ??= new StringFacts()
    return this.strings
  }

  #addItems(values: readonly unknown[]): void {
    if (values.length === 0 || this.#areItemsOpen) return
    this.items ??= this.#newItems()
    for (const value of values) this.items?.add(value)
  }

  #newItems(): Shape | null {
    if (this.#depth >= inferenceLimits.depth || this.#budget.paths === 0) {
      this.#areItemsOpen = true
      return null
    }
    this.#budget.paths -= 1
    return new Shape(this.#budget, this.#depth + 1)
  }

  #mergeItems(other: Shape): void {
    this.#areItemsOpen ||= other.#areItemsOpen
    if (this.#areItemsOpen) this.items = null
    else if (this.items === null) this.items = other.items
    else if (other.items !== null) this.items.merge(other.items)
  }
}

/** The members of all objects at one path. */
export class Members {
  readonly #budget: Budget
  readonly #depth: number
  objects = 0
  readonly properties = new Map<string, Shape>()
  /** All values, when the keys are data instead of names. */
  values: Shape | null = null
  /** Some keys are not described. They stay so, because a later description would not know their earlier values. */
  isPartial = false

  constructor(budget: Budget, depth: number) {
    this.#budget = budget
    this.#depth = depth
  }

  close(): void {
    this.isPartial = true
  }

  add(value: object, ignored?: ReadonlySet<string>): void {
    this.objects += 1
    for (const [key, member] of Object.entries(value)) if (!ignored?.has(key)) this.#shapeOf(key)?.add(member)
  }

  merge(other: Members): void {
    this.objects += other.objects
    // The other objects can have values of this key that are not described.
    if (other.isPartial && this.values === null)
      for (const key of this.properties.keys()) if (!other.properties.has(key)) this.properties.delete(key)
    if (other.values !== null) this.toMap()
    for (const [key, shape] of other.properties) this.#mergeShape(key, shape)
    this.isPartial ||= other.isPartial
    if (other.values !== null) this.#mergeShape('', other.values)
  }

  /** Treats the keys as data: one shape describes all values. */
  toMap(): void {
    if (this.values !== null) return
    this.values = new Shape(this.#budget, this.#depth)
    for (const [key, shape] of this.properties) {
      this.values.merge(shape)
      this.#budget.paths += 1
      this.#budget.characters += key.length
    }
    this.properties.clear()
  }

  /** True if the keys are data, such as ids and dates. */
  get looksLikeMap(): boolean {
    const { size } = this.properties
    if (size < fewIds || this.isPartial) return false
    if ([...this.properties.keys()].every(isIdLike)) return true
    if (size < fewNames) return false
    let seen = 0
    let kinds = new Set<string>()
    for (const shape of this.properties.values()) {
      const times = [...shape.kinds.values()].reduce((sum, count) => sum + count, 0)
      if (times === this.objects && this.objects > 1) return false
      seen += times
      kinds = new Set([...kinds, ...[...shape.kinds.keys()].map(broadKind)])
    }
    kinds.delete('null')
    return kinds.size === 1 && seen / (size * this.objects) < sparseFill
  }

  #shapeOf(key: string): Shape | null {
    if (this.values !== null) return this.values
    const known = this.properties.get(key)
    if (known !== undefined) return known
    if (this.isPartial) return null
    if (!this.#take(key)) {
      if (this.looksLikeMap) this.toMap()
      else this.isPartial = true
      return this.values
    }
    const shape = new Shape(this.#budget, this.#depth)
    this.properties.set(key, shape)
    return shape
  }

  #mergeShape(key: string, shape: Shape): void {
    if (this.values !== null) this.values.merge(shape)
    else {
      const known = this.properties.get(key)
      if (known !== undefined) known.merge(shape)
      // The other objects' shape has seen all values of the key, so it can be adopted even now.
      else if (!this.isPartial) this.properties.set(key, shape)
    }
  }

  #take(key: string): boolean {
    const { keyCharacters } = inferenceLimits
    // As a name of a property, __proto__ is a trap of many languages.
    if (key.length > keyCharacters || key === '__proto__') return false
    if (this.properties.size === manyKeys && this.looksLikeMap) return false
    if (this.#budget.paths === 0 || this.#budget.characters < key.length) return false
    this.#budget.paths -= 1
    this.#budget.characters -= key.length
    return true
  }
}

/** The keys from which on an object can be a map: of ids, and of any words. */
const fewIds = 5
const fewNames = 30
/** The average key of a map is in fewer objects than this part of them. */
const sparseFill = 0.3
/** An object with this many keys that looks like a map is one from there on. */
const manyKeys = 200

function isIdLike(key: string): boolean {
  return (
    /^[0-9]+$/.test(key) || /^[0-9a-f-]{8,}$/i.test(key) || /^\d{4}-\d{2}/.test(key) || /\d{4,}/.test(key)
  )
}

function broadKind(kind: Kind): string {
  return kind === 'integer' || kind === 'decimal' || kind === 'infinite' ? 'number' : kind
}

function kindOf(value: unknown): Kind {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  switch (typeof value) {
    case 'boolean':
      return 'boolean'
    case 'number':
      // JSON.parse reads 1e400 as Infinity, which is no number for a schema.
      if (!Number.isFinite(value)) return 'infinite'
      return Number.isInteger(value) ? 'integer' : 'decimal'
    case 'string':
      return 'string'
    default:
      return 'object'
  }
}
