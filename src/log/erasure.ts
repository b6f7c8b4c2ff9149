/**
 * Deleting records from the log by their content: the port, and the rule which records are meant. `segments/` implements
 * it by rewriting segments; a log in JetStream has none.
 *
 *   find:   newest state of the log ──scan, in a thread──▶ records that match
 *   erase:  scan ──▶ segments with a match ──▶ each is rewritten without these records ──▶ the old file is unlinked
 *
 * A message keeps its row, its seq and its totals, and its other records keep their indexes: `erased-body.ts`. So no
 * cursor, backlog, batch or `dedupe_id` changes.
 */
import {
  beforeWhiteSpace,
  endOfMember,
  members,
  openBrace,
  openBracket,
  skipWhiteSpace,
  stringValue,
} from './record-text.ts'

export interface ErasureCondition {
  /** Keys from the top of the record, at least one. A value inside an array is found under the key of the array. */
  path: readonly string[]
  /** The JSON text of a string, number or boolean, or the string itself. Numbers are not rounded: 1.0 is not 1. */
  value: string
}

export interface ErasureRequest {
  pipeIds: readonly string[]
  /** A record must meet all of them. At least one. */
  conditions: readonly ErasureCondition[]
  /** The newest message that is looked at. Default: the newest one when the call begins. */
  throughSeq?: number
}

export interface ErasureProgress {
  /** Messages that lost records. */
  messages: number
  records: number
  /** Files that were rewritten or removed. */
  files: number
  /** Files that are still to be searched. */
  filesLeft: number
}

export interface FoundRecord {
  pipeId: string
  msgId: string
  streamSeq: number
  recordIndex: number
}

/**
 * Both calls can be ended with the signal (they reject with its reason) and repeated: records that are gone are not found
 * again. Both reject with StorageUnavailableError while a damaged segment waits for its salvage, and while there is no disk
 * space for a rewritten segment.
 */
export interface LogErasure {
  find(request: ErasureRequest, signal?: AbortSignal): AsyncIterable<FoundRecord>
  /**
   * When it resolves, no file of the log holds the records, and readers read the new files. An attempt at a batch that
   * began before can still deliver them. `onProgress` is called after each file. Counts are of this call.
   */
  erase(
    request: ErasureRequest,
    onProgress?: (progress: ErasureProgress) => void,
    signal?: AbortSignal,
  ): Promise<ErasureProgress>
}

/** Returns true when the record meets every condition. The text is a valid JSON object. */
export function matches(record: string | Buffer, conditions: readonly ErasureCondition[]): boolean {
  const text = typeof record === 'string' ? Buffer.from(record) : record
  return conditions.every((condition) => isCandidate(text, condition) && meets(text, condition))
}

/**
 * False when no record in these bytes can meet the condition. A value without escapes is in the text as it is, so most
 * records are rejected without a look at their structure.
 */
export function isCandidate(bytes: Buffer, { value }: ErasureCondition): boolean {
  return bytes.includes(value) || bytes.includes('\\')
}

interface Step {
  value: Buffer
  /** Keys of the path that lead to the value. */
  depth: number
}

/** Not recursive: arrays can be nested as deep as a record can be. */
function meets(record: Buffer, { path, value: wanted }: ErasureCondition): boolean {
  const steps: Step[] = [{ value: trimmed(record), depth: 0 }]
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    const { value, depth } = step
    if (value[0] === openBracket) for (const element of elements(value)) steps.push({ value: element, depth })
    else if (depth < path.length) steps.push(...valuesOf(value, path[depth]!, depth + 1))
    else if (value[0] !== openBrace && isValue(value, wanted)) return true
  }
  return false
}

/** The values of a key. A duplicate key has several, and each of them can be about the person. */
function valuesOf(object: Buffer, name: string, depth: number): Step[] {
  if (object[0] !== openBrace) return []
  const found: Step[] = []
  for (const { key, value } of members(object))
    if (stringValue(key.toString('utf8')) === name) found.push({ value, depth })
  return found
}

function* elements(array: Buffer): Generator<Buffer> {
  const end = array.length - 1
  for (let at = 1; at < end; ) {
    const elementEnd = Math.min(endOfMember(array, at), end)
    yield trimmed(array.subarray(at, elementEnd))
    at = elementEnd + 1
  }
}

function trimmed(text: Buffer): Buffer {
  const start = skipWhiteSpace(text, 0, text.length)
  return text.subarray(start, beforeWhiteSpace(text, start, text.length))
}

function isValue(text: Buffer, wanted: string): boolean {
  const value = text.toString('utf8')
  if (value === 'null') return false
  return value === wanted || (value.startsWith('"') && stringValue(value) === wanted)
}
