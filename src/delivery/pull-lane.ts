/**
 * A pull lane: the same cursor over the pipe's messages, moved by consumers that come and ask (contract "Pull").
 *
 *   auto      pull ─▶ message out ─▶ pulled: cursor moves · abandoned: given again
 *   explicit  pull ─▶ message leased (saved before it is given) ─▶ ack: cursor moves · nack, lease over: given again
 *   after_seq pull ─▶ cursor moves to N (saved) ─▶ the first message after N; nothing is out, N says it all
 *
 * One message is out at a time in auto and explicit: a second consumer waits for it, as for a new one. Changes run one
 * after the other; a pull that finds nothing leaves the line and waits for what can change that: a notice, an answer
 * about the message that is out, the end of a lease, its own time being up, shutdown.
 *
 * A crash gives again what was out: in auto and after_seq because the cursor had not moved, in explicit when the lease
 * (which survives) is over. What the destination's status blocks, or what is not a pull lane, is `not_found`.
 */
import { randomUUID } from 'node:crypto'
import type { PipePosition, StoredMessage } from '../buffer/buffer.ts'
import { BatchReader } from './batch-reader.ts'
import type { LaneCounts, LaneRow, LaneSpec, PullAnswer, PullRequest } from './delivery.ts'
import type { LaneDeps } from './lane-deps.ts'
import * as transition from './lane-row.ts'
import { toJsonArray } from './ndjson.ts'

/** The longest a waiting pull goes without looking for itself. */
const levelCheckMs = 5_000
/** The HTTP side always says what became of a message it was given; should it not, the message is given again. */
const longestOutMs = 600_000
const defaultLeaseSeconds = 30

interface Out {
  pullId: string
  message: StoredMessage
  untilMonotonicMs: number
}

export class PullLane {
  #spec: LaneSpec
  #row: LaneRow
  #savedCursorSeq: number
  readonly #deps: LaneDeps
  readonly #batches: BatchReader
  #out: Out | null = null
  /** The monotonic end of the lease in the row. */
  #leaseUntil = 0
  #line: Promise<unknown> = Promise.resolve()
  readonly #waiting = new Set<() => void>()
  #changes = 0
  #endsPulls = false
  #isRemoved = false
  #isFloorDue = true

  constructor(spec: LaneSpec, row: LaneRow, deps: LaneDeps) {
    this.#spec = spec
    this.#row = row
    this.#deps = deps
    this.#savedCursorSeq = row.cursorSeq
    this.#batches = new BatchReader(spec.pipeId, deps.reader, deps.budget, deps.clock)
    // The wall clock may have jumped since the lease was given: it lasts no longer than a whole one from now.
    const leftMs = (row.leaseUntilMs ?? 0) - deps.clock.now()
    this.#leaseUntil = deps.clock.monotonicMs() + Math.min(Math.max(leftMs, 0), this.#leaseMs)
  }

  get spec(): LaneSpec {
    return this.#spec
  }
  get row(): LaneRow {
    return this.#row
  }
  get savedCursorSeq(): number {
    return this.#savedCursorSeq
  }
  get batches(): BatchReader {
    return this.#batches
  }
  get isStalled(): boolean {
    const { firstFailedMs } = this.#row
    return (
      firstFailedMs !== null && this.#deps.clock.now() - firstFailedMs >= this.#spec.maxRetrySeconds * 1000
    )
  }

  /** Looks up where the cursor stands and what was lost before it. */
  async start(): Promise<void> {
    await this.#alone(() => this.#countLost())
  }

  notice(): void {
    this.#wakeAll()
  }

  noticeDropped(): void {
    this.#isFloorDue = true
    void this.#alone(() => this.#countLost())
  }

  async pull({ waitMs, afterSeq }: PullRequest): Promise<PullAnswer> {
    const deadline = this.#deps.clock.monotonicMs() + waitMs
    for (;;) {
      const seen = this.#changes
      const answer = await this.#alone(() => (afterSeq === null ? this.#give() : this.#giveAfter(afterSeq)))
      if (answer.kind !== 'empty') return answer
      const leftMs = deadline - this.#deps.clock.monotonicMs()
      if (this.#endsPulls || leftMs <= 0) return answer
      // What changed while this one looked woke nobody yet: it looks again.
      if (seen === this.#changes) await this.#changed(leftMs)
    }
  }

  async pulled(pullId: string): Promise<void> {
    await this.#alone(async () => {
      if (this.#out?.pullId !== pullId) return
      const { message } = this.#out
      this.#out = null
      // A leased message is done when it is acknowledged, not when it was sent.
      if (this.#row.leaseMsgId === null) await this.#moveTo(message.seq)
    })
    this.#wakeAll()
  }

  async abandoned(pullId: string): Promise<void> {
    await this.#alone(async () => {
      if (this.#out?.pullId !== pullId) return
      this.#out = null
      // An explicit lease was saved with the message: nobody holds it now.
      if (this.#row.leaseMsgId !== null) await this.#save(transition.withoutLease(this.#row))
    })
    this.#wakeAll()
  }

  /** False: the message is not leased, or no longer. */
  async acknowledge(msgId: string, done: boolean): Promise<boolean> {
    const isKnown = await this.#alone(async () => {
      await this.#endOverdueLease()
      if (this.#row.leaseMsgId === null || this.#row.leaseMsgId !== msgId) return false
      this.#out = null
      const leased = await this.#first()
      if (leased?.msgId !== msgId) return false
      if (done) await this.#moveTo(leased.seq)
      else await this.#save(transition.afterLease(this.#row, 'nack', this.#deps.clock.now()), failedOnce)
      return true
    })
    this.#wakeAll()
    return isKnown
  }

  async skip(): Promise<boolean> {
    const isSkipped = await this.#alone(async () => {
      const message = this.#isBlocking() ? await this.#first() : null
      if (message === null || message.msgId !== this.#row.blockingMsgId) return false
      this.#out = null
      await this.#save(transition.afterSkip(this.#row, message), { skippedRecords: message.recordCount })
      return true
    })
    this.#wakeAll()
    return isSkipped
  }

  /** Who had the message loses it: the next consumer gets it at once. */
  async retryNow(): Promise<string | null> {
    const msgId = await this.#alone(async () => {
      if (!this.#isBlocking()) return null
      this.#out = null
      await this.#save(transition.withoutLease(this.#row))
      return this.#row.blockingMsgId
    })
    this.#wakeAll()
    return msgId
  }

  async rewind(find: () => Promise<number>): Promise<number> {
    const cursorSeq = await this.#alone(async () => {
      const floor = await this.#deps.reader.floor(this.#spec.pipeId)
      const to = Math.min(Math.max(await find(), floor.seq), this.#row.cursorSeq)
      const position = await this.#deps.reader.positionAt(this.#spec.pipeId, to)
      this.#out = null
      await this.#save(transition.afterRewind(this.#row, to, transition.totalsOf(position)))
      return to
    })
    this.#wakeAll()
    return cursorSeq
  }

  async reconfigure(spec: LaneSpec): Promise<void> {
    await this.#alone(async () => {
      this.#spec = spec
    })
    this.#wakeAll()
  }

  async blockingMessage(): Promise<StoredMessage | null> {
    const message = this.#row.blockingMsgId === null ? null : await this.#first()
    return message?.msgId === this.#row.blockingMsgId ? message : null
  }

  /** Everyone who waits is answered `empty`, and so is every later pull. */
  endPulls(): void {
    this.#endsPulls = true
    this.#wakeAll()
  }

  async close(): Promise<void> {
    this.endPulls()
    await this.#line
  }

  async remove(): Promise<void> {
    this.#isRemoved = true
    this.#wakeAll()
    await this.#line
  }

  async #give(): Promise<PullAnswer> {
    if (this.#isGone()) return { kind: 'not_found' }
    const { clock } = this.#deps
    if (this.#out !== null && this.#out.untilMonotonicMs <= clock.monotonicMs()) this.#out = null
    await this.#endOverdueLease()
    if (this.#out !== null || this.#row.leaseMsgId !== null || this.#endsPulls) return { kind: 'empty' }
    const message = await this.#first()
    if (message === null) return { kind: 'empty' }
    const isExplicit = this.#spec.config.ack_mode === 'explicit'
    const outMs = isExplicit ? this.#leaseMs : longestOutMs
    if (isExplicit) {
      this.#leaseUntil = clock.monotonicMs() + outMs
      await this.#save(transition.withLease(this.#row, message.msgId, clock.now() + outMs))
    }
    const pullId = randomUUID()
    this.#out = { pullId, message, untilMonotonicMs: clock.monotonicMs() + outMs }
    return answerWith(pullId, message)
  }

  async #giveAfter(afterSeq: number): Promise<PullAnswer> {
    if (this.#isGone()) return { kind: 'not_found' }
    await this.#countLost()
    const floor = await this.#deps.reader.floor(this.#spec.pipeId)
    if (afterSeq < floor.seq) {
      const earliest = await this.#firstAfter(floor.seq)
      return { kind: 'cursor_expired', earliestSeq: earliest?.seq ?? floor.seq + 1 }
    }
    const head = await this.#batches.head()
    const to = Math.min(afterSeq, head.seq)
    if (to > this.#row.cursorSeq) {
      this.#out = null
      await this.#moveTo(to)
    }
    const message = await this.#firstAfter(Math.max(to, floor.seq))
    return message === null ? { kind: 'empty' } : answerWith(randomUUID(), message)
  }

  async #moveTo(seq: number): Promise<void> {
    const position: PipePosition = { ...(await this.#deps.reader.positionAt(this.#spec.pipeId, seq)), seq }
    const records = position.records - (this.#row.cursorTotals?.records ?? position.records)
    const row = transition.afterPulled(this.#row, position, records, this.#deps.clock.now())
    await this.#save(row, { deliveredRecords: records })
    this.#deps.onAttempt('delivered', this.#spec)
  }

  async #endOverdueLease(): Promise<void> {
    if (this.#row.leaseMsgId === null || this.#leaseUntil > this.#deps.clock.monotonicMs()) return
    this.#out = null
    this.#deps.onAttempt('transient', this.#spec)
    await this.#save(transition.afterLease(this.#row, 'lease_expired', this.#deps.clock.now()), failedOnce)
  }

  /** The first message after the cursor; what is damaged or dropped before it is counted. */
  async #first(): Promise<StoredMessage | null> {
    for (;;) {
      const run = await this.#deps.reader.read(this.#spec.pipeId, this.#row.cursorSeq, firstOnly)
      await this.#countLost(true)
      const first = run.messages[0] ?? null
      const damaged = run.damaged[0]
      if (damaged === undefined || (first !== null && first.seq < damaged.seq)) {
        if (first === null || first.seq > this.#row.cursorSeq) return first
        continue
      }
      await this.#dropped(await this.#batches.pastDamaged(this.#row, damaged.seq))
    }
  }

  /** Reads on without moving the cursor: the consumer's own N decides. */
  async #firstAfter(seq: number): Promise<StoredMessage | null> {
    for (let after = seq; ; ) {
      const run = await this.#deps.reader.read(this.#spec.pipeId, after, firstOnly)
      if (run.messages[0] !== undefined) return run.messages[0]
      const damaged = run.damaged.at(-1)
      if (damaged === undefined) return null
      after = damaged.seq
    }
  }

  async #countLost(isDue = this.#isFloorDue): Promise<void> {
    if (!isDue) return
    this.#isFloorDue = false
    const located = await this.#batches.located(this.#row)
    if (located !== this.#row) await this.#save(located)
    const lost = await this.#batches.lost(this.#row)
    if (lost !== null) await this.#dropped(lost)
  }

  async #dropped(lost: { row: LaneRow; dropped: number; reason: string }): Promise<void> {
    this.#deps.log.warn(
      {
        destination_id: this.#spec.destinationId,
        pipe_id: this.#spec.pipeId,
        messages: lost.dropped,
        reason: lost.reason,
        cursor_seq: lost.row.cursorSeq,
      },
      'lane.messages_dropped',
    )
    this.#out = null
    await this.#save(lost.row)
  }

  async #save(row: LaneRow, counts: Partial<LaneCounts> | null = null): Promise<void> {
    this.#row = row
    if (this.#isRemoved) return
    const none = { pipeId: this.#spec.pipeId, deliveredRecords: 0, failedAttempts: 0, skippedRecords: 0 }
    await this.#deps.save(row, counts === null ? null : { ...none, ...counts })
    this.#savedCursorSeq = row.cursorSeq
    this.#deps.onSaved()
  }

  get #leaseMs(): number {
    const { lease_seconds: seconds } = this.#spec.config
    return (typeof seconds === 'number' ? seconds : defaultLeaseSeconds) * 1000
  }

  #isGone(): boolean {
    return this.#isRemoved || this.#spec.status === 'blocked'
  }

  #isBlocking(): boolean {
    return this.#spec.status !== 'blocked' && this.#row.blockingMsgId !== null
  }

  /** One at a time; a failure is the caller's and does not hold up the line. */
  #alone<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#line.then(run)
    this.#line = result.catch(() => {})
    return result
  }

  /** Resolves when it is worth looking again, first come, first woken. */
  #changed(leftMs: number): Promise<void> {
    const { clock } = this.#deps
    const holds = [levelCheckMs, leftMs]
    if (this.#row.leaseMsgId !== null) holds.push(this.#leaseUntil - clock.monotonicMs())
    return new Promise((resolve) => {
      const look = () => {
        cancel()
        this.#waiting.delete(look)
        resolve()
      }
      const cancel = clock.wake(Math.max(0, Math.min(...holds)), look)
      this.#waiting.add(look)
    })
  }

  /** In the order they came: the line keeps it. */
  #wakeAll(): void {
    this.#changes += 1
    for (const look of [...this.#waiting]) look()
  }
}

const firstOnly = { maxRecords: 1, maxBytes: 1 }
const failedOnce = { failedAttempts: 1 }

function answerWith(pullId: string, message: StoredMessage): PullAnswer {
  return {
    kind: 'message',
    pullId,
    pipeId: message.pipeId,
    msgId: message.msgId,
    seq: message.seq,
    recordsJson: toJsonArray(message.body),
  }
}
