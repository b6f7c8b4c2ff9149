/**
 * How much of the main thread's time the keys of one workspace may take with management requests
 * (docs/dev/contract.md#budget-of-a-workspace). The thread serves every workspace: a single request is bounded by the limits of
 * its body, and this bounds many of them.
 *
 * A request is charged for the turn of the event loop in which its handler begins and for the one in which its response is
 * written, which are mostly the same. What it does between them, after an answer of another thread or of a database server, is
 * not measured: a minimum per request stands for that. The time of a turn is wall-clock time, an fsync of metadata included, because that is how long others wait.
 */
import { ApiError } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'

const {
  managementMsPerSecond: msPerSecond,
  managementMsAtOnce: msAtOnce,
  managementMsPerRequest: msPerRequest,
} = resourceLimits

/**
 * The budget that a workspace has left: a token bucket of milliseconds, below 0 after a request that took more than
 * there was.
 */
interface Balance {
  ms: number
  refilledMs: number
}

export class ManagementBudget {
  readonly #now: () => number
  readonly #balances = new Map<string, Balance>()

  /** `now`: a monotonic clock in ms. */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Throws `too_many_requests`, with `Retry-After`, for a workspace that has nothing left. */
  require(workspaceId: string): void {
    const { ms } = this.#refilled(workspaceId)
    if (ms >= 0) return
    const seconds = Math.max(1, Math.ceil(-ms / msPerSecond))
    throw new ApiError('too_many_requests', { headers: { 'Retry-After': String(seconds) } })
  }

  /** For one request: returns what charges the workspace for the present turn, however often it is called in it. */
  meter(workspaceId: string): () => void {
    let isMeasuring = false
    let minMs: number = msPerRequest
    return () => {
      if (isMeasuring) return
      isMeasuring = true
      const startedMs = this.#now()
      // A tick that a microtask asks for comes after all microtasks of this turn, so after the awaits that need no other turn.
      queueMicrotask(() => {
        process.nextTick(() => {
          isMeasuring = false
          this.#refilled(workspaceId).ms -= Math.max(minMs, this.#now() - startedMs)
          minMs = 0
        })
      })
    }
  }

  #refilled(workspaceId: string): Balance {
    const now = this.#now()
    const balance = this.#balances.get(workspaceId) ?? { ms: msAtOnce, refilledMs: now }
    balance.ms = Math.min(msAtOnce, balance.ms + ((now - balance.refilledMs) / 1_000) * msPerSecond)
    balance.refilledMs = now
    this.#balances.set(workspaceId, balance)
    return balance
  }
}
