/**
 * When keys were last used (docs/dev/contract.md#key-scopes), to the minute. A request sets a flag on its key and no more; the
 * flags are collected here every few seconds, those of the ingest threads too, and a key is stored once in a minute in
 * which it was used. What a crash loses is the last seconds of it.
 */

import type { Directory } from '../../metadata/directory-source.ts'
import type { Logger } from '../../platform/log.ts'

export interface KeyUseOptions {
  directory: Pick<Directory, 'takeUsedKeys'>
  /** Stores that they were used in the minute that began then. */
  store(apiKeyIds: readonly string[], minuteMs: number): Promise<void>
  /** The wall clock, ms. */
  now(): number
}

const everyMs = 5_000
const minuteMs = 60_000

export class KeyUse {
  readonly #options: KeyUseOptions
  /** Used since they were stored last. */
  readonly #used = new Set<string>()
  /** Those that the current minute is stored of. */
  readonly #stored = new Set<string>()
  #minute = 0

  constructor(options: KeyUseOptions) {
    this.#options = options
  }

  /** Returns what ends it. */
  start(log: Logger): () => void {
    const flush = () => this.flush().catch((error) => log.warn({ err: error }, 'keys.use_not_stored'))
    const timer = setInterval(flush, everyMs).unref()
    return () => clearInterval(timer)
  }

  /** Adds the keys that an ingest thread reports. */
  used(apiKeyIds: readonly string[]): void {
    for (const id of apiKeyIds) this.#used.add(id)
  }

  /** Rejects when it cannot be stored: the next time says it again. */
  async flush(): Promise<void> {
    this.used(this.#options.directory.takeUsedKeys())
    const nowMs = this.#options.now()
    const minute = nowMs - (nowMs % minuteMs)
    if (minute !== this.#minute) this.#stored.clear()
    this.#minute = minute
    const ids = [...this.#used].filter((id) => !this.#stored.has(id))
    this.#used.clear()
    if (ids.length === 0) return
    for (const id of ids) this.#stored.add(id)
    try {
      await this.#options.store(ids, minute)
    } catch (error) {
      for (const id of ids) {
        this.#stored.delete(id)
        this.#used.add(id)
      }
      throw error
    }
  }
}
