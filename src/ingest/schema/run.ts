/** The state of one check: the steps that are left, and the errors that it collects. */
import { jsonPointer, type Subschema } from '../../contract/record-schema.ts'
import { schemaLimits } from '../../contract/schema-words.ts'

export interface RecordError {
  /** JSON Pointer into the record. */
  path: string
  /** Never contains a value of the record. */
  message: string
}

/** Returns whether the value matches. Throws OutOfSteps. */
export type Check = (value: unknown, run: Run) => boolean

/** A compiled pattern. It spends steps of `run`. */
export type PatternTest = (text: string, run: Run) => boolean
export type PatternCompiler = (pattern: string) => PatternTest

/** Compiles the schemas and patterns inside a keyword. */
export interface Compiling {
  compile(schema: Subschema): Check
  pattern: PatternCompiler
}

/** The steps of a check are used up, so that its result is unknown. */
export class OutOfSteps extends Error {}

/** A step is one visit of a schema, a key or some characters: 10 to 120 ns. */
export class Run {
  steps: number
  /** Null: only whether the value matches is asked, so the first error ends the check. */
  errors: RecordError[] | null = null
  readonly #path: (string | number)[] = []

  constructor(steps: number) {
    this.steps = steps
  }

  /** After OutOfSteps: the steps stay used up. */
  reset(): void {
    this.steps = 0
    this.#path.length = 0
  }

  spend(steps: number): void {
    this.steps -= steps
    if (this.steps < 0) throw new OutOfSteps()
  }

  /** Always false, for the result of the check. `key`: the error is at this member. */
  fail(message: string, key?: string): false {
    const { errors } = this
    if (errors !== null && errors.length < schemaLimits.shownErrors) {
      const path = key === undefined ? this.#path : [...this.#path, key]
      errors.push({ path: shortened(jsonPointer(path.map(shownKeyOf)), shownPath), message })
    }
    return false
  }

  get isFull(): boolean {
    return this.errors === null || this.errors.length >= schemaLimits.shownErrors
  }

  /** Checks the value of a member or an element. */
  inner(check: Check, value: unknown, key: string | number): boolean {
    if (this.errors === null) return check(value, this)
    this.#path.push(key)
    const matches = check(value, this)
    this.#path.pop()
    return matches
  }

  /** Checks without collecting errors, for alternatives. */
  probe(check: Check, value: unknown): boolean {
    const { errors } = this
    this.errors = null
    const matches = check(value, this)
    this.errors = errors
    return matches
  }
}

/** Keys of records can be as long as a body. */
const shownKey = 100
const shownPath = 500

function shownKeyOf(key: string | number): string {
  return shortened(String(key), shownKey)
}

/** Control characters and lone surrogates cannot be stored in every destination. */
function shortened(text: string, most: number): string {
  const short = text.length > most ? `${text.slice(0, most)}…` : text
  return short.replace(/\p{Cc}/gu, '\ufffd').toWellFormed()
}
