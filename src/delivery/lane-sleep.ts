/**
 * How a push lane sleeps. Before each sleep its state is saved, since nothing else would save it meanwhile, and
 * connections that are not needed are closed.
 */
import { type Clock, Sleeper } from './clock.ts'
import type { DurableState } from './durable-state.ts'
import type { PushAttempts } from './push-attempts.ts'

export class LaneSleep {
  readonly #clock: Clock
  readonly #state: DurableState
  readonly #attempts: PushAttempts
  readonly #sleeper: Sleeper

  constructor(clock: Clock, state: DurableState, attempts: PushAttempts) {
    this.#clock = clock
    this.#state = state
    this.#attempts = attempts
    this.#sleeper = new Sleeper(clock)
  }

  /**
   * Nothing to do until a notification comes, or that time is over, but to close connections when they have been idle for long
   * enough.
   */
  async idle(longestMs = Number.POSITIVE_INFINITY): Promise<void> {
    if (this.#sleeper.isNotified) return
    await this.#prepare()
    await this.#sleeper.waitForNotify(Math.min(longestMs, this.#attempts.closesInMs))
  }

  /**
   * Until the time is over or a command comes; new messages do not end it. Infinity: nothing but a command does. It ends
   * early to close connections. The time that saving takes is part of it.
   */
  async pause(ms: number): Promise<void> {
    const atMs = this.#clock.monotonicMs() + ms
    await this.#prepare()
    await this.#sleeper.sleep(Math.min(atMs - this.#clock.monotonicMs(), this.#attempts.closesInMs))
  }

  /** Until the time is over or messages come, but not before `quietMs`. */
  async gather(ms: number, quietMs: number): Promise<void> {
    const atMs = this.#clock.monotonicMs() + ms
    await this.#prepare()
    const longestMs = Math.min(atMs - this.#clock.monotonicMs(), this.#attempts.closesInMs)
    await this.#sleeper.gather(longestMs, quietMs)
  }

  /** Notifications from here on are new: called before the lane looks for messages. */
  arm(): void {
    this.#sleeper.arm()
  }

  notify(): void {
    this.#sleeper.notify()
  }

  interrupt(): void {
    this.#sleeper.interrupt()
  }

  async #prepare(): Promise<void> {
    await this.#state.saveIfDirty()
    await this.#attempts.closeIdle()
  }
}
