/**
 * The state of a delivery worker in shared memory, which main can read even when the worker hangs or has died. The
 * worker writes, main reads. Marking an attempt costs two stores, no message and no save.
 *
 *   Int32  0      1: it ended because storage failed
 *          1      1: the next four are the lane whose code ended the worker
 *          2..5   that lane's destination_id
 *          6..    slots of 5: 1 while an attempt is under way, and its lane's destination_id
 *
 * The marks exist as long as the process. When the whole process dies (kill -9, out of memory, a fault in native code),
 * nothing is known about the lane that caused it; `serve --safe` is for that case.
 */
import { Buffer } from 'node:buffer'
import { stringify } from 'uuid'

const storageAt = 0
const hasBlameAt = 1
const blameAt = 2
const slotsAt = 6
const idWords = 4
const slotWords = 1 + idWords
/** Attempts above this number are not marked. */
const slots = 4096

/** All zeros is an empty board. */
export function newBoardMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer((slotsAt + slots * slotWords) * Int32Array.BYTES_PER_ELEMENT)
}

export class WorkerBoard {
  readonly #words: Int32Array
  readonly #bytes: Uint8Array
  /** Used by the worker: released slots, and the first slot that was never used. */
  readonly #free: number[] = []
  #unused = 0

  constructor(memory: SharedArrayBuffer) {
    this.#words = new Int32Array(memory)
    this.#bytes = new Uint8Array(memory)
  }

  /** Called by the worker when an attempt of this lane starts. The returned function ends the mark; idempotent. */
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

  /** Called by a worker that is about to end because of this lane. */
  blame(destinationId: string): void {
    this.#writeId(blameAt, destinationId)
    Atomics.store(this.#words, hasBlameAt, 1)
  }

  /** Called by a worker that is about to end because its files cannot be read or written. */
  storageFailed(): void {
    Atomics.store(this.#words, storageAt, 1)
  }

  get isStorageFailure(): boolean {
    return Atomics.load(this.#words, storageAt) === 1
  }

  get blamed(): string | null {
    return Atomics.load(this.#words, hasBlameAt) === 1 ? this.#readId(blameAt) : null
  }

  /** The lanes with an attempt under way, each once. */
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
