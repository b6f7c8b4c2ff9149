/**
 * The clock of delivery. Waits use the monotonic clock, so that jumps of the wall clock do not affect them; wall-clock
 * times are only for people. It is a parameter so that tests can advance time.
 */
export interface Clock {
  /** Wall clock, ms since the epoch. May jump either way. */
  now(): number
  /** Never goes back. Only differences are meaningful. */
  monotonicMs(): number
  /** Calls back once, after at least this long on the monotonic clock. Returns a function that cancels it. */
  wake(afterMs: number, callback: () => void): () => void
}

/** The limit of setTimeout; a longer delay would fire immediately. */
const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  wake(afterMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(afterMs, 0), longestTimerMs))
    return () => clearTimeout(timer)
  },
}

/** How often the set of lanes looks for messages that a lane has missed: the maximum cost of a lost notification. */
export const pollIntervalMs = 5_000

/**
 * A lane's sleep: until a time, a notification or an interruption. One that arrives while the lane is awake ends its
 * next sleep immediately.
 */
export class Sleeper {
  readonly #clock: Clock
  #endSleep: (() => void) | null = null
  #isInterrupted = false
  #isNotified = false
  #isIdle = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** A command, or the end of the lane, is waiting: ends any sleep. */
  interrupt(): void {
    this.#isInterrupted = true
    this.#endSleep?.()
  }

  /** There are new messages: ends a sleep that waits for messages. */
  notify(): void {
    this.#isNotified = true
    if (this.#isIdle) this.#endSleep?.()
  }

  /** Forgets earlier notifications. Called before the lane looks for messages. */
  arm(): void {
    this.#isNotified = false
  }

  get isNotified(): boolean {
    return this.#isNotified
  }

  /** Sleeps for this time regardless of notifications. Infinity: until it is interrupted, without a timer. */
  async sleep(ms: number): Promise<void> {
    await this.#sleep(ms)
  }

  /** Sleeps for at most `longestMs`. */
  async waitForNotify(longestMs: number): Promise<void> {
    if (this.#isNotified) return
    this.#isIdle = true
    await this.#sleep(longestMs)
    this.#isIdle = false
  }

  /** Like `waitForNotify`, but a notification does not end the first `quietMs`. */
  async gather(longestMs: number, quietMs: number): Promise<void> {
    const isInterrupted = await this.#sleep(Math.min(quietMs, longestMs))
    if (!isInterrupted && longestMs > quietMs) await this.waitForNotify(longestMs - quietMs)
  }

  /** Returns true when the sleep was interrupted. */
  async #sleep(ms: number): Promise<boolean> {
    if (!this.#isInterrupted) await this.#wait(ms)
    const isInterrupted = this.#isInterrupted
    this.#isInterrupted = false
    return isInterrupted
  }

  async #wait(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = ms === Number.POSITIVE_INFINITY ? () => {} : this.#clock.wake(ms, resolve)
      this.#endSleep = () => {
        cancel()
        resolve()
      }
    })
    this.#endSleep = null
  }
}

/**
 * Limits long synchronous work to one piece per turn of the event loop, so that timers, sockets and other lanes get
 * their turn in between. Otherwise reads that were requested together would run in one turn, because they wait only for
 * each other.
 */
export class EventLoopTurns {
  #last: Promise<void> = Promise.resolve()

  /** Resolves when it is the caller's turn, immediately if no one is waiting. First come, first served. */
  take(): Promise<void> {
    const turn = this.#last
    this.#last = turn.then(() => new Promise((resolve) => setImmediate(resolve)))
    return turn
  }
}
