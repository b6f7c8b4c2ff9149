/**
 * A pull lane: the same cursor over the pipe's messages, moved by consumers that come and ask (docs/dev/contract.md#pull).
 *
 *   auto      pull ─▶ message in flight ─▶ pulled: cursor moves · abandoned: redelivered
 *   explicit  pull ─▶ message leased (saved before it is sent) ─▶ ack: cursor moves · nack, lease over: redelivered
 *   after_seq pull ─▶ cursor moves to N (saved) ─▶ the first message after N; nothing is in flight: N is enough
 *
 * One message is in flight at a time in auto and explicit: a second consumer waits for it, as for a new one. Every
 * change is a command in the lane's mailbox; a pull that finds nothing waits outside it for what can change that: a
 * notification, an outcome of the message in flight, the end of a lease, its own time being up, shutdown.
 *
 * A crash redelivers what was in flight: in auto and after_seq because the cursor had not moved, in explicit when the
 * lease (which survives) is over. What the destination's status blocks is `not_found`.
 */
import assert from 'node:assert'
import type { LaneStatus } from '../contract/destination.ts'
import { BufferReadUnavailableError, type MarkedMessage } from '../log/buffer.ts'
import {
  LaneOwnershipLostError,
  type LaneSpec,
  type LaneState,
  LaneStoreUnavailableError,
} from '../metadata/lane-state.ts'
import type { ParkedCounts } from '../metadata/parked-store-port.ts'
import { BatchReader } from './batch-reader.ts'
import { ConsumerCommands } from './consumer-commands.ts'
import type { PullRequest, PullResult, RewindResult, SkipResult } from './delivery.ts'
import { DurableState } from './durable-state.ts'
import type { AttemptCounts, Lane, LaneBacklog, PullConsumers } from './lane.ts'
import type { LaneDeps } from './lane-deps.ts'
import { isBlocking, laneBacklog, laneStatus } from './lane-status.ts'
import { Mailbox } from './mailbox.ts'
import { PullCursor } from './pull-cursor.ts'
import { RetryWindow } from './retry.ts'
import * as transition from './transitions.ts'
import { WaitingPulls } from './waiting-pulls.ts'

export class PullLane implements Lane, PullConsumers {
  readonly consumers: PullConsumers = this
  #spec: LaneSpec
  readonly #deps: LaneDeps
  readonly #state: DurableState
  readonly #batches: BatchReader
  readonly #views: BatchReader
  readonly #cursor: PullCursor
  readonly #commands: ConsumerCommands
  readonly #retry: RetryWindow
  readonly #waiting: WaitingPulls
  readonly #mailbox: Mailbox
  #wakeLoop = () => {}
  #phase: 'new' | 'running' | 'removed' | 'ended' = 'new'
  #ended: Promise<void> = Promise.resolve()

  constructor(spec: LaneSpec, row: LaneState, deps: LaneDeps) {
    this.#spec = spec
    this.#deps = deps
    this.#state = new DurableState(spec, row, deps)
    const memory = deps.budget.of(spec.workspaceId)
    this.#batches = new BatchReader(spec.pipeId, deps.reader, memory, deps.clock)
    this.#views = new BatchReader(spec.pipeId, deps.viewReader, memory, deps.clock)
    this.#cursor = new PullCursor(
      spec.pipeId,
      deps.reader,
      this.#batches,
      this.#state,
      deps.pullTurns,
      () => {
        this.#commands.forgetInFlight()
        this.#retry.clear()
      },
    )
    this.#retry = new RetryWindow(row, deps.clock)
    this.#commands = new ConsumerCommands(this.#state, this.#cursor, this.#retry, deps, spec)
    this.#waiting = new WaitingPulls(deps.clock)
    this.#mailbox = new Mailbox(deps.clock, () => this.#wakeLoop())
  }

  get spec(): LaneSpec {
    return this.#spec
  }
  get epoch(): number {
    return this.#deps.epoch
  }
  get savedCursorSeq(): number {
    return this.#state.savedCursorSeq
  }
  get attempts(): AttemptCounts {
    return this.#commands.attempts
  }
  get row(): LaneState {
    return this.#state.row
  }
  get isStalled(): boolean {
    return this.#retry.isStalled(this.#spec.maxRetrySeconds)
  }
  get parked(): ParkedCounts {
    return this.#deps.parking.counts
  }

  start(): Promise<void> {
    assert(this.#phase === 'new')
    this.#phase = 'running'
    this.#ended = this.#run()
    return this.#ended
  }

  notify(): void {
    this.#waiting.wakeAll()
  }

  notifyHead(seq: number): void {
    if (this.row.cursorSeq < seq) this.#waiting.wakeAll()
  }

  notifyDropped(): void {
    this.#cursor.notifyDropped()
    this.#command(undefined, () => this.#cursor.countLost()).catch(() => {})
  }

  async status(): Promise<LaneStatus> {
    const { spec, row, isStalled, parked } = this
    const nowMs = this.#deps.clock.now()
    return laneStatus({ spec, row, batches: this.#views, isStalled, parked, nowMs })
  }

  backlog(): Promise<LaneBacklog> {
    return laneBacklog(this.#spec, this.row, this.#views)
  }

  blockingMessage(): Promise<MarkedMessage | null> {
    return this.#state.blockingMessage(this.#deps.viewReader)
  }

  async pull({ waitMs, afterSeq }: PullRequest): Promise<PullResult> {
    const deadline = this.#deps.clock.monotonicMs() + waitMs
    for (;;) {
      const seen = this.#waiting.changes
      const found = await this.#mailbox.ask<PullResult>({ kind: 'empty' }, async () => {
        // Its owner has the message, and may have handed it out.
        if (!this.#deps.isOwned()) return { kind: 'empty' }
        return afterSeq === null
          ? await this.#commands.fetch(this.#spec)
          : await this.#commands.fetchAfter(this.#spec, afterSeq)
      })
      if (this.#phase === 'removed') return { kind: 'not_found' }
      if (found.kind !== 'empty') return found
      const leftMs = deadline - this.#deps.clock.monotonicMs()
      if (this.#commands.isEnding || leftMs <= 0) return found
      // Something changed while this one looked: it looks again instead of waiting.
      if (seen === this.#waiting.changes) {
        await this.#waiting.wait(Math.min(leftMs, this.#commands.leaseLeftMs))
      }
    }
  }

  pulled(pullId: string): Promise<void> {
    return this.#command(undefined, () => this.#commands.pulled(pullId))
  }

  abandoned(pullId: string): Promise<void> {
    return this.#command(undefined, () => this.#commands.abandoned(pullId))
  }

  acknowledge(msgId: string, done: boolean): Promise<boolean> {
    return this.#ask(false, () => this.#commands.acknowledge(msgId, done))
  }

  endPulls(): void {
    this.#commands.end()
    this.#waiting.wakeAll()
  }

  async skip(): Promise<SkipResult> {
    return await this.#ask<SkipResult>(false, async () => {
      const message = isBlocking(this.#spec, this.row) ? await this.#cursor.first() : null
      if (message === null || message.msgId !== this.row.blockingMsgId) return false
      if (!(await this.#state.skipped(message))) return 'parked_full'
      this.#commands.forgetInFlight()
      this.#retry.clear()
      return true
    })
  }

  /** A consumer that has the message loses it: the next one gets it at once. */
  async retryNow(): Promise<string | null> {
    return await this.#ask(null, async () => {
      if (!isBlocking(this.#spec, this.row)) return null
      this.#commands.forgetInFlight()
      this.#state.change(transition.withoutLease(this.row))
      await this.#state.save()
      return this.row.blockingMsgId
    })
  }

  async rewind(find: () => Promise<number>): Promise<RewindResult> {
    const unmoved: RewindResult = { kind: 'rewound', cursorSeq: this.row.cursorSeq }
    return await this.#ask(unmoved, async () => {
      const result = await this.#state.rewind(find)
      if (result.kind === 'rewound') {
        this.#commands.forgetInFlight()
        this.#retry.clear()
      }
      return result
    })
  }

  async parkedChanged(): Promise<void> {
    await this.#deps.parking.refresh()
  }

  async reconfigure(spec: LaneSpec): Promise<void> {
    await this.#command(undefined, async () => {
      this.#spec = spec
      this.#state.log.renamed(spec)
    })
  }

  /** There is no attempt to wait for; what was asked before is still done. */
  async close(): Promise<void> {
    this.endPulls()
    await this.#end('ended')
  }

  async remove(): Promise<void> {
    this.#state.detach()
    await this.#end('removed')
  }

  /** Who waits gets nothing here and asks again, wherever the lane is then. */
  async handOver(): Promise<void> {
    this.#state.detach()
    this.endPulls()
    await this.#end('ended')
  }

  async #end(phase: 'removed' | 'ended'): Promise<void> {
    if (this.#phase === 'new') {
      this.#phase = phase
      this.#mailbox.close()
    }
    this.#deps.reader.stopWaiting()
    try {
      await this.#command(undefined, async () => {
        this.#phase = phase
      })
    } catch (error) {
      // A save under way found a newer owner, which ends the lane as well.
      if (!(error instanceof LaneOwnershipLostError)) throw error
    }
    await this.#ended
  }

  async #run(): Promise<void> {
    try {
      await this.#cursor.countLost()
      while (this.#phase === 'running') {
        if (!(await this.#mailbox.runNext())) await this.#posted()
      }
      this.#mailbox.close()
    } catch (error) {
      this.#phase = 'ended'
      const isUnavailable =
        error instanceof LaneStoreUnavailableError || error instanceof BufferReadUnavailableError
      if (isUnavailable) this.#mailbox.close()
      else this.#mailbox.fail(error)
      this.endPulls()
      if (error instanceof LaneOwnershipLostError) this.#state.log.ownershipLost()
      // Only while closing, on a full disk or with a buffer that does not answer: a restart begins with what was saved before.
      else if (isUnavailable) this.#state.log.notSaved()
      else throw error
    }
  }

  #posted(): Promise<void> {
    if (!this.#mailbox.isEmpty) return Promise.resolve()
    return new Promise((resolve) => {
      this.#wakeLoop = resolve
    })
  }

  /** Waiting pulls look again after it. */
  async #command<T>(late: T, run: () => Promise<T>): Promise<T> {
    try {
      return await this.#mailbox.post(late, run)
    } finally {
      this.#waiting.wakeAll()
    }
  }

  /** The same, for somebody who waits for the outcome. */
  async #ask<T>(late: T, run: () => Promise<T>): Promise<T> {
    try {
      return await this.#mailbox.ask(late, run)
    } finally {
      this.#waiting.wakeAll()
    }
  }
}
