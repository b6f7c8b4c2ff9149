/**
 * Copies the records of a batch for the thread that encodes or stores them, in portions of a MiB or one record. A portion ends
 * between two records.
 *
 *   bytes   {"n":1}\n{"n":2}{"n":3}     parts one after another, each some records of one message, without a newline between parts
 *   parts   └─ message 7 ──┘└─ 8 ─┘     `message` null: more records of the message of the previous part
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import { lineFeed, recordPlace, records } from '../log/record-text.ts'
import type { Batch } from './driver.ts'

export interface Portion {
  bytes: Uint8Array<ArrayBuffer>
  parts: Part[]
}

interface Part {
  message: PartMessage | null
  byteCount: number
}

type Message = Batch['messages'][number]
type PartMessage = Pick<Message, 'seq' | 'msgId' | 'receivedMs' | 'firstIndex' | 'places'>

/** The position of a record in its pipe. */
export interface Place {
  seq: number
  msgId: string
  receivedMs: number
  recordIndex: number
}

/** The approximate memory of a part in addition to its records. */
const partBytes = 200

export class BatchPortions {
  readonly #messages: Batch['messages']
  #at = 0
  #offset = 0

  constructor(messages: Batch['messages']) {
    this.#messages = messages
  }

  /** Returns the next records in newly allocated memory. Null: there are no more. */
  next(): Portion | null {
    const texts: Buffer[] = []
    const parts: Part[] = []
    let byteCount = 0
    let left: number = resourceLimits.portionBytes
    for (let message = this.#messages[this.#at]; left > 0 && message; message = this.#messages[this.#at]) {
      const text = message.body.subarray(this.#offset, endOfRecords(message.body, this.#offset, left))
      texts.push(text)
      parts.push({ message: this.#offset === 0 ? partMessage(message) : null, byteCount: text.length })
      byteCount += text.length
      left -= text.length + partBytes
      this.#offset += text.length + 1
      if (this.#offset < message.body.length) continue
      this.#at += 1
      this.#offset = 0
    }
    if (parts.length === 0) return null
    const bytes = new Uint8Array(byteCount)
    let at = 0
    for (const text of texts) {
      bytes.set(text, at)
      at += text.length
    }
    return { bytes, parts }
  }
}

function partMessage({ seq, msgId, receivedMs, firstIndex, places }: Message): PartMessage {
  return {
    ...{ seq, msgId, receivedMs },
    ...(firstIndex === undefined ? {} : { firstIndex }),
    ...(places === undefined ? {} : { places }),
  }
}

/** Returns the end of the last record that fits, or that of the first record if none fits. */
function endOfRecords(body: Buffer, start: number, maxBytes: number): number {
  if (body.length - start <= maxBytes) return body.length
  const last = body.lastIndexOf(lineFeed, start + maxBytes)
  if (last > start) return last
  const next = body.indexOf(lineFeed, start + maxBytes)
  return next === -1 ? body.length : next
}

/** Reads the portions of one batch, in their order. */
export class PortionReader {
  #message: PartMessage = { seq: 0, msgId: '', receivedMs: 0 }
  #count = 0

  #begin(message: PartMessage): void {
    this.#message = message
    this.#count = 0
  }

  /** Each text has its own memory, so that it does not keep the other texts in memory. */
  *records({ bytes: { buffer, byteOffset }, parts }: Portion): Generator<{ text: string; place: Place }> {
    let offset = byteOffset
    for (const { message, byteCount } of parts) {
      if (message !== null) this.#begin(message)
      const { seq, msgId, receivedMs } = this.#message
      for (const record of records(Buffer.from(buffer, offset, byteCount))) {
        const recordIndex = recordPlace(this.#message, this.#count)
        this.#count += 1
        yield { text: record.toString('utf8'), place: { seq, msgId, receivedMs, recordIndex } }
      }
      offset += byteCount
    }
  }
}
