/**
 * Splits NDJSON. Every line is a record, so an invalid line does not affect the others. A line can contain several
 * objects.
 */
import { commandFailure, Failure } from '../../client/failure.ts'
import { fromTheStart, type InputPiece, type Splitter, type StartAt, whyNoRecord } from './input.ts'
import { RecordSplitter } from './record-splitter.ts'

/** A longer line is an error. */
const maxLineBytes = 16 * 1024 * 1024
const lineBreak = 0x0a
const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf])

export class LineSplitter implements Splitter {
  readonly insideArray = false
  /** Bytes of the incomplete line, and the offset of their start in the input. */
  #held: Buffer = Buffer.alloc(0)
  #offset: number
  #lines: number
  readonly #name: string
  #failure: Failure | null = null

  /** `name` is the name of the input in messages. */
  constructor(start: StartAt = fromTheStart, name = 'the input') {
    this.#name = name
    this.#offset = start.offset
    this.#lines = start.lines
  }

  push(chunk: Buffer): InputPiece[] {
    if (this.#failure !== null) throw this.#failure
    const pieces: InputPiece[] = []
    const bytes = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk])
    let from = 0
    // The held bytes contain no line break.
    for (
      let at = bytes.indexOf(lineBreak, this.#held.length);
      at !== -1;
      at = bytes.indexOf(lineBreak, from)
    ) {
      pieces.push(...this.#takeLine(bytes.subarray(from, at), 1))
      from = at + 1
    }
    this.#held = Buffer.from(bytes.subarray(from))
    if (this.#held.length > maxLineBytes) {
      // The lines before it are valid. They are returned, and the next call throws the error.
      this.#failure = commandFailure(
        `${this.#name}, line ${this.#lines + 1}: it is longer than ${maxLineBytes / 1024 / 1024} MiB; everything before it is accepted`,
        'the input must be a JSON object, an array of objects, or one object per line (NDJSON)',
      )
      if (pieces.length === 0) throw this.#failure
    }
    return pieces
  }

  finish(): InputPiece[] {
    if (this.#failure !== null) throw this.#failure
    const rest = this.#held
    this.#held = Buffer.alloc(0)
    return this.#takeLine(rest, 0)
  }

  #takeLine(line: Buffer, breaks: 0 | 1): InputPiece[] {
    const number = this.#lines + 1
    const hasMark = this.#offset === 0 && line.subarray(0, 3).equals(byteOrderMark)
    this.#offset += line.length + breaks
    this.#lines += breaks
    const text = hasMark ? line.subarray(3) : line
    if (isBlank(text)) return []
    const place = { line: number, end: this.#offset, linesBeforeEnd: this.#lines }
    const reason = whyNoRecord(text)
    if (reason === null) return [{ kind: 'record', bytes: trimmed(text), ...place }]
    const several = severalRecords(text)
    if (several === null) return [{ kind: 'invalid', bytes: trimmed(text), reason, ...place }]
    // A batch can end between them. Each has its own end, so that a resumed run starts with the next one.
    const textStart = this.#offset - breaks - text.length
    return several.map(({ bytes, end }, index) => {
      const isLast = index === several.length - 1
      const inLine = { line: number, end: textStart + end, linesBeforeEnd: number - 1 }
      return { kind: 'record', bytes, ...(isLast ? place : inLine) }
    })
  }
}

/** The objects of a line with several, and their ends in it. Null unless all are valid. */
function severalRecords(line: Buffer): { bytes: Buffer; end: number }[] | null {
  if (!/^\s*\{/.test(line.toString('latin1', 0, 64))) return null
  const splitter = new RecordSplitter()
  try {
    const pieces = [...splitter.push(line), ...splitter.finish()]
    return pieces.every((piece) => piece.kind === 'record') ? pieces : null
  } catch (error) {
    if (error instanceof Failure) return null
    throw error
  }
}

function isBlank(line: Buffer): boolean {
  // Most lines start with the record itself.
  return line[0] !== 0x7b && line.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)
}

function trimmed(line: Buffer): Buffer {
  let end = line.length
  while (end > 0 && [0x20, 0x09, 0x0d].includes(line[end - 1]!)) end -= 1
  let from = 0
  while (from < end && [0x20, 0x09].includes(line[from]!)) from += 1
  return line.subarray(from, end)
}
