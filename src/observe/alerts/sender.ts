/**
 * Sends queued alerts: one at a time per workspace, oldest first, so that a recovery never arrives before its failure. The
 * number of concurrent sends of all workspaces is limited.
 *
 *   idle ──alert queued──▶ due ──▶ sending ──sent──▶ due (the next one), or idle if the queue is empty
 *                           ▲         └──failed──▶ waiting: 5 s, doubled up to 300 s, Retry-After ──┐
 *                           └────────────────────────────────────────────────────────────────────┘
 *
 * After a failure the workspace waits, not the alert: the number of requests to a receiver that is down does not depend on the
 * length of the queue. An alert is discarded after an hour. The queues are in metadata; this class only has the wait times.
 */
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { AlertOutcome, AlertStore, QueuedAlert } from '../../metadata/alert-store.ts'
import type { StoredAlerts } from '../../metadata/alerts.ts'
import { backoffMs } from '../../platform/backoff.ts'
import { StorageUnavailableError } from '../../platform/error-code.ts'
import type { Logger } from '../../platform/log.ts'
import { bodyOf, type StandardAlert } from './message.ts'
import type { AlertPoster } from './poster.ts'

interface Queue {
  failures: number
  nextMs: number
  isSending: boolean
}

export interface SenderDeps {
  store: AlertStore
  poster: Pick<AlertPoster, 'post'>
  log: Logger
  now: () => number
  /** 0 ≤ x < 1. */
  random: () => number
}

const firstPauseMs = 5_000
const maxPauseMs = 300_000
const maxRetryAfterMs = 900_000

export class AlertSender {
  readonly #deps: SenderDeps
  readonly #queues = new Map<string, Queue>()
  readonly #sending = new Set<Promise<void>>()
  #isClosed = false

  constructor(deps: SenderDeps) {
    this.#deps = deps
  }

  /** The workspace may have something to send. */
  notify(workspaceId: string): void {
    if (!this.#queues.has(workspaceId))
      this.#queues.set(workspaceId, { failures: 0, nextMs: 0, isSending: false })
  }

  /**
   * Starts all due sends, those that waited longest first. Called every few seconds, and after each completed send.
   */
  run(): void {
    const nowMs = this.#deps.now()
    const due = [...this.#queues]
      .filter(([, { isSending, nextMs }]) => !isSending && nextMs <= nowMs)
      .sort(([, one], [, other]) => one.nextMs - other.nextMs)
    for (const [workspaceId, queue] of due) {
      if (this.#isClosed || this.#sending.size >= resourceLimits.alertsAtOnce) return
      queue.isSending = true
      const sending = this.#send(workspaceId, queue).finally(() => {
        queue.isSending = false
        this.#sending.delete(sending)
        this.run()
      })
      this.#sending.add(sending)
    }
  }

  /** Resolves when nothing is being sent and nothing is due. */
  async settled(): Promise<void> {
    while (this.#sending.size > 0) await Promise.all(this.#sending)
  }

  /** Starts no further sends. Results of running ones are ignored. */
  close(): void {
    this.#isClosed = true
  }

  async #send(workspaceId: string, queue: Queue): Promise<void> {
    const { store, log, now } = this.#deps
    try {
      const next = await store.next(workspaceId)
      if (next === null) {
        this.#queues.delete(workspaceId)
        return
      }
      const { alert, settings } = next
      const outcome = await this.#outcome(workspaceId, queue, alert, settings)
      if (!this.#isClosed) await store.settle({ workspaceId, alertId: alert.alertId }, outcome)
    } catch (error) {
      // Metadata cannot be written. The alert is sent again with the same id.
      if (!(error instanceof StorageUnavailableError)) log.error({ err: error }, 'alert.failed')
      queue.nextMs = now() + firstPauseMs
    }
  }

  async #outcome(
    workspaceId: string,
    queue: Queue,
    alert: QueuedAlert,
    settings: StoredAlerts,
  ): Promise<AlertOutcome> {
    const { log, now, random } = this.#deps
    const fields = { workspace_id: workspaceId, alert_id: alert.alertId }
    const isOver = (atMs: number) => atMs - alert.atMs >= resourceLimits.alertSeconds * 1_000
    const startedMs = now()
    const result = isOver(startedMs) ? tooLate : await this.post(settings, JSON.parse(alert.json))
    const atMs = now()
    if (result.ok) {
      Object.assign(queue, { failures: 0, nextMs: 0 })
      log.info({ ...fields, status: result.status, ms: atMs - startedMs }, 'alert.sent')
      return { kind: 'sent', atMs }
    }
    queue.failures += 1
    const pauseMs = backoffMs(queue.failures, firstPauseMs, maxPauseMs) * (0.5 + random() / 2)
    const requestedMs = Math.min(result.retryAfterMs ?? 0, maxRetryAfterMs)
    queue.nextMs = result === tooLate ? 0 : atMs + Math.max(pauseMs, requestedMs)
    const { code, message } = result
    const isFinal = isOver(Math.max(atMs, queue.nextMs))
    log.warn({ ...fields, code, message, is_final: isFinal }, 'alert.not_sent')
    return { kind: 'failed', atMs, code, message, isFinal }
  }

  /** Sends an alert immediately, bypassing the queue. Never rejects. */
  async post(settings: StoredAlerts, alert: StandardAlert): ReturnType<AlertPoster['post']> {
    if (settings.isUnreadable) return unreadable
    return await this.#deps.poster.post({
      url: settings.url,
      secret: settings.secret,
      isPathSecret: settings.format === 'slack',
      id: alert.alert_id,
      body: bodyOf(alert, settings.format),
      timeoutMs: resourceLimits.alertTimeoutMs,
    })
  }
}

const noResponse = { ok: false, status: null, retryAfterMs: null } as const
const tooLate = {
  ...noResponse,
  code: 'too_late',
  message: 'An alert was discarded: it could not be sent within an hour.',
}
const unreadable = {
  ...noResponse,
  code: 'secret_unreadable',
  message: 'The stored address cannot be read: the sealed value was altered. Set it again.',
}
