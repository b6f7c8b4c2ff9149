/**
 * How many workspaces the data directory has, in memory that every thread reads: with `egress.private = "auto"` the second
 * one changes what may be dialled. `pipectl workspaces create` writes to metadata without this process, so they are
 * counted at the start, each second, and before the first request with a key that another process made is served: nothing
 * of a second workspace is done under the rule for one.
 */
import type { Metadata } from '../metadata/store.ts'
import type { Logger } from '../platform/log.ts'

const countEveryMs = 1_000

export class WorkspaceCount {
  /** An Int32. */
  readonly memory = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
  readonly #count = new Int32Array(this.memory)
  readonly #workspaces: Pick<Metadata['workspaces'], 'list'>

  constructor(workspaces: Pick<Metadata['workspaces'], 'list'>) {
    this.#workspaces = workspaces
  }

  get value(): number {
    return Atomics.load(this.#count, 0)
  }

  /** Rejects when metadata cannot be read: the last count stands. */
  async refresh(): Promise<void> {
    Atomics.store(this.#count, 0, (await this.#workspaces.list()).length)
  }

  /** Calls `onSecond` once there is a second one, and then no more: there never are fewer again. Returns what ends it. */
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
