/**
 * The state of a delivery worker that main reads without asking it: memory that both share, and that still exists
 * when the worker has died or hangs. The worker writes, main reads; marking an attempt costs two stores, no message
 * and no save.
 *
 *   Int32  0      1: it ended because storage failed
 *          1      1: the next four are the lane whose code ended the worker
 *          2..5   that lane's destination_id
 *          6..    slots of 5: 1 while an attempt is under way, and its lane's destination_id
 *
 * The marks live as long as the process. A process that dies as a whole (kill -9, out of memory, a fault in native
 * code) says nothing about lanes: it looks the same as a power cut, at which every busy lane is under way. `serve
 * --safe` is for that.
 */
import { Buffer } from 'node:buffer'
import { stringify } from 'uuid'

const storageAt = 0
const hasBlameAt = 1
const blameAt = 2
const slotsAt = 6
const idWords = 4
const slotWords = 1 + idWords
/** Attempts beyond these are not marked. */
const slots = 4096

/** Zeros are an empty board. */
export function newBoardMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer((slotsAt + slots * slotWords) * Int32Array.BYTES_PER_ELEMENT)
}

export class WorkerBoard {
  readonly #words: Int32Array
  readonly #bytes: Uint8Array
  /** The worker's: slots that were given back, and the first one that was never used. */
  readonly #free: number[] = []
  #unused = 0

  constructor(memory: SharedArrayBuffer) {
    this.#words = new Int32Array(memory)
    this.#bytes = new Uint8Array(memory)
  }

  /** By the worker: an attempt of this lane begins. The returned function ends it; idempotent. */
  begin(destinationId: string): () => void {
    const slot = this.#free.pop() ?? (this.#unused < slots ? this.#unused++ : null)
    if (slot === null) return () => {}
    const at = slotsAt + slot * slotWords
    this.#writeId(at + 1, destinationId)
    Atomics.store(this.#words, at, 1)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      Atomics.store(this.#words, at, 0)
      this.#free.push(slot)
    }
  }

  /** By the worker, when it is about to end: because of this lane. */
  blame(destinationId: string): void {
    this.#writeId(blameAt, destinationId)
    Atomics.store(this.#words, hasBlameAt, 1)
  }

  /** By the worker, when it is about to end: because its files cannot be read or written. */
  storageFailed(): void {
    Atomics.store(this.#words, storageAt, 1)
  }

  get isStorageFailure(): boolean {
    return Atomics.load(this.#words, storageAt) === 1
  }

  get blamed(): string | null {
    return Atomics.load(this.#words, hasBlameAt) === 1 ? this.#readId(blameAt) : null
  }

  /** Each lane once. */
  underWay(): string[] {
    const found = new Set<string>()
    for (let at = slotsAt; at < this.#words.length; at += slotWords) {
      if (Atomics.load(this.#words, at) === 1) found.add(this.#readId(at + 1))
    }
    return [...found]
  }

  #writeId(word: number, destinationId: string): void {
    this.#bytes.set(Buffer.from(destinationId.replaceAll('-', ''), 'hex'), word * 4)
  }

  #readId(word: number): string {
    return stringify(this.#bytes.slice(word * 4, (word + idWords) * 4))
  }
}
