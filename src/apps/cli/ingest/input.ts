/**
 * The parts of an input: records and invalid pieces. An invalid piece has its line and the reason, so that the user
 * can find it, and its bytes, so that it can be set aside.
 */
export interface InputRecord {
  kind: 'record'
  bytes: Buffer
  /** The line where it starts, from 1. */
  line: number
  /** The offset just after it, where a resumed run continues, and the number of line breaks before that offset. */
  end: number
  linesBeforeEnd: number
  /** The bytes of the input, if the record is converted from another format and they can be set aside. */
  original?: Buffer
}

export interface InvalidPiece extends Omit<InputRecord, 'kind' | 'original'> {
  kind: 'invalid'
  reason: string
}

export type InputPiece = InputRecord | InvalidPiece

export interface StartAt {
  offset: number
  /** Records and line breaks before the offset, for messages. */
  records: number
  lines: number
  /** The offset is inside an array, after an element. */
  insideArray: boolean
}

export const fromTheStart: StartAt = { offset: 0, records: 0, lines: 0, insideArray: false }

/** Splits a stream of bytes into pieces. Throws Failure if the input cannot be split any further. */
export interface Splitter {
  push(chunk: Buffer): InputPiece[]
  /** Call at the end of the input. */
  finish(): InputPiece[]
  /** True if the records are elements of an array. A resumed run needs it. */
  readonly insideArray: boolean
}

export interface PieceReader {
  /** The unit that positions in messages count. */
  unit: 'line' | 'row'
  /** True if the records are elements of an array. A resumed run needs it. */
  readonly insideArray: boolean
  /** The header line of CSV, with its line break. Null: there is none. */
  readonly headerLine: Buffer | null
  /** Null at the end. Throws an error after everything before it was returned. */
  next(): Promise<InputPiece[] | null>
  /** Stored bytes up to the offset, for the progress. */
  storedBytes(offset: number): number
  close(): Promise<void>
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The reason why these bytes are not a JSON object. Null if they are one. */
export function whyNoRecord(bytes: Buffer): string | null {
  let text: string
  try {
    text = utf8.decode(bytes)
  } catch {
    return 'it is not valid UTF-8'
  }
  try {
    const value: unknown = JSON.parse(text)
    const isRecord = value !== null && typeof value === 'object' && !Array.isArray(value)
    return isRecord ? null : 'it is not a JSON object'
  } catch (error) {
    return `it is not valid JSON: ${reasonOf(error)}`
  }
}

/** V8's message contains the text that it could not parse. The line number is enough. */
function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message
    .replace(/(, |: )?(\.\.\.)?".*"(\.\.\.)? is not valid JSON$/s, '')
    .replace(/ in JSON at/, ' at')
}

export function countLineBreaks(bytes: Buffer): number {
  let count = 0
  for (let at = bytes.indexOf(0x0a); at !== -1; at = bytes.indexOf(0x0a, at + 1)) count += 1
  return count
}
