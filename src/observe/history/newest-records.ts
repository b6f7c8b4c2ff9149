/**
 * Reads the newest records of a pipe, newest message first, in the steps of a search: one at a time for all requests
 * of the thread, each followed by a pause of the same length.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { MessageLookup, ReadMessage } from '../../log/buffer.ts'
import { placedRecords } from '../../log/erased-body.ts'
import type { Semaphore } from '../../platform/semaphore.ts'
import type { RecordsRead, RecordsToRead } from './history.ts'

const { schemaSampleBytes, schemaSampleMs, searchStepBytes, searchStepMessages } = resourceLimits
const maxPauseMs = 100

export interface ReadRecord {
  /** Null: of a sample. */
  message: Pick<ReadMessage, 'msgId' | 'receivedMs'> | null
  /** Its index in the message, or in the sample. */
  index: number
  text: Buffer
}

/** Calls `take` for each record. */
export class NewestRecords {
  readonly #lookup: MessageLookup
  readonly #steps: Semaphore

  constructor(lookup: MessageLookup, steps: Semaphore) {
    this.#lookup = lookup
    this.#steps = steps
  }

  async each(source: RecordsToRead, take: (record: ReadRecord) => void): Promise<RecordsRead> {
    const reading = new Reading(source.maxRecords, take)
    const { sample } = source
    if (sample === null) await this.#readPipe(source.pipeId, reading)
    else await this.#steps.run(async () => reading.takeSample(Buffer.from(sample)))
    return reading.result
  }

  async #readPipe(pipeId: string, reading: Reading): Promise<void> {
    const endMs = performance.now() + schemaSampleMs
    let beforeSeq = Number.MAX_SAFE_INTEGER
    for (;;) {
      const read = await this.#steps.run(async () => {
        const beganMs = performance.now()
        const limits = { limit: searchStepMessages, maxBytes: searchStepBytes }
        const messages = await this.#lookup.read(pipeId, { beforeSeq, afterSeq: 0, ...limits })
        for (const message of messages) reading.takeMessage(message)
        await pause(Math.min(maxPauseMs, performance.now() - beganMs))
        return messages
      })
      const last = read.at(-1)
      if (last === undefined || reading.result.endedBy !== null) return
      beforeSeq = last.seq
      if (performance.now() >= endMs) reading.result.endedBy = 'time'
    }
  }
}

class Reading {
  readonly result: RecordsRead = { records: 0, oldestMs: null, endedBy: null }
  readonly #maxRecords: number
  readonly #take: (record: ReadRecord) => void
  #bytes = 0

  constructor(maxRecords: number, take: (record: ReadRecord) => void) {
    this.#maxRecords = maxRecords
    this.#take = take
  }

  /** A damaged message has no body. */
  takeMessage(message: ReadMessage): void {
    if (message.body === null || this.result.endedBy !== null) return
    this.#takeRecords(message.body, message)
  }

  takeSample(sample: Buffer): void {
    this.#takeRecords(sample, null)
  }

  #takeRecords(body: Buffer, message: ReadMessage | null): void {
    for (const { index, record: text } of placedRecords(body)) {
      if (this.result.records === this.#maxRecords) this.result.endedBy = 'records'
      else if (this.#bytes >= schemaSampleBytes) this.result.endedBy = 'bytes'
      if (this.result.endedBy !== null) return
      this.#take({ message, index, text })
      this.#bytes += text.length
      this.result.records += 1
      this.result.oldestMs = message?.receivedMs ?? null
    }
  }
}
