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
const turnMs = 20

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
    else await this.#inTurns(reading.records(Buffer.from(sample), null))
    return reading.result
  }

  async #readPipe(pipeId: string, reading: Reading): Promise<void> {
    let beforeSeq = Number.MAX_SAFE_INTEGER
    while (reading.result.endedBy === null) {
      const limits = { limit: searchStepMessages, maxBytes: searchStepBytes }
      const messages = await this.#steps.run(() =>
        this.#lookup.read(pipeId, { beforeSeq, afterSeq: 0, ...limits }),
      )
      const last = messages.at(-1)
      if (last === undefined) return
      await this.#inTurns(reading.messages(messages))
      beforeSeq = last.seq
    }
  }

  /** A record can take as long as its schema takes to check, so turns end by time. */
  async #inTurns(work: Iterator<void>): Promise<void> {
    for (let isDone = false; !isDone; )
      await this.#steps.run(async () => {
        const beganMs = performance.now()
        while (!isDone && performance.now() - beganMs < turnMs) isDone = work.next().done === true
        await pause(Math.min(maxPauseMs, performance.now() - beganMs))
      })
  }
}

class Reading {
  readonly result: RecordsRead = { records: 0, oldestMs: null, endedBy: null }
  readonly #maxRecords: number
  readonly #take: (record: ReadRecord) => void
  readonly #endMs = performance.now() + schemaSampleMs
  #bytes = 0

  constructor(maxRecords: number, take: (record: ReadRecord) => void) {
    this.#maxRecords = maxRecords
    this.#take = take
  }

  *messages(messages: readonly ReadMessage[]): Generator<void> {
    for (const message of messages) {
      // A damaged message has no body.
      if (message.body !== null) yield* this.records(message.body, message)
      if (this.result.endedBy !== null) return
    }
  }

  /** Yields after each record. */
  *records(body: Buffer, message: ReadMessage | null): Generator<void> {
    for (const { index, record: text } of placedRecords(body)) {
      this.result.endedBy = this.#reached()
      if (this.result.endedBy !== null) return
      this.#take({ message, index, text })
      this.#bytes += text.length
      this.result.records += 1
      this.result.oldestMs = message?.receivedMs ?? null
      yield
    }
  }

  #reached(): RecordsRead['endedBy'] {
    if (this.result.records === this.#maxRecords) return 'records'
    if (this.#bytes >= schemaSampleBytes) return 'bytes'
    return performance.now() >= this.#endMs ? 'time' : null
  }
}
