/**
 * Limits failed attempts to sign in (docs/dev/contract.md#sign-in-for-people), in windows that begin with the first
 * attempt. Known and unknown accounts are counted alike.
 *
 *   an unknown client   per account and address, per address, and per account from all addresses
 *   a known browser     per browser, once unknown clients have no attempts left: guessing does not lock out the owner
 *
 * The counts are in memory and lost on a restart, which no client can cause. They cannot fill the memory: an attempt
 * is counted only when its password can be hashed, which is two or three times a second, so a window has a few
 * thousand.
 */
import { ApiError } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'

const windowMs = resourceLimits.signInWindowSeconds * 1_000
const maxRemembered = 10_000

/** The source of an attempt: a client address, or a browser (or session) that is known to belong to the account. */
type Attempter = { address: string } | { browser: string }

export class SignInLimits {
  readonly #now: () => number
  readonly #pairs = new AttemptCounts(resourceLimits.signInsPerAccount)
  readonly #addresses = new AttemptCounts(resourceLimits.signInsPerAddress)
  readonly #accounts = new AttemptCounts(resourceLimits.signInsPerAccountAnywhere)

  /** `now`: a monotonic clock in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /**
   * Counts an attempt. Throws `too_many_attempts` without counting it. Call the returned function if the attempt
   * succeeded or was never made: it is then no longer counted.
   */
  begin(account: string, by: Attempter): () => void {
    const now = this.#now()
    const counted = this.#countsOf(account, by)
    const waitMs = Math.max(...counted.map(([counts, name]) => counts.waitMs(name, now)))
    if (waitMs > 0) {
      throw new ApiError('too_many_attempts', {
        headers: { 'Retry-After': String(Math.ceil(waitMs / 1_000)) },
      })
    }
    const uncount = counted.map(([counts, name]) => counts.count(name, now))
    return () => {
      for (const one of uncount) one()
    }
  }

  #countsOf(account: string, by: Attempter): (readonly [AttemptCounts, string])[] {
    const pair = (who: string) => [this.#pairs, JSON.stringify([account, who])] as const
    if ('browser' in by) return [pair(`browser ${by.browser}`)]
    return [pair(by.address), [this.#addresses, by.address], [this.#accounts, account]]
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
