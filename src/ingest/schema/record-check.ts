/**
 * The check of records against the schema of their pipe (docs/dev/contract.md#schemas). Compiled schemas are cached by
 * their text, in every thread: entries of the directory are replaced whenever anything of their pipe changes.
 *
 * Time: a body gets a number of steps (`Run`). What does not fit on the thread of the sockets is checked in a parser
 * thread, with more steps. A record for which none are left does not match.
 */
import type { RecordSchema } from '../../contract/record-schema.ts'
import type { MismatchAction } from '../../contract/schema-words.ts'
import { schemaLimits } from '../../contract/schema-words.ts'
import type { DirectoryPipe } from '../../metadata/directory-source.ts'
import { schemaCompiler } from './compile.ts'
import { type MatchTable, matchTable } from './match-table.ts'
import { type Check, OutOfSteps, type PatternCompiler, type RecordError, Run } from './run.ts'

/** The rules for the records of a request. Plain data that can be sent to threads. */
export interface SchemaRules {
  /** JSON. */
  schema: string
  hasPatterns: boolean
  onMismatch: MismatchAction
  tagField: string
  /** For all records of the body. */
  steps: number
  /** True: a body that needs more steps is checked in another thread. */
  isInTurn: boolean
}

export interface ShownError extends RecordError {
  /** The index in the body. */
  record: number
}

/** The records of a body that do not match. Plain data that can be sent to threads. */
export interface Mismatched {
  /** The errors of each, by its index. Empty when only the first errors of the request are shown (`reject`). */
  byRecord: ReadonlyMap<number, readonly RecordError[]>
  records: number
  /** The first errors. */
  errors: readonly ShownError[]
}

/** Steps of a body on the thread of the sockets: 2 to 20 ms. */
const stepsInTurn = 200_000
/** Steps of a body in a parser thread. Records with a dense schema take 1 to 3 per byte. */
export const stepsInThread = (bytes: number) => 2_000_000 + 2 * bytes

/** Null: the pipe has no schema. Cached by the entry, which is replaced when the pipe changes. */
export function schemaRulesOf(entry: DirectoryPipe): SchemaRules | null {
  if (entry.pipe.pipe_schema === null) return null
  const known = rulesByEntry.get(entry)
  if (known !== undefined) return known
  const { pipe_schema, pipe_schema_on_mismatch: onMismatch, pipe_schema_tag_field: tagField } = entry.pipe
  const schema = JSON.stringify(pipe_schema)
  // A text in the schema can look like the keyword. The engine is then loaded although no pattern needs it.
  const hasPatterns = schema.includes('"pattern":')
  const rules = { schema, hasPatterns, onMismatch, tagField, steps: stepsInTurn, isInTurn: true }
  rulesByEntry.set(entry, rules)
  return rules
}
const rulesByEntry = new WeakMap<DirectoryPipe, SchemaRules>()

let compilePattern: PatternCompiler | null = null

/** Resolves when the rules can be used. Null: they can be used now. */
export function loadPatterns({ hasPatterns }: SchemaRules): Promise<void> | null {
  if (!hasPatterns || compilePattern !== null) return null
  return import('./linear-pattern.ts').then((module) => {
    compilePattern = module.linearPattern
  })
}

/**
 * Null: all records match. `elsewhere`: the steps were used up, and another thread has more. Requires `loadPatterns`.
 */
export function mismatchesOf(
  records: readonly unknown[],
  rules: SchemaRules,
): Mismatched | 'elsewhere' | null {
  const { check } = compiledOf(rules.schema)
  const run = new Run(rules.steps)
  const found = new Found(rules.onMismatch !== 'reject')
  for (let index = 0; index < records.length; index++) {
    const errors = errorsOf(check, records[index], run, found.needsErrors)
    if (errors === 'unknown' && rules.isInTurn) return 'elsewhere'
    if (errors !== null) found.add(index, errors === 'unknown' ? [outOfSteps] : errors)
  }
  return found.records === 0 ? null : found.result
}

/** Collects the records that do not match. */
class Found {
  readonly #byRecord = new Map<number, readonly RecordError[]>()
  readonly #shown: ShownError[] = []
  /** The errors of every record are needed, not only the first ones of the request. */
  readonly #isComplete: boolean
  records = 0

  constructor(isComplete: boolean) {
    this.#isComplete = isComplete
  }

  get needsErrors(): boolean {
    return this.#isComplete || this.#shown.length < schemaLimits.shownErrors
  }

  get result(): Mismatched {
    return { byRecord: this.#byRecord, records: this.records, errors: this.#shown }
  }

  add(record: number, errors: readonly RecordError[]): void {
    this.records++
    if (this.#isComplete) this.#byRecord.set(record, errors)
    const room = schemaLimits.shownErrors - this.#shown.length
    for (const error of errors.slice(0, room)) this.#shown.push({ record, ...error })
  }
}

/** True if all records are known to match: a cheap check before the complete one. */
export function allMatch(records: readonly unknown[], rules: SchemaRules): boolean {
  const { check } = compiledOf(rules.schema)
  const run = new Run(rules.steps)
  for (const record of records) if (errorsOf(check, record, run, false) !== null) return false
  return true
}

/** Few steps of a body are for the scanner's walk, because they are spent in vain when it is undecided. */
const walkShare = 4

/** True if `confirms` says so. It is not called when the scanner cannot check the schema. */
export function isConfirmedBy(
  { schema, steps }: SchemaRules,
  confirms: (table: MatchTable, run: Run) => boolean,
): boolean {
  const { table } = compiledOf(schema)
  if (table === null) return false
  try {
    return confirms(table, new Run(steps / walkShare))
  } catch (error) {
    if (error instanceof OutOfSteps) return false
    throw error
  }
}

/** The member that a tagged record gets, as JSON text. */
export function tagOf({ tagField }: SchemaRules, errors: readonly RecordError[]): string {
  return `${JSON.stringify(tagField)}:${JSON.stringify(errors.map(({ path, message }) => `${path || '/'}: ${message}`))}`
}

const outOfSteps: RecordError = {
  path: '',
  message:
    'takes too many steps to check, together with the other records of the request: send fewer or smaller records',
}

/** Null: the record matches. */
function errorsOf(
  check: Check,
  record: unknown,
  run: Run,
  isExplained: boolean,
): RecordError[] | 'unknown' | null {
  try {
    run.errors = null
    if (check(record, run)) return null
    if (!isExplained) return []
    run.errors = []
    check(record, run)
    return run.errors
  } catch (error) {
    if (!(error instanceof OutOfSteps)) throw error
    run.reset()
    return 'unknown'
  }
}

interface Compiled {
  check: Check
  /** Null: the scanner cannot check the schema. */
  table: MatchTable | null
  bytes: number
}

/** By text, oldest first. */
const compiledSchemas = new Map<string, Compiled>()
let compiledBytes = 0
/** Characters of schemas whose compiled form is kept. It takes 10 to 20 times as many bytes. */
const maxCompiledCharacters = 2 * 1024 * 1024

function compiledOf(text: string): Compiled {
  const known = compiledSchemas.get(text)
  if (known !== undefined) return known
  const pattern: PatternCompiler = (one) => {
    if (compilePattern === null) throw new Error('the engine of patterns is not loaded')
    return compilePattern(one)
  }
  // Verified when it was set.
  const schema = JSON.parse(text) as RecordSchema
  const compile = schemaCompiler(schema, pattern)
  const compiled = { check: compile(schema), table: matchTable(schema, compile), bytes: text.length }
  compiledSchemas.set(text, compiled)
  compiledBytes += text.length
  for (const [oldest, { bytes }] of compiledSchemas) {
    if (compiledBytes <= maxCompiledCharacters || oldest === text) break
    compiledSchemas.delete(oldest)
    compiledBytes -= bytes
  }
  return compiled
}
