/**
 * Limits how much of the main thread's time the keys of one workspace can use for management requests
 * (docs/dev/contract.md#budget-of-a-workspace). The thread serves every workspace. The limits of its body bound a
 * single request; this bounds many of them.
 *
 * A request is charged for the turn of the event loop in which its handler begins and for the one in which its
 * response is written, which are mostly the same. The work between them, after a response from another thread or from
 * a database server, is not measured: a minimum per request stands for it. The time of a turn is wall-clock time,
 * including an fsync of metadata, because that is how long other requests wait.
 */
import { ApiError } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'

const {
  managementMsPerSecond: msPerSecond,
  managementMsAtOnce: msAtOnce,
  managementMsPerRequest: msPerRequest,
} = resourceLimits

/**
 * The budget that a workspace has left: a token bucket in milliseconds. It is below 0 after a request that took more
 * than was left.
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

  /** Throws `too_many_requests`, with `Retry-After`, if the workspace has no budget left. */
  require(workspaceId: string): void {
    const { ms } = this.#refilled(workspaceId)
    if (ms >= 0) return
    const seconds = Math.max(1, Math.ceil(-ms / msPerSecond))
    throw new ApiError('too_many_requests', { headers: { 'Retry-After': String(seconds) } })
  }

  /**
   * For one request. The returned function charges the workspace for the current turn, once even if it is called
   * several times.
   */
  meter(workspaceId: string): () => void {
    let isMeasuring = false
    let minMs: number = msPerRequest
    return () => {
      if (isMeasuring) return
      isMeasuring = true
      const startedMs = this.#now()
      // A tick that a microtask schedules runs after all microtasks of this turn, so it also covers the awaits that
      // resolve within the turn.
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
