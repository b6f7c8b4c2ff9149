/**
 * A pull lane: consumers fetch the messages and so move its cursor (docs/dev/contract.md#pull).
 *
 *   auto      pull ─▶ message in flight ─▶ pulled: cursor moves · abandoned: redelivered
 *   explicit  pull ─▶ message leased (saved before it is sent) ─▶ ack: cursor moves · nack, lease expired: redelivered
 *   after_seq pull ─▶ cursor moves to N (saved) ─▶ the first message after N; nothing is in flight, N is enough
 *
 * In auto and explicit mode one message is in flight at a time; a second consumer waits for it as for a new message.
 * Every change is a command in the lane's mailbox. A pull that finds no message waits outside the mailbox for a
 * notification, an outcome of the message in flight, the end of a lease, its own timeout or the shutdown.
 *
 * After a crash the message in flight is redelivered: in auto and after_seq because the cursor had not moved, in
 * explicit when the lease, which is stored, expires. While the destination is blocked, pulls return `not_found`.
 */
import type { LaneSpec, LaneState } from '../metadata/lane-state.ts'
import { Waits } from '../platform/waits.ts'
import type { Clock } from './clock.ts'
import { ConsumerCommands } from './consumer-commands.ts'
import type { AttemptCounts, PullRequest, PullResult } from './delivery.ts'
import type { LaneDeps, LaneEnd, PullConsumers } from './lane.ts'
import { LaneCore } from './lane-core.ts'
import { isBlocking } from './lane-status.ts'
import { PullCursor } from './pull-cursor.ts'
import * as transition from './transitions.ts'

export class PullLane extends LaneCore implements PullConsumers {
  readonly consumers: PullConsumers = this
  readonly #cursor: PullCursor
  readonly #commands: ConsumerCommands
  readonly #waiting: WaitingPulls
  #isWoken = false
  readonly #sleeps: Waits

  constructor(spec: LaneSpec, row: LaneState, deps: LaneDeps) {
    super(spec, row, deps)
    this.#waiting = new WaitingPulls(deps.clock)
    this.#sleeps = new Waits(deps.clock)
    const onDropped = () => {
      this.moved()
      this.#waiting.wakeAll()
    }
    const { state, batches, retry } = this
    this.#cursor = new PullCursor(spec.pipeId, { state, batches }, deps, onDropped)
    this.#commands = new ConsumerCommands({ state, retry }, this.#cursor, deps, spec)
  }

  get attempts(): AttemptCounts {
    return this.#commands.attempts
  }

  notify(): void {
    this.#waiting.wakeAll()
  }

  notifyHead(seq: number): void {
    if (this.row.cursorSeq < seq) this.#waiting.wakeAll()
  }

  /** Each message is read when it is fetched. */
  notifyErased(): void {}

  notifyDropped(): void {
    this.#cursor.notifyDropped()
    this.wake()
  }

  async pull({ waitMs, afterSeq }: PullRequest): Promise<PullResult> {
    const deadline = this.deps.clock.monotonicMs() + waitMs
    for (;;) {
      const seen = this.#waiting.changes
      const found = await this.mailbox.ask<PullResult>({ kind: 'empty' }, async () => {
        // Another process owns the lane and can have handed out the message.
        if (!this.deps.isOwned()) return { kind: 'empty' }
        return afterSeq === null
          ? await this.#commands.fetch(this.spec)
          : await this.#commands.fetchAfter(this.spec, afterSeq)
      })
      if (this.requestedEnd === 'removed') return { kind: 'not_found' }
      if (found.kind !== 'empty') return found
      const leftMs = deadline - this.deps.clock.monotonicMs()
      if (this.#commands.isEnding || leftMs <= 0) return found
      // Something changed during this read: it reads again instead of waiting.
      if (seen === this.#waiting.changes) {
        await this.#waiting.wait(Math.min(leftMs, this.#commands.leaseLeftMs))
      }
    }
  }

  pulled(pullId: string): Promise<void> {
    return this.command(undefined, () => this.#commands.pulled(pullId))
  }

  abandoned(pullId: string): Promise<void> {
    return this.command(undefined, () => this.#commands.abandoned(pullId))
  }

  acknowledge(msgId: string, isDone: boolean): Promise<boolean> {
    return this.ask(false, () => this.#commands.acknowledge(msgId, isDone))
  }

  endPulls(): void {
    this.#commands.end()
    this.#waiting.wakeAll()
  }

  /** Revokes the message from the consumer that has it; the next consumer gets it immediately. */
  async retryNow(): Promise<string | null> {
    return await this.ask(null, async () => {
      if (!isBlocking(this.spec, this.row)) return null
      this.#commands.forgetInFlight()
      this.state.change(transition.withoutLease(this.row))
      await this.state.save()
      return this.row.blockingMsgId
    })
  }

  /**
   * Waiting pulls of a lane that ends, unless it is removed, return empty: the client asks again and reaches the new
   * owner.
   */
  override async end(how: LaneEnd, graceMs = 0): Promise<void> {
    if (how !== 'removed') this.endPulls()
    await super.end(how, graceMs)
    this.#waiting.wakeAll()
  }

  protected override moved(): void {
    super.moved()
    this.#commands.forgetInFlight()
  }

  protected wake(): void {
    this.#isWoken = true
    this.#sleeps.end()
  }

  /** Waiting pulls read again after each command. */
  protected override async around<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run()
    } finally {
      this.#waiting.wakeAll()
    }
  }

  /** Waits for commands. Messages that retention dropped are counted at the start and after each report of retention. */
  protected async step(): Promise<void> {
    this.#isWoken = false
    await this.#cursor.countLost()
    await this.state.saveIfDirty()
    if (this.#isWoken || !this.mailbox.isEmpty || this.requestedEnd !== null) return
    const { dueInMs } = this.state.latency
    await this.#sleeps.wait(dueInMs)
  }

  /** Runs after errors too, so that no pull waits for a lane that has ended. */
  protected override async closed(): Promise<void> {
    if (this.requestedEnd !== 'removed') this.endPulls()
  }
}

/** Pulls that found no message. Each waits until another read is worthwhile, in order of arrival. */
class WaitingPulls {
  readonly #waits: Waits
  #changes = 0

  constructor(clock: Clock) {
    this.#waits = new Waits(clock)
  }

  /** Grows with every `wakeAll`. A pull that was reading meanwhile reads again instead of waiting. */
  get changes(): number {
    return this.#changes
  }

  wakeAll(): void {
    this.#changes += 1
    this.#waits.end()
  }

  /** Resolves at the next `wakeAll`, or after `longestMs`. */
  wait(longestMs: number): Promise<void> {
    return this.#waits.wait(Math.max(0, longestMs))
  }
}
