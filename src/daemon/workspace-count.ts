/**
 * The number of workspaces in the data directory, in memory that all threads share. With `egress.private = "auto"`
 * the second workspace changes which addresses can be dialed. `pipectl workspaces create` writes to metadata without
 * this process. Workspaces are therefore counted at the start, every second, and before the first request with a key
 * that another process created. So nothing in a second workspace is done under the rules for one.
 */
import type { Metadata } from '../metadata/store.ts'
import type { Logger } from '../platform/log.ts'

const countEveryMs = 1_000

export class WorkspaceCount {
  /** Holds one Int32. */
  readonly memory = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
  readonly #count = new Int32Array(this.memory)
  readonly #workspaces: Pick<Metadata['workspaces'], 'list'>

  constructor(workspaces: Pick<Metadata['workspaces'], 'list'>) {
    this.#workspaces = workspaces
  }

  get value(): number {
    return Atomics.load(this.#count, 0)
  }

  /** Rejects if metadata cannot be read; the last count is kept. */
  async refresh(): Promise<void> {
    Atomics.store(this.#count, 0, (await this.#workspaces.list()).length)
  }

  /**
   * Calls `onSecond` once, when there is a second workspace. The number never decreases to one. Returns a function
   * that stops watching.
   */
  watch(log: Logger, onSecond: () => void): () => void {
    const look = async () => {
      await this.refresh().catch((error) => log.warn({ err: error }, 'workspaces.not_counted'))
      if (this.value <= 1) return
      clearInterval(timer)
      onSecond()
    }
    const timer = setInterval(look, countEveryMs).unref()
    if (this.value > 1) void look()
    return () => clearInterval(timer)
  }
}
