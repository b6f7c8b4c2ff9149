/**
 * Selects the splitter by the layout of the input. NDJSON is split by lines, so that an invalid line can be found and
 * skipped. Any other layout (an array, objects over several lines) is split by brackets.
 */
import { fromTheStart, type InputPiece, type Splitter, type StartAt, whyNoRecord } from './input.ts'
import { LineSplitter } from './line-splitter.ts'
import { RecordSplitter } from './record-splitter.ts'

/** The number of bytes from which the layout is detected. */
const headBytes = 64 * 1024

/** From an offset, by the beginning of the content. The extension .ndjson or .jsonl determines the layout. */
export function splitterOf(name: string, head: Buffer, start: StartAt): Splitter {
  const isNamed = /\.(ndjson|jsonl)(\.gz)?$/i.test(name)
  const hasLines = isNamed || isLines(head, head.length < headBytes) === true
  return hasLines ? new LineSplitter(start, name) : new RecordSplitter(start, name)
}

/** For an input that arrives in parts. Decides as soon as the first lines are available. */
export class StreamSplitter implements Splitter {
  readonly #name: string
  #chosen: Splitter | null = null
  #head: Buffer = Buffer.alloc(0)

  constructor(name: string) {
    this.#name = name
  }

  get insideArray(): boolean {
    return this.#chosen?.insideArray ?? false
  }

  push(chunk: Buffer): InputPiece[] {
    if (this.#chosen !== null) return this.#chosen.push(chunk)
    this.#head = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk])
    const lines = isLines(this.#head, false)
    return lines === null && this.#head.length < headBytes
      ? []
      : this.#choose(lines === true).push(this.#head)
  }

  finish(): InputPiece[] {
    if (this.#chosen !== null) return this.#chosen.finish()
    const chosen = this.#choose(isLines(this.#head, true) === true)
    return [...chosen.push(this.#head), ...chosen.finish()]
  }

  #choose(lines: boolean): Splitter {
    this.#chosen = lines
      ? new LineSplitter(fromTheStart, this.#name)
      : new RecordSplitter(fromTheStart, this.#name)
    return this.#chosen
  }
}

/**
 * True if the input is NDJSON, according to its first lines. False: another layout, such as an array or objects over
 * several lines. Null: more input is needed.
 */
export function isLines(head: Buffer, isWhole: boolean): boolean | null {
  const text = head.toString('utf8').replace(/^\ufeff/, '')
  const lines = text.split('\n')
  const whole = (isWhole ? lines : lines.slice(0, -1))
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (/^\s*\[/.test(text)) return false
  const [first, second] = whole
  if (first === undefined) return isWhole ? false : null
  if (first[0] !== '{') return true
  const isRecord = whyNoRecord(Buffer.from(first)) === null
  // An incomplete line is the start of an object over several lines.
  if (!isRecord && /[{[,:]$/.test(first)) return false
  if (second === undefined) return isRecord || (isWhole ? first.endsWith('}') : null)
  if (isRecord) return !(second[0] === '{' && /[{[,:]$/.test(second))
  return second[0] === '{' && whyNoRecord(Buffer.from(second)) === null
}
