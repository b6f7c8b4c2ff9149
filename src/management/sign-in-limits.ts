/**
 * How often signing in may fail (docs/dev/contract.md#sign-in-for-people): per account and per address, in a window that begins with
 * the first attempt. Known and unknown accounts are counted alike.
 *
 * The counts are in memory: a restart forgets them, and nobody outside can cause one. They cannot fill it: an attempt counts
 * only once it may have its password hashed, which is two or three a second, so that a window holds some thousands.
 */
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'

const windowMs = resourceLimits.signInWindowSeconds * 1_000
const maxRemembered = 10_000

export class SignInLimits {
  readonly #now: () => number
  readonly #accounts = new AttemptCounts(resourceLimits.signInsPerAccount)
  readonly #addresses = new AttemptCounts(resourceLimits.signInsPerAddress)

  /** `now`: a monotonic clock in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /**
   * Counts an attempt. Throws `too_many_attempts`, counting nothing. What it returns takes the attempt back: it succeeded,
   * or was never made. `address` null: of somebody who is signed in.
   */
  begin(account: string, address: string | null): () => void {
    const now = this.#now()
    const waitMs = Math.max(
      this.#accounts.waitMs(account, now),
      address === null ? 0 : this.#addresses.waitMs(address, now),
    )
    if (waitMs > 0) {
      throw new ApiError('too_many_attempts', {
        headers: { 'Retry-After': String(Math.ceil(waitMs / 1_000)) },
      })
    }
    const takeBack = [this.#accounts.count(account, now)]
    if (address !== null) takeBack.push(this.#addresses.count(address, now))
    return () => {
      for (const one of takeBack) one()
    }
  }
}

interface Attempts {
  count: number
  untilMs: number
}

class AttemptCounts {
  readonly #most: number
  /** In the order in which their windows end. */
  readonly #byName = new Map<string, Attempts>()

  constructor(most: number) {
    this.#most = most
  }

  waitMs(name: string, now: number): number {
    const attempts = this.#byName.get(name)
    if (attempts === undefined || attempts.count < this.#most) return 0
    return Math.max(0, attempts.untilMs - now)
  }

  count(name: string, now: number): () => void {
    this.#forget(now)
    const attempts = this.#byName.get(name) ?? { count: 0, untilMs: now + windowMs }
    attempts.count += 1
    this.#byName.set(name, attempts)
    return () => {
      attempts.count -= 1
      if (attempts.count === 0 && this.#byName.get(name) === attempts) this.#byName.delete(name)
    }
  }

  #forget(now: number): void {
    for (const [name, { untilMs }] of this.#byName) {
      if (untilMs > now && this.#byName.size < maxRemembered) return
      this.#byName.delete(name)
    }
  }
}
