/**
 * Compiles a transform: the filter's expression (CEL) and the steps of the map, applied to one record at a time.
 * Expressions are restricted here; the thread that runs them limits their time and memory.
 */
import { createHash } from 'node:crypto'
import { Environment, EvaluationError } from '@marcbachmann/cel-js'
import { pathKeys, type Transform, type TransformStep, transformLimits } from '../../contract/transform.ts'
import { recordValue } from './json-value.ts'
import { isFound, patternFault } from './linear-pattern.ts'
import { RecordTree } from './record-tree.ts'

/** Transforms a record: returns its text (the same string if nothing is mapped), or null if it is filtered out. */
export type RecordTransform = (text: string) => string | null

/** A record that the transform cannot be applied to. The message is one line without values of the record. */
export class TransformError extends Error {
  readonly code: 'filter_error' | 'filter_not_boolean'

  constructor(code: TransformError['code'], message: string) {
    super(message)
    this.name = 'TransformError'
    this.code = code
  }
}

/**
 * Replacements of library functions, called instead of them because an environment does not allow redefining its own
 * functions.
 */
const replaced: Readonly<Record<string, string>> = {
  matches: 'matchesInLinearTime',
  join: 'joinWithinLimit',
  split: 'splitWithinLimit',
}

/**
 * The heap limit of a thread ends only the thread while no single allocation exceeds 16 MB; a larger one makes V8 end
 * the process. So results of expressions are limited to 8 MB, as text with two bytes per character or as a list.
 */
const maxCharacters = 4 * 1024 * 1024
const maxElements = 1024 * 1024

function requireAtMost(size: number, most: number, what: string): void {
  if (size > most) throw new EvaluationError(`It makes more than ${most} ${what}`)
}

function joined(list: readonly unknown[], separator: string): string {
  let length = 0
  for (const element of list) {
    if (typeof element !== 'string')
      throw new EvaluationError('string.join(): list must contain only strings')
    length += element.length + separator.length
    requireAtMost(length, maxCharacters, 'characters')
  }
  return list.join(separator)
}

/** `limit` is the maximum number of parts, the last of which holds the remaining text; below zero there is no limit. */
function parts(text: string, separator: string, limit = -1): string[] {
  const most = maxElements + 1
  const found = text.split(separator, limit < 0 ? most : Math.min(limit, most))
  requireAtMost(found.length, maxElements, 'elements')
  if (limit > 0 && found.length === limit) {
    const before = found.slice(0, -1).reduce((sum, part) => sum + part.length + separator.length, 0)
    found[limit - 1] = text.slice(before)
  }
  return found
}

/** Checks `+` of texts and of lists. */
function requireSumWithinLimit(left: unknown, right: unknown): void {
  if (typeof left === 'string' && typeof right === 'string')
    requireAtMost(left.length + right.length, maxCharacters, 'characters')
  else if (Array.isArray(left) && Array.isArray(right))
    requireAtMost(left.length + right.length, maxElements, 'elements')
}

const environment = new Environment({
  enableOptionalTypes: true,
  homogeneousAggregateLiterals: false,
  limits: {
    maxAstNodes: transformLimits.filterNodes,
    maxDepth: transformLimits.filterDepth,
    maxListElements: transformLimits.filterNodes,
    maxMapEntries: transformLimits.filterNodes,
    maxCallArguments: 16,
  },
})
  .registerVariable('record', 'map')
  .registerFunction(`string.${replaced.matches}(string): bool`, (text: string, pattern: string) => {
    try {
      return isFound(text, pattern)
    } catch {
      throw new EvaluationError(`Invalid regular expression: ${pattern}`)
    }
  })
  .registerFunction(`list<string>.${replaced.join}(): string`, (list: unknown[]) => joined(list, ''))
  .registerFunction(`list<string>.${replaced.join}(string): string`, joined)
  .registerFunction(`string.${replaced.split}(string): list<string>`, (text: string, separator: string) =>
    parts(text, separator),
  )
  .registerFunction(
    `string.${replaced.split}(string, int): list<string>`,
    (text: string, separator: string, limit: bigint) => parts(text, separator, Number(limit)),
  )

/** The fault of a filter as a sentence that follows the field's name; null when none can be found before it runs. */
export function filterFault(filter: string): string | null {
  const { valid, type, error } = environment.check(filter)
  if (!valid) return `is not a valid expression: ${firstLine(error)}`
  const { ast } = environment.parse(filter)
  if (hasBytes(ast)) return 'must not use bytes: a record has none'
  const wrong = wrongPattern(ast)
  if (wrong !== null) return `has an invalid regular expression: ${wrong}`
  if (type === 'bool' || type === 'dyn') return null
  return `must result in true or false, not ${type}`
}

/**
 * Bytes are allocated outside the heap, so the thread's limit does not apply: an expression that built a list of bytes
 * took 0.7 GB in its one second.
 */
function hasBytes(node: unknown): boolean {
  if (node instanceof Uint8Array) return true
  if (Array.isArray(node)) return node.some(hasBytes)
  if (!isNode(node)) return false
  const { op, args } = node
  return (op === 'call' && Array.isArray(args) && args[0] === 'bytes') || hasBytes(args)
}

interface Node {
  op: unknown
  args: unknown
  /** Set on binary operators after type checking. */
  handle?: (left: unknown, right: unknown, ...others: unknown[]) => unknown
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'op' in value && 'args' in value
}

function* nodesOf(value: unknown): Generator<Node> {
  if (Array.isArray(value)) for (const inner of value) yield* nodesOf(inner)
  if (!isNode(value)) return
  yield value
  yield* nodesOf(value.args)
}

/** Yields every call of a replaced function in an expression, as its list `[name, receiver, arguments]`. */
function* replacedCalls(node: unknown): Generator<unknown[]> {
  for (const { op, args } of nodesOf(node)) {
    if (op === 'rcall' && Array.isArray(args) && Object.hasOwn(replaced, String(args[0]))) yield args
  }
}

/** The fault of the first invalid pattern literal; null when there is none. Other patterns are known only with a record. */
function wrongPattern(ast: unknown): string | null {
  for (const [name, , given] of replacedCalls(ast)) {
    if (name !== 'matches') continue
    const [pattern] = Array.isArray(given) ? given : []
    const isLiteral = isNode(pattern) && pattern.op === 'value' && typeof pattern.args === 'string'
    const fault = isLiteral ? patternFault(String(pattern.args)) : null
    if (fault !== null) return fault
  }
  return null
}

/**
 * Compiles a checked transform. `onStep` receives the step that is applied next: 0 for the filter, from 1 on for the
 * steps of the map.
 */
export function compileTransform(
  { filter, map, mask_salt }: Transform,
  onStep: (step: number) => void = () => {},
): RecordTransform {
  const matches = filter === null ? null : compileFilter(filter)
  const steps = map.map((step) => compileStep(step, mask_salt ?? ''))
  return (text) => {
    onStep(0)
    if (matches !== null && !matches(text)) return null
    if (steps.length === 0) return text
    onStep(1)
    const record = new RecordTree(text)
    for (const [at, step] of steps.entries()) {
      onStep(at + 1)
      step(record)
    }
    return record.text
  }
}

function compileFilter(filter: string): (text: string) => boolean {
  const evaluate = environment.parse(filter)
  // A filter saved by a version without RE2 can have an invalid pattern: the lane reports it and waits, and no record is
  // parked for it.
  const wrong = wrongPattern(evaluate.ast)
  if (wrong !== null) throw new Error(`a regular expression of the filter is invalid: ${wrong}`)
  for (const call of [...replacedCalls(evaluate.ast)]) call[0] = replaced[String(call[0])]
  // Types are checked once, not for each record.
  evaluate.check()
  for (const node of nodesOf(evaluate.ast)) {
    const { op, handle } = node
    if (op !== '+' || handle === undefined) continue
    node.handle = (left, right, ...others) => {
      requireSumWithinLimit(left, right)
      return handle(left, right, ...others)
    }
  }
  return (text) => {
    const record = recordValue(text)
    let result: unknown
    try {
      result = evaluate({ record })
    } catch (error) {
      const why = withoutValues(error, filter)
      throw new TransformError('filter_error', `The filter cannot be applied to the record: ${why}.`)
    }
    if (typeof result === 'boolean') return result
    throw new TransformError(
      'filter_not_boolean',
      'The result of the filter for the record is neither true nor false.',
    )
  }
}

function compileStep(step: TransformStep, salt: string): (record: RecordTree) => void {
  switch (step.op) {
    case 'rename':
      return (record) => record.rename(step.from, step.to)
    case 'drop': {
      const paths = step.paths.map(keysOf)
      return (record) => {
        for (const path of paths) record.delete(path)
      }
    }
    case 'keep': {
      const paths = step.paths.map(keysOf)
      return (record) => record.keep(paths)
    }
    case 'mask': {
      const paths = step.paths.map(keysOf)
      return (record) => {
        for (const path of paths) {
          const text = record.get(path)
          if (text !== undefined && text !== 'null') record.replace(path, `"${masked(text, salt)}"`)
        }
      }
    }
    case 'constant': {
      const text = JSON.stringify(step.value)
      return (record) => record.set(step.key, text)
    }
    case 'move': {
      const from = keysOf(step.from)
      return (record) => {
        const text = record.get(from)
        if (text === undefined || (from.length === 1 && from[0] === step.to)) return
        record.delete(from)
        record.set(step.to, text)
      }
    }
  }
}

/** SHA-256 in lower-case hex, over the salt followed by the characters of a string or the JSON text of any other value. */
function masked(text: string, salt: string): string {
  const value: unknown = text.startsWith('"') ? JSON.parse(text) : text
  return createHash('sha256')
    .update(`${salt}${String(value)}`)
    .digest('hex')
}

function keysOf(path: string): string[] {
  const keys = pathKeys(path)
  if (Array.isArray(keys)) return keys
  throw new Error(`a path that was not checked: it ${keys.wrong}`)
}

/**
 * Errors with these codes, and platform errors (without a code or with the general one), end with a value that can be
 * from the record.
 */
const tellingCodes = new Set([
  'undefined',
  'evaluation_error',
  'no_such_key',
  'numeric_overflow',
  'invalid_duration',
  'invalid_regular_expression',
  'bool_conversion_error',
  'index_out_of_bounds',
])

/** Text that is in the filter itself can stay. */
function withoutValues(error: unknown, filter: string): string {
  const line = Object.entries(replaced).reduce(
    (text, [name, ours]) => text.replaceAll(ours, name),
    firstLine(error),
  )
  const code = typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : undefined
  const colon = line.indexOf(': ')
  if (!tellingCodes.has(String(code)) || colon === -1 || filter.includes(line.slice(colon + 2))) return line
  return line.slice(0, colon)
}

/** Without the excerpt of the expression that follows. */
function firstLine(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n')[0]!.slice(0, 300)
}
