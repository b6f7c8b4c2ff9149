/**
 * The durable head: the newest seq that is on the disk, shared by all threads of the process. The writer commits the next
 * frame while the one before it is being synced, so SQLite shows rows that a power cut could still take. Nobody but the
 * writer may see those: a lane that had delivered them would have its cursor beyond the end of the log, and new messages
 * would get their seqs. So every reader reads it before each query, and asks for no row beyond it.
 *
 * Before a writer has opened the buffer it is `everything`: what is there was there when the buffer was opened.
 */
const everything = BigInt(Number.MAX_SAFE_INTEGER)

/** For the spec of a buffer: one for each opening for writing. */
export function newDurableHead(): SharedArrayBuffer {
  const shared = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT)
  new BigInt64Array(shared)[0] = everything
  return shared
}

export class DurableHead {
  readonly #cell: BigInt64Array

  constructor(shared: SharedArrayBuffer) {
    this.#cell = new BigInt64Array(shared)
  }

  get seq(): number {
    return Number(Atomics.load(this.#cell, 0))
  }

  /** The writer's alone. Everything up to it has been synced. */
  set(seq: number): void {
    Atomics.store(this.#cell, 0, BigInt(seq))
  }
}
