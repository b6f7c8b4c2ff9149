/**
 * Splits a stream of bytes into records without parsing them. Each record has the exact bytes of the input. Accepts one JSON
 * object, a JSON array of objects, or objects one after another in any layout. The input can be larger than memory, a record
 * cannot. `line-splitter.ts` handles NDJSON.
 *
 *   between ──'{'──▶ inside ──matching '}'──▶ between
 *      └─ first byte '[': an array; commas separate its elements and ']' ends it
 *
 * Only the syntax that determines the end of a record is checked (strings, escapes, depth). A record that is not valid JSON is
 * returned as an invalid piece.
 */
import { commandFailure, Failure } from '../../client/failure.ts'
import {
  countLineBreaks,
  fromTheStart,
  type InputPiece,
  type Splitter,
  type StartAt,
  whyNoRecord,
} from './input.ts'

/** A larger record is an error: a quotation mark or bracket is missing. */
const maxRecordBytes = 16 * 1024 * 1024
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
const comma = 0x2c

type State =
  | 'start'
  | 'between'
  | 'array-first'
  | 'array-element'
  | 'array-separator'
  | 'inside'
  | 'after-array'

/**
 * The bytes that each state accepts in addition to white space, the state they lead to, and the error for any other
 * byte.
 */
const transitions: Record<
  Exclude<State, 'inside'>,
  { accepts: Readonly<Partial<Record<number, State>>>; fault: string }
> = {
  start: {
    accepts: { [openBrace]: 'inside', [openBracket]: 'array-first' },
    fault: 'it is not a JSON object',
  },
  between: { accepts: { [openBrace]: 'inside' }, fault: 'it is not a JSON object' },
  'array-first': {
    accepts: { [openBrace]: 'inside', [closeBracket]: 'after-array' },
    fault: 'the array has an element that is not an object',
  },
  'array-element': {
    accepts: { [openBrace]: 'inside' },
    fault: 'the array has an element that is not an object',
  },
  'array-separator': {
    accepts: { [comma]: 'array-element', [closeBracket]: 'after-array' },
    fault: 'a comma or ] is missing before it',
  },
  'after-array': { accepts: {}, fault: 'something follows the closing ] of the array' },
}

/** Takes bytes and returns complete records. Throws Failure (failed) with line, record and byte of an error. */
export class RecordSplitter implements Splitter {
  #state: State
  /** Bytes that are not returned yet, and the offset of the first of them in the input. */
  #held: Buffer = Buffer.alloc(0)
  #heldOffset: number
  #records: number
  readonly #name: string
  /** Line breaks before `#countedTo`, a position in `#held`. */
  #lines: number
  #countedTo = 0
  /** In `#held`: the position of the scan, the start of the record, and the nesting depth (0 outside of records). */
  #at = 0
  #recordStart = 0
  #depth = 0
  #inString = false
  #returnTo: State = 'between'
  #failure: Failure | null = null

  /** `name` is the name of the input in messages. */
  constructor(start: StartAt = fromTheStart, name = 'the input') {
    this.#name = name
    this.#lines = start.lines
    this.#heldOffset = start.offset
    this.#records = start.records
    this.#state = start.offset === 0 ? 'start' : start.insideArray ? 'array-separator' : 'between'
  }

  /** True if the records are elements of an array. A resumed run needs it. */
  get insideArray(): boolean {
    const state = this.#state === 'inside' ? this.#returnTo : this.#state
    return state.startsWith('array') || state === 'after-array'
  }

  push(chunk: Buffer): InputPiece[] {
    if (this.#failure !== null) throw this.#failure
    const records: InputPiece[] = []
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    try {
      this.#scan(records)
    } catch (error) {
      // The records before the error are valid. They are returned, and the next call throws the error.
      if (!(error instanceof Failure)) throw error
      this.#failure = error
      if (records.length === 0) throw error
      return records
    }
    this.#release()
    return records
  }

  #scan(records: InputPiece[]): void {
    while (this.#at < this.#held.length) {
      const state = this.#state
      if (state === 'inside') {
        if (!this.#scanRecord()) break
        const bytes = this.#held.subarray(this.#recordStart, this.#at)
        const line = this.#linesBefore(this.#recordStart) + 1
        const linesBeforeEnd = this.#linesBefore(this.#at)
        const located = { bytes, line, end: this.#heldOffset + this.#at, linesBeforeEnd }
        const reason = whyNoRecord(bytes)
        records.push(
          reason === null ? { kind: 'record', ...located } : { kind: 'invalid', reason, ...located },
        )
        this.#records += 1
        this.#state = this.#returnTo
      } else this.#stepBetween(state)
    }
  }

  /** Call at the end of the input. Throws if the input ends inside a record or an array. */
  finish(): InputPiece[] {
    if (this.#failure !== null) throw this.#failure
    if (this.#state === 'inside') {
      throw this.#wrong(this.#recordStart, 'the input ends inside it')
    }
    if (this.#state.startsWith('array')) {
      throw this.#wrong(this.#at, 'the array is not closed: the input ends without ]')
    }
    return []
  }

  /** Consumes one byte outside of records, or the byte order mark. */
  #stepBetween(state: Exclude<State, 'inside'>): void {
    const byte = this.#held[this.#at]!
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
      this.#at += 1
      return
    }
    if (state === 'start' && this.#held.subarray(this.#at, this.#at + 3).equals(byteOrderMark)) {
      this.#at += 3
      this.#state = 'between'
      return
    }
    const { accepts, fault } = transitions[state]
    const next = accepts[byte]
    if (next === undefined) throw this.#wrong(this.#at, fault)
    this.#state = next
    if (next === 'inside') {
      this.#returnTo = state.startsWith('array') ? 'array-separator' : 'between'
      this.#recordStart = this.#at
    } else this.#at += 1
  }

  /** Scans to the end of the record. False: more bytes are needed. */
  #scanRecord(): boolean {
    while (!this.#inString || this.#scanString()) {
      if (!this.#scanStructure()) break
      if (this.#depth === 0) return true
    }
    if (this.#at - this.#recordStart > maxRecordBytes) {
      throw this.#wrong(
        this.#recordStart,
        'it does not end within 16 MiB: a quotation mark or bracket is missing',
      )
    }
    return false
  }

  /** Scans past the quotation mark that ends the string. False: more bytes are needed. */
  #scanString(): boolean {
    const held = this.#held
    let at = this.#at
    while (at < held.length) {
      const byte = held[at]
      if (byte === quote) {
        this.#inString = false
        this.#at = at + 1
        return true
      }
      // The escaped byte can be in the next chunk, so stop before the backslash.
      if (byte === backslash && at + 1 >= held.length) break
      at += byte === backslash ? 2 : 1
    }
    this.#at = at
    return false
  }

  /** Scans to the end of the record (depth 0) or to the start of a string. False: more bytes are needed. */
  #scanStructure(): boolean {
    const held = this.#held
    let at = this.#at
    let depth = this.#depth
    let isStopped = false
    while (!isStopped && at < held.length) {
      const byte = held[at]
      at += 1
      if (byte === quote) isStopped = this.#inString = true
      else if (byte === openBrace || byte === openBracket) depth += 1
      else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1
        isStopped = depth === 0
      }
    }
    this.#at = at
    this.#depth = depth
    return isStopped
  }

  /** Drops returned bytes. The remaining ones are copied, so that they do not keep a large chunk in memory. */
  #release(): void {
    const from = this.#state === 'inside' ? this.#recordStart : this.#at
    this.#linesBefore(from)
    this.#held = from === this.#held.length ? Buffer.alloc(0) : Buffer.from(this.#held.subarray(from))
    this.#heldOffset += from
    this.#at -= from
    this.#recordStart -= from
    this.#countedTo -= from
  }

  /** Line breaks of the input before a position in `#held`. Positions must be requested in ascending order. */
  #linesBefore(at: number): number {
    this.#lines += countLineBreaks(this.#held.subarray(this.#countedTo, at))
    this.#countedTo = at
    return this.#lines
  }

  #wrong(at: number, what: string): Failure {
    const line = this.#linesBefore(at) + 1
    return commandFailure(
      `${this.#name}, line ${line} (record ${this.#records + 1}, byte ${this.#heldOffset + at}): ${what}`,
      'the input must be a JSON object, an array of objects, or one object per line (NDJSON); the records before it are sent',
    )
  }
}
