/** A lane's one connection to its destination: opened when first needed, given up when it hangs or lies idle. */
import type { Batch, DestinationDriver } from '../destinations/driver.ts'
import type { Logger } from '../log.ts'
import { abortGraceMs } from './attempt.ts'
import type { Clock } from './clock.ts'

/** A connection that nothing was sent over for so long is closed. */
const idleDriverMs = 60_000

export class LaneDriver {
  readonly #clock: Clock
  readonly #log: Logger
  #driver: DestinationDriver | null = null
  #usedAt = 0

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock
    this.#log = log
  }

  async deliver(batch: Batch, signal: AbortSignal, open: () => DestinationDriver): Promise<void> {
    this.#driver ??= open()
    try {
      await this.#driver.deliver(batch, signal)
    } finally {
      this.#usedAt = this.#clock.monotonicMs()
    }
  }

  async closeIdle(): Promise<void> {
    if (this.#clock.monotonicMs() - this.#usedAt > idleDriverMs) await this.close()
  }

  /** A driver that hangs may hang in closing too: it is not waited for longer than an abort. */
  async close(): Promise<void> {
    const driver = this.#driver
    this.#driver = null
    if (driver === null) return
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.wake(abortGraceMs, resolve)
      driver
        .close()
        .catch((error: unknown) => this.#log.warn({ err: error }, 'driver.close_failed'))
        .finally(() => {
          cancel()
          resolve()
        })
    })
  }
}
