/**
 * A push lane delivers its pipe's messages in order through a driver, with one batch in flight. Meanwhile the next full
 * batches are read ahead (`read-ahead.ts`).
 *
 *            ┌───────────────────────── nothing pending ◀────────────────┐
 *            ▼                                                           │
 *        (waiting) ──due──▶ range fixed and saved ──▶ attempt ──stored──▶ cursor moves
 *            ▲                      ▲   ▲                │
 *            │                      │   │                ├─ transient ─▶ pause (backoff), same range again
 *         command,                  │   ├── bisected ◀───┼─ permanent, several messages ─▶ first part of them
 *         notification,             │   ├── halved ◀─────┼─ timed out: at once if rolled back, else the third time
 *         time                      │   └── pause ◀──────┼─ permanent, one message ─▶ stuck at it: every 300 s
 *                                   └────────────────────┴─ interrupted ─▶ command, same range again (no attempt)
 *
 * An attempt that failed half-way (`json_object`) first moves the cursor past the stored messages; `recordOffset` is
 * the stored part of the next one. Retry-now, a changed destination and lowered limits cut a failed range again.
 *
 * Between two batches, and between retries, parked records and ranges of messages are replayed (`replays.ts`).
 *
 * States in the API: `idle` nothing is pending · `flowing` · `retrying` a message is blocking · `stalled` it has been
 * blocking for longer than destination_max_retry_seconds · `blocked` by the destination's status: no attempts, the
 * backlog is kept.
 *
 * The state after a crash, line by line: `durable-state.ts`.
 */
import { isDeepStrictEqual } from 'node:util'
import type { MarkedMessage } from '../log/buffer.ts'
import type { ReplicaBarrier } from '../log/replica-barrier.ts'
import { LaneOwnershipLostError, type LaneSpec, type LaneState } from '../metadata/lane-state.ts'
import { bytesOf } from './batch.ts'
import { aheadLimits, type DroppedMessages, type ReservedBatch } from './batch-reader.ts'
import { type Clock, Sleeper } from './clock.ts'
import type { AttemptCounts } from './delivery.ts'
import type { DurableState } from './durable-state.ts'
import type { LaneDeps } from './lane.ts'
import { LaneCore } from './lane-core.ts'
import { isBlocking } from './lane-status.ts'
import { PushAttempts } from './push-attempts.ts'
import { ReadAhead } from './read-ahead.ts'
import { Replays } from './replays.ts'
import * as transition from './transitions.ts'

/** The minimum interval between queries for a batch that gathers: notifications are too frequent for a query each. */
const gatherQuietMs = 100

export class PushLane extends LaneCore {
  readonly consumers = null
  readonly #ahead: ReadAhead
  readonly #attempts: PushAttempts
  readonly #sleep: LaneSleep
  readonly #replays: Replays
  /** A replay and the lane's own batch alternate. */
  #hasReplayed = false
  #reserved: ReservedBatch | null = null
  #interruptStep: (() => void) | null = null
  #isEarliestCheckDue = true
  /** Messages in memory can have records that were deleted from the log. */
  #isRereadDue = false
  #cancelSave = () => {}
  /** The lane waits and knows of messages that do not fill a batch yet. */
  #isGathering = false
  /** The newest message of the pipe that the set of lanes has seen. */
  #headSeq = 0

  constructor(spec: LaneSpec, row: LaneState, deps: LaneDeps) {
    super(spec, row, deps)
    this.#ahead = new ReadAhead(spec.pipeId, deps.reader, deps.budget.of(spec.workspaceId))
    this.#attempts = new PushAttempts(this.state, this.retry, deps)
    this.#replays = new Replays(spec.destinationId, this.state, this.#attempts, deps)
    this.#sleep = new LaneSleep(deps.clock, this.state, this.#attempts)
  }

  get attempts(): AttemptCounts {
    return this.#attempts.counts
  }

  notify(): void {
    this.#sleep.notify()
  }

  notifyHead(seq: number): void {
    // The gathering batch was checked when this was already the head, so the lane waits only for time.
    const isKnown = this.#isGathering && seq === this.#headSeq
    this.#headSeq = seq
    if (this.row.cursorSeq < seq && !isKnown) this.#sleep.notify()
  }

  notifyErased(): void {
    this.#isRereadDue = true
    this.#sleep.interrupt()
  }

  notifyDropped(): void {
    this.#isEarliestCheckDue = true
    this.#sleep.interrupt()
  }

  async retryNow(): Promise<string | null> {
    if (!isBlocking(this.spec, this.row)) return null
    return await this.ask(null, async () => {
      if (!isBlocking(this.spec, this.row)) return null
      this.state.change(transition.afterRetryNow(this.row))
      this.#attempts.forgetTimeouts()
      this.retry.tryNow()
      return this.row.blockingMsgId
    })
  }

  override async parkedChanged(): Promise<void> {
    await super.parkedChanged()
    this.#replays.changed()
    this.#sleep.interrupt()
  }

  protected override async reconfigured(before: LaneSpec): Promise<void> {
    const { spec } = this
    if (transition.isOnlyRenamed(before, spec)) return
    this.#attempts.forgetTimeouts()
    if (!isDeepStrictEqual(before.transform, spec.transform)) this.#attempts.transformChanged()
    this.retry.tryNow()
    this.#replays.reconfigured(before, spec)
    this.state.change(transition.afterReconfigured(this.row, before, spec))
    await this.#attempts.close()
  }

  /** The batch can have fewer records now, so it is attempted without waiting. */
  protected override async forgetRecords(): Promise<void> {
    await this.deps.steps.drift.forgetExamples(this.spec.destinationId)
    await this.#replays.forgetErrorText()
    this.retry.tryNow()
  }

  protected wake(): void {
    this.#interruptStep?.()
    this.#sleep.interrupt()
  }

  protected override abortAttempt(): void {
    this.#attempts.abort()
  }

  /** A command can change the range, so the messages in memory are read again afterwards. */
  protected override around<T>(run: () => Promise<T>): Promise<T> {
    this.release()
    return run()
  }

  protected override release(): void {
    this.#cancelSave()
    this.#ahead.discard()
    this.#releaseBatch()
  }

  protected override async closed(): Promise<void> {
    await this.#attempts.close()
  }

  protected async step(): Promise<void> {
    this.#ahead.throwFailure()
    this.#requireOwned()
    if (this.#isRereadDue) this.#reread()
    if (this.#isEarliestCheckDue) await this.#countLost()
    const now = this.deps.clock.monotonicMs()
    const isBlocked = this.spec.status === 'blocked'
    const slotAt = this.#attempts.nextSlotAt(this.spec)
    const replayAt = Math.max(now + this.#replays.dueInMs, slotAt)
    if (!isBlocked && replayAt <= now && !this.#hasReplayed) {
      await this.#replay()
      return
    }
    this.#hasReplayed = false
    const nextAt = Math.max(this.retry.nextAttemptAt, slotAt)
    if (isBlocked || nextAt > now) {
      this.release()
      await this.#sleep.pause(isBlocked ? Number.POSITIVE_INFINITY : Math.min(nextAt, replayAt) - now)
      // Counts the messages that the lane has lost while it waited.
      this.#isEarliestCheckDue = true
      return
    }
    if (this.#reserved === null && !(await this.#prepare())) return
    await this.state.saveForAttempt()
    const { replica } = this.deps
    if (replica !== null && !(await this.#isReplicated(replica))) return
    // A command, a deletion or the end of the lane can have arrived during the save. The fixed range can wait.
    if (!this.mailbox.isEmpty || this.requestedEnd !== null || this.#isRereadDue) return
    this.#requireOwned()
    const { messages } = this.#reserved!
    const attempt = this.#attempts.run(messages, this.spec)
    void this.#readAhead(messages.at(-1)!)
    const left = await attempt
    this.#cancelSave()
    this.#keep(left)
  }

  /** False: something else comes first. */
  async #isReplicated(replica: ReplicaBarrier): Promise<boolean> {
    const interrupt = new AbortController()
    this.#interruptStep = () => interrupt.abort()
    const isReplicated = await this.state.replicatedForAttempt(replica, interrupt.signal)
    this.#interruptStep = null
    return isReplicated
  }

  /** A process that was stopped for longer than its lease detects it here and sends nothing. */
  #requireOwned(): void {
    if (!this.deps.isOwned()) throw new LaneOwnershipLostError([this.spec.destinationId])
  }

  /** Runs after the current batch, whose messages are read again when its turn comes. */
  async #replay(): Promise<void> {
    this.#hasReplayed = true
    this.release()
    const interrupt = new AbortController()
    this.#interruptStep = () => interrupt.abort()
    await this.#replays.run(this.spec, interrupt.signal)
    this.#interruptStep = null
  }

  /** Runs during an attempt: fixes the next ranges and saves them, together with changes not saved before the attempt. */
  async #readAhead(after: MarkedMessage): Promise<void> {
    const limits = this.#ahead.holdsAllOf(this.row) ? aheadLimits(this.row, this.spec) : null
    if (limits === null) this.#saveWhenDue()
    else {
      await this.#ahead.read(after, limits, {
        onHeld: (messages) => this.state.change(transition.withNext(this.row, messages)),
        onTurn: () => this.#saveWhenDue(),
      })
    }
  }

  /** Saves now or, while the attempt is still under way, later. */
  #saveWhenDue(): void {
    this.#cancelSave()
    const dueInMs = this.state.saveDueInMs
    if (this.requestedEnd !== null || dueInMs === Number.POSITIVE_INFINITY) return
    if (dueInMs > 0) this.#cancelSave = this.deps.clock.wake(dueInMs, () => this.#saveWhenDue())
    else this.state.saveInBackground(() => this.#attempts.abort())
  }

  /** Returns true when messages are in memory and their range is in the row. */
  async #prepare(): Promise<boolean> {
    const interrupt = new AbortController()
    this.#interruptStep = () => interrupt.abort()
    const memory = { before: () => this.state.saveIfDirty(), signal: interrupt.signal }
    this.#sleep.arm()
    const next = await this.batches.next(this.row, this.spec, memory, this.#ahead)
    this.#interruptStep = null
    if (next.kind === 'dropped') {
      await this.#dropped(next)
      return false
    }
    this.state.change(next.row)
    switch (next.kind) {
      case 'batch':
        this.#reserved = next.reserved
        return true
      case 'wait':
        if (next.waitMs === Number.POSITIVE_INFINITY) await this.#sleep.idle(this.#replays.dueInMs)
        else await this.#gather(Math.min(next.waitMs, this.#replays.dueInMs))
        return false
      case 'interrupted':
        return false
    }
  }

  async #gather(waitMs: number): Promise<void> {
    this.#isGathering = true
    await this.#sleep.gather(waitMs, gatherQuietMs)
    this.#isGathering = false
  }

  async #countLost(): Promise<void> {
    this.#isEarliestCheckDue = false
    const lost = await this.batches.lost(this.row)
    if (lost !== null) await this.#dropped(lost)
  }

  async #dropped(lost: DroppedMessages): Promise<void> {
    this.release()
    this.retry.clear()
    await this.state.dropped(lost)
  }

  #keep(messages: MarkedMessage[]): void {
    if (messages.length === 0) this.#releaseBatch()
    else {
      this.#ahead.discard()
      this.#reserved!.messages = messages
      this.#reserved!.reservation.resize(bytesOf(messages))
    }
  }

  #reread(): void {
    this.#isRereadDue = false
    this.release()
  }

  #releaseBatch(): void {
    this.#reserved?.reservation.release()
    this.#reserved = null
  }
}

/**
 * A push lane's sleep. Before each sleep its state is saved, because nothing else would save it meanwhile, and unused
 * connections are closed.
 */
class LaneSleep {
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

  /** Sleeps until a notification comes or the time is over. Wakes up early when something is due. */
  async idle(longestMs = Number.POSITIVE_INFINITY): Promise<void> {
    if (this.#sleeper.isNotified) return
    await this.#prepare()
    await this.#sleeper.waitForNotify(Math.min(longestMs, this.#dueInMs))
  }

  /**
   * Sleeps until the time is over or a command comes; new messages do not end it. Infinity: only a command does. It can
   * end early to close connections or to write the latency. Saving counts towards the time.
   */
  async pause(ms: number): Promise<void> {
    const atMs = this.#clock.monotonicMs() + ms
    await this.#prepare()
    await this.#sleeper.sleep(Math.min(atMs - this.#clock.monotonicMs(), this.#dueInMs))
  }

  /** Sleeps until the time is over, or until messages come after `quietMs`. */
  async gather(ms: number, quietMs: number): Promise<void> {
    const atMs = this.#clock.monotonicMs() + ms
    await this.#prepare()
    const longestMs = Math.min(atMs - this.#clock.monotonicMs(), this.#dueInMs)
    await this.#sleeper.gather(longestMs, quietMs)
  }

  /** Forgets earlier notifications. Called before the lane looks for messages. */
  arm(): void {
    this.#sleeper.arm()
  }

  notify(): void {
    this.#sleeper.notify()
  }

  interrupt(): void {
    this.#sleeper.interrupt()
  }

  /** Time until connections are to be closed, or the gathered latency is to be written. */
  get #dueInMs(): number {
    return Math.min(this.#attempts.closesInMs, this.#state.latency.dueInMs)
  }

  async #prepare(): Promise<void> {
    await this.#state.saveIfDirty()
    await this.#attempts.closeIdle()
  }
}
