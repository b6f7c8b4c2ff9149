/**
 * Cuts a stream of bytes into records without parsing them: each record is the very bytes of the input.
 * Takes one JSON object, a JSON array of objects, or objects one after the other in any layout; the input may be larger
 * than memory, one record may not. For NDJSON there is `line-splitter.ts`.
 *
 *   between ──'{'──▶ inside ──matching '}'──▶ between
 *      └─ first byte '[': an array; elements are parted by commas and ']' ends it
 *
 * Only what is needed to find the ends is understood (strings, escapes, depth); a piece that is no valid JSON then is
 * given out as such.
 */
import { exitCodes, Failure } from '../../client/failure.ts'
import {
  countLineBreaks,
  fromTheStart,
  type InputPiece,
  type Splitter,
  type StartAt,
  whyNoRecord,
} from './input.ts'

/** A record larger than this is not one: a quotation mark or bracket is missing. */
const maxRecordBytes = 64 * 1024 * 1024
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])

const quote = 0x22
const backslash = 0x5c
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d
const comma = 0x2c

type Place =
  | 'start'
  | 'between'
  | 'array-first'
  | 'array-element'
  | 'array-separator'
  | 'inside'
  | 'after-array'

/** Push bytes in, get whole records out. Throws Failure (failed) that names line, record and byte of what is wrong. */
export class RecordSplitter implements Splitter {
  #place: Place
  /** Bytes not yet given out, and the offset of the first of them in the input. */
  #held: Buffer = Buffer.alloc(0)
  #heldOffset: number
  #records: number
  readonly #name: string
  /** Line breaks before `#countedTo`, a place in `#held`. */
  #lines: number
  #countedTo = 0
  /** Where in `#held` the scan goes on, where the record begins, and how it is nested there. */
  #at = 0
  #recordStart = 0
  #depth = 0
  #inString = false
  #returnTo: Place = 'between'
  #failure: Failure | null = null

  /** `name`: what messages call the input. */
  constructor(start: StartAt = fromTheStart, name = 'the input') {
    this.#name = name
    this.#lines = start.lines
    this.#heldOffset = start.offset
    this.#records = start.records
    this.#place = start.offset === 0 ? 'start' : start.insideArray ? 'array-separator' : 'between'
  }

  /** Whether the records are elements of an array: needed to resume. */
  get insideArray(): boolean {
    const place = this.#place === 'inside' ? this.#returnTo : this.#place
    return place.startsWith('array') || place === 'after-array'
  }

  push(chunk: Buffer): InputPiece[] {
    if (this.#failure !== null) throw this.#failure
    const records: InputPiece[] = []
    this.#held = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    try {
      this.#scan(records)
    } catch (error) {
      // The records before the fault are good: they are returned, and the fault is thrown at the next call.
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
      if (this.#place === 'inside') {
        if (!this.#scanRecord()) break
        const bytes = this.#held.subarray(this.#recordStart, this.#at)
        const line = this.#linesBefore(this.#recordStart) + 1
        const linesBeforeEnd = this.#linesBefore(this.#at)
        const place = { bytes, line, end: this.#heldOffset + this.#at, linesBeforeEnd }
        const reason = whyNoRecord(bytes)
        records.push(reason === null ? { kind: 'record', ...place } : { kind: 'invalid', reason, ...place })
        this.#records += 1
        this.#place = this.#returnTo
      } else this.#stepBetween()
    }
  }

  /** Call at the end of the input: it must not be inside a record or an array. */
  finish(): InputPiece[] {
    if (this.#failure !== null) throw this.#failure
    if (this.#place === 'inside') {
      throw this.#wrong(this.#recordStart, 'the input ends inside it')
    }
    if (this.#place.startsWith('array')) {
      throw this.#wrong(this.#at, 'the array is not closed: the input ends without ]')
    }
    return []
  }

  #stepBetween(): void {
    const byte = this.#held[this.#at]!
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
      this.#at += 1
      return
    }
    if (this.#place === 'start' && byte === byteOrderMark[0]) {
      if (this.#held.subarray(this.#at, this.#at + 3).equals(byteOrderMark)) {
        this.#at += 3
        this.#place = 'between'
        return
      }
    }
    switch (this.#place) {
      case 'start':
      case 'between':
        if (this.#place === 'start' && byte === openBracket) {
          this.#at += 1
          this.#place = 'array-first'
        } else if (byte === openBrace) this.#begin('between')
        else throw this.#wrong(this.#at, 'it is not a JSON object')
        return
      case 'array-first':
      case 'array-element':
        if (this.#place === 'array-first' && byte === closeBracket) {
          this.#at += 1
          this.#place = 'after-array'
        } else if (byte === openBrace) this.#begin('array-separator')
        else throw this.#wrong(this.#at, 'the array has an element that is not an object')
        return
      case 'array-separator':
        if (byte !== comma && byte !== closeBracket)
          throw this.#wrong(this.#at, 'a comma or ] is missing before it')
        this.#at += 1
        this.#place = byte === comma ? 'array-element' : 'after-array'
        return
      case 'after-array':
        throw this.#wrong(this.#at, 'something follows the closing ] of the array')
      case 'inside':
        throw new Error('a record is scanned elsewhere')
    }
  }

  #begin(returnTo: Place): void {
    this.#returnTo = returnTo
    this.#place = 'inside'
    this.#recordStart = this.#at
    this.#depth = 0
    this.#inString = false
  }

  /** Goes on to the end of the record; false when it needs more bytes. */
  #scanRecord(): boolean {
    const held = this.#held
    let at = this.#at
    let depth = this.#depth
    let inString = this.#inString
    while (at < held.length) {
      const byte = held[at]
      if (inString) {
        if (byte === backslash) {
          // The escaped byte may lie in the next chunk: stop before the backslash.
          if (at + 1 >= held.length) break
          at += 2
          continue
        }
        if (byte === quote) inString = false
      } else if (byte === quote) inString = true
      else if (byte === openBrace || byte === openBracket) depth += 1
      else if (byte === closeBrace || byte === closeBracket) {
        depth -= 1
        if (depth === 0) {
          this.#at = at + 1
          return true
        }
      }
      at += 1
    }
    this.#depth = depth
    this.#inString = inString
    this.#at = at
    if (at - this.#recordStart > maxRecordBytes) {
      throw this.#wrong(
        this.#recordStart,
        'it does not end within 64 MiB: a quotation mark or bracket is missing',
      )
    }
    return false
  }

  /** Drops what was given out; the tail is copied so that a big chunk is not kept alive by a few bytes. */
  #release(): void {
    const from = this.#place === 'inside' ? this.#recordStart : this.#at
    this.#linesBefore(from)
    this.#held = from === this.#held.length ? Buffer.alloc(0) : Buffer.from(this.#held.subarray(from))
    this.#heldOffset += from
    this.#at -= from
    this.#recordStart -= from
    this.#countedTo -= from
  }

  /** Line breaks of the input before a place in `#held`; places are asked for in order. */
  #linesBefore(at: number): number {
    this.#lines += countLineBreaks(this.#held.subarray(this.#countedTo, at))
    this.#countedTo = at
    return this.#lines
  }

  #wrong(at: number, what: string): Failure {
    const line = this.#linesBefore(at) + 1
    return new Failure(
      exitCodes.failed,
      `${this.#name}, line ${line} (record ${this.#records + 1}, byte ${this.#heldOffset + at}): ${what}`,
      'the input must be a JSON object, an array of objects, or one object per line (NDJSON); the records before it are sent',
    )
  }
}
