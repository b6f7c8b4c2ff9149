/**
 * The commands of consumers on a pull lane: fetch a message, report its outcome, acknowledge it. Owns the message in
 * flight and the lease. The lane's mailbox runs one command at a time.
 */
import assert from 'node:assert'
import { randomUUID } from 'node:crypto'
import { current, type Epoch, epochAfterLost } from '../contract/epochs.ts'
import type { PullSpec } from '../destinations/driver.ts'
import { isPullSpec } from '../destinations/pull/descriptor.ts'
import type { MarkedMessage } from '../log/buffer.ts'
import { keptRecords } from '../log/erased-body.ts'
import { toJsonArray } from '../log/record-text.ts'
import type { LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { Clock, RetryWindow } from './clock.ts'
import type { AttemptCounts, PulledRef, PullResult } from './delivery.ts'
import type { DurableState } from './durable-state.ts'
import type { LaneDeps } from './lane.ts'
import type { Measured } from './lane-log.ts'
import type { PullCursor } from './pull-cursor.ts'
import * as transition from './transitions.ts'

/**
 * The HTTP server always reports the outcome of a message. If the report is missing for this long, the message is
 * redelivered.
 */
const longestInFlightMs = 600_000

interface InFlight {
  pullId: string
  seq: number
  untilMonotonicMs: number
}

export class ConsumerCommands {
  readonly attempts: AttemptCounts = { delivered: 0, transient: 0, permanent: 0 }
  readonly #state: DurableState
  readonly #cursor: PullCursor
  readonly #retry: RetryWindow
  readonly #clock: Clock
  readonly #epochs: readonly Epoch[]
  #inFlight: InFlight | null = null
  /** The message that the last pull returned, without its body. */
  #given: Measured | null = null
  /** The monotonic end of the lease in the row. */
  #leaseUntil: number
  #isEnding = false

  constructor(
    { state, retry }: { state: DurableState; retry: RetryWindow },
    cursor: PullCursor,
    { clock, epochs }: Pick<LaneDeps, 'clock' | 'epochs'>,
    spec: LaneSpec,
  ) {
    this.#state = state
    this.#cursor = cursor
    this.#retry = retry
    this.#clock = clock
    this.#epochs = epochs
    // The wall clock can have jumped since the lease was granted: limit the rest to one full lease from now.
    const leftMs = (state.row.leaseUntilMs ?? 0) - clock.now()
    this.#leaseUntil = clock.monotonicMs() + Math.min(Math.max(leftMs, 0), leaseMsOf(spec))
  }

  get #row(): LaneState {
    return this.#state.row
  }

  get isEnding(): boolean {
    return this.#isEnding
  }

  /** Every later fetch resolves `empty`. */
  end(): void {
    this.#isEnding = true
  }

  /** Time until the lease expires; Infinity without a lease. */
  get leaseLeftMs(): number {
    return this.#row.leaseMsgId === null
      ? Number.POSITIVE_INFINITY
      : this.#leaseUntil - this.#clock.monotonicMs()
  }

  /** Invalidates the message in flight: the cursor was moved by another command. */
  forgetInFlight(): void {
    this.#inFlight = null
  }

  async fetch(spec: LaneSpec): Promise<PullResult> {
    if (spec.status === 'blocked') return { kind: 'not_found' }
    const clock = this.#clock
    if (this.#inFlight !== null && this.#inFlight.untilMonotonicMs <= clock.monotonicMs())
      this.#inFlight = null
    await this.#endOverdueLease()
    if (this.#inFlight !== null || this.#row.leaseMsgId !== null || this.#isEnding) return { kind: 'empty' }
    const message = await this.#cursor.first()
    if (message === null) return { kind: 'empty' }
    const isExplicit = configOf(spec).ack_mode === 'explicit'
    const inFlightMs = isExplicit ? leaseMsOf(spec) : longestInFlightMs
    if (isExplicit) {
      this.#leaseUntil = clock.monotonicMs() + inFlightMs
      await this.#save(transition.withLease(this.#row, message.msgId, clock.now() + inFlightMs))
    }
    const pullId = randomUUID()
    this.#given = measured(message)
    this.#inFlight = { pullId, seq: message.seq, untilMonotonicMs: clock.monotonicMs() + inFlightMs }
    return messageResult({ destinationId: spec.destinationId, pullId }, message)
  }

  async fetchAfter(spec: LaneSpec, afterSeq: number): Promise<PullResult> {
    if (spec.status === 'blocked') return { kind: 'not_found' }
    const restored = epochAfterLost(this.#epochs, afterSeq)
    if (restored !== null) {
      return { kind: 'cursor_expired', earliestSeq: restored.first_seq, reason: 'restored' }
    }
    await this.#cursor.countLost()
    const expired = await this.#expired(afterSeq)
    if (expired !== null) return expired
    const head = await this.#cursor.head()
    // A cursor after the known head is from another pipe or from before a restore. Two cursors can be after the pipe's
    // newest message: the lane's own, because a lane that starts from now starts at the head of the whole buffer, and
    // the seq before the epoch's first, with which a consumer continues after a restore.
    const known = Math.max(head.seq, this.#row.cursorSeq, current(this.#epochs).first_seq - 1)
    if (afterSeq > known) return { kind: 'cursor_ahead', headSeq: head.seq }
    if (afterSeq > this.#row.cursorSeq) {
      this.#inFlight = null
      await this.#moveTo(afterSeq)
    }
    // At the lane's own cursor, messages missing before the next one are counted.
    const isCursor = afterSeq === this.#row.cursorSeq
    const message = isCursor ? await this.#cursor.first() : await this.#cursor.firstAfter(afterSeq)
    // The read skipped messages that retention has just dropped: the consumer must be notified.
    const overtaken = await this.#expired(afterSeq)
    if (overtaken !== null) return overtaken
    if (message === null) return { kind: 'empty' }
    this.#given = measured(message)
    return messageResult({ destinationId: spec.destinationId, pullId: randomUUID() }, message)
  }

  /** Null when everything after `afterSeq` is kept. */
  async #expired(afterSeq: number): Promise<PullResult | null> {
    const earliest = await this.#cursor.earliest()
    if (afterSeq >= earliest.seq) return null
    const first = await this.#cursor.firstAfter(earliest.seq)
    return { kind: 'cursor_expired', earliestSeq: first?.seq ?? earliest.seq + 1, reason: 'retention' }
  }

  async pulled(pullId: string): Promise<void> {
    if (this.#inFlight?.pullId !== pullId) return
    const { seq } = this.#inFlight
    this.#inFlight = null
    // A leased message is done when it is acknowledged, not when it is sent.
    if (this.#row.leaseMsgId === null) await this.#moveTo(seq)
  }

  async abandoned(pullId: string): Promise<void> {
    if (this.#inFlight?.pullId !== pullId) return
    this.#inFlight = null
    // The lease was saved with the message; saving without it frees the message.
    if (this.#row.leaseMsgId !== null) await this.#save(transition.withoutLease(this.#row))
  }

  async acknowledge(msgId: string, isDone: boolean): Promise<boolean> {
    await this.#endOverdueLease()
    if (this.#row.leaseMsgId === null || this.#row.leaseMsgId !== msgId) return false
    this.#inFlight = null
    const leased = await this.#cursor.first()
    if (leased?.msgId !== msgId) return false
    this.#given = measured(leased)
    if (isDone) await this.#moveTo(leased.seq)
    else await this.#failed('nack')
    return true
  }

  async #moveTo(seq: number): Promise<void> {
    const { to, records } = await this.#cursor.at(seq)
    this.attempts.delivered += 1
    this.#retry.clear()
    if (this.#given?.seq === seq) this.#state.stored([this.#given])
    this.#state.count({ deliveredRecords: records })
    await this.#save(transition.afterPulled(this.#row, to, records, this.#clock.now()))
  }

  async #endOverdueLease(): Promise<void> {
    if (this.leaseLeftMs > 0) return
    this.#inFlight = null
    await this.#failed('lease_expired')
  }

  async #failed(code: 'nack' | 'lease_expired'): Promise<void> {
    this.attempts.transient += 1
    this.#retry.failed()
    this.#state.count({ failedAttempts: 1 })
    await this.#save(transition.afterLease(this.#row, code, this.#clock.now()))
  }

  async #save(row: LaneState): Promise<void> {
    this.#state.change(row)
    await this.#state.save()
  }
}

function measured({ seq, receivedMs, recordCount }: MarkedMessage): Measured {
  return { seq, receivedMs, recordCount }
}

function configOf(spec: LaneSpec): PullSpec['config'] {
  assert(isPullSpec(spec))
  return spec.config
}

function leaseMsOf(spec: LaneSpec): number {
  return configOf(spec).lease_seconds * 1000
}

/** The response is built around the records' JSON text, which stays unchanged. */
function messageResult({ destinationId, pullId }: PulledRef, message: MarkedMessage): PullResult {
  const { pipeId, msgId, seq, body } = message
  const head = { pipe_id: pipeId, destination_id: destinationId, msg_id: msgId, stream_seq: seq }
  const before = `${JSON.stringify(head).slice(0, -1)},"records":`
  return {
    kind: 'message',
    pullId,
    msgId,
    seq,
    json: toJsonArray([keptRecords(body)?.body ?? body], before, '}'),
  }
}
