/**
 * Time, as delivery sees it. Waits run on the monotonic clock, so that a wall clock which jumps moves none of them;
 * the wall clock only dates what people read. A parameter, so that tests can let hours pass at once.
 */
export interface Clock {
  /** Wall clock, ms since the epoch. May jump either way. */
  now(): number
  /** Never goes back; its zero means nothing. */
  monotonicMs(): number
  /** Calls back once, after at least this long on the monotonic clock. Returns what cancels it. */
  wake(afterMs: number, callback: () => void): () => void
}

/** setTimeout takes no more than a signed 32-bit number; a longer one would fire at once. */
const longestTimerMs = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  wake(afterMs, callback) {
    const timer = setTimeout(callback, Math.min(Math.max(afterMs, 0), longestTimerMs))
    return () => clearTimeout(timer)
  },
}

/** A lost notification costs no more than this: so often the set of lanes looks for messages that a lane has missed. */
export const pollIntervalMs = 5_000

/**
 * How a lane sleeps: until its time, until it is notified, until it is interrupted. What comes while it is awake is
 * remembered and ends the next sleep before it begins.
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

  /** A command or the end is waiting: ends any sleep. */
  interrupt(): void {
    this.#isInterrupted = true
    this.#endSleep?.()
  }

  /** There are new messages: ends the sleep of a lane that waits for nothing else. */
  notify(): void {
    this.#isNotified = true
    if (this.#isIdle) this.#endSleep?.()
  }

  /** Notifications from here on are new: called before the lane looks for messages. */
  arm(): void {
    this.#isNotified = false
  }

  get isNotified(): boolean {
    return this.#isNotified
  }

  /** For so long, whatever is notified meanwhile. Infinity: until it is interrupted; a lane at rest has no timer of its own. */
  async sleep(ms: number): Promise<void> {
    await this.#sleep(ms)
  }

  /** For at most `longestMs`. */
  async waitForNotify(longestMs: number): Promise<void> {
    if (this.#isNotified) return
    this.#isIdle = true
    await this.#sleep(longestMs)
    this.#isIdle = false
  }

  /** Like `waitForNotify`; what comes in the first `quietMs` ends it only after them. */
  async gather(longestMs: number, quietMs: number): Promise<void> {
    const isInterrupted = await this.#sleep(Math.min(quietMs, longestMs))
    if (!isInterrupted && longestMs > quietMs) await this.waitForNotify(longestMs - quietMs)
  }

  /** True: it was interrupted. */
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
 * Work that holds the thread for long, one piece in each turn of the event loop: between two of them timers, sockets and
 * everyone else's lanes get theirs. Without it reads that were asked for at the same time run one after the other in
 * one turn, because all that they wait for is each other.
 */
export class EventLoopTurns {
  #last: Promise<void> = Promise.resolve()

  /** Resolves when it is the caller's turn: at once if nobody is waiting. First come, first served. */
  take(): Promise<void> {
    const turn = this.#last
    this.#last = turn.then(() => new Promise((resolve) => setImmediate(resolve)))
    return turn
  }
}
