/**
 * All lanes of the pipes that this process owns: opened, changed and ended by metadata and ownership, notified by
 * the buffer's feed, and reported to it.
 *
 * `owned-pipe.ts` handles one pipe and the concurrency within it. A pipe has an entry here from its first queued work
 * until it is neither owned nor has queued work; `#lanes` indexes the lanes of all entries by destination.
 *
 * Retention depends on the low watermarks reported here, so they use only saved cursors, from which a restart would
 * continue. A pipe without lanes reports 0, because its messages are kept for a future lane.
 *
 * An idle lane has no timer. A notification can be lost, or arrive before the message is visible; then the lane's
 * cursor is behind its pipe's newest message. All lanes are checked for that every five seconds, with one read of the
 * buffer.
 */
import type { ColumnFailure } from '../contract/drift.ts'
import {
  type BufferFeed,
  type BufferReader,
  BufferReadUnavailableError,
  type Heads,
  type LowWatermark,
} from '../log/buffer.ts'
import type { LaneOwnership } from '../metadata/lane-ownership.ts'
import {
  type LaneSource,
  type LaneSpec,
  LaneStoreUnavailableError,
  type PipeLanes,
} from '../metadata/lane-state.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import { Semaphore } from '../platform/semaphore.ts'
import { pollIntervalMs } from './clock.ts'
import type { DriftWatch } from './drift.ts'
import { FailingLanes } from './failing-lanes.ts'
import type { Lane } from './lane.ts'
import type { AttemptsObserved } from './lane-log.ts'
import { LaneOpener, type LaneOpenerOptions } from './lane-opener.ts'
import type { MemoryBudget } from './memory-budget.ts'
import { OwnedPipe } from './owned-pipe.ts'

export interface LaneSetOptions extends LaneOpenerOptions {
  source: LaneSource
  ownership: LaneOwnership
  feed: BufferFeed
  /** A lane has ended here: it was deleted or has another owner. `isLast`: its workspace has no other lane here. */
  onLaneGone?(spec: LaneSpec, isLast: boolean): void
  /** A lane stopped unexpectedly: the thread cannot continue. */
  onFatal(error: unknown): void
}

/** The minimum interval between reports after a cursor moved, and the interval without a move. */
const reportAfterMoveMs = 2_000
const reportAnywayMs = 5_000
const readerLagMs = 1_000
/** Pipes that are opened concurrently: their lanes are loaded over the few connections of a thread. */
const openedAtOnce = 8
const reopenAfterMs = 1_000

export class LaneSet {
  readonly #options: LaneSetOptions
  readonly #opener: LaneOpener
  readonly #failing: FailingLanes
  readonly #pipes = new Map<string, OwnedPipe>()
  readonly #lanes = new Map<string, Lane>()
  readonly #opening = new Semaphore(openedAtOnce)
  /** Functions that end each wait for metadata. */
  readonly #waits = new Set<() => void>()
  #cancelReport: (() => void) | null = null
  #cancelLook: (() => void) | null = null
  #heads: Heads = { newestSeq: 0, pipes: new Map() }
  /** The first workspace with a pipe here. */
  #workspaceId: string | null = null
  #hasMoved = false
  #reportedAt = 0
  #isClosing = false
  #endsPulls = false

  constructor(options: LaneSetOptions) {
    this.#options = options
    this.#opener = new LaneOpener(options, () => {
      this.#hasMoved = true
    })
    this.#failing = new FailingLanes(options.clock, options.log)
  }

  /** Loads and starts every lane. */
  async open(): Promise<void> {
    const { feed, source, ownership, clock } = this.#options
    feed.onCommitted((pipes) => {
      for (const [pipeId, seq] of pipes) this.#pipes.get(pipeId)?.committed(seq)
    })
    feed.onDropped(() => {
      this.#notifyDropped()
      // A reader can see dropped files slightly later than the writer.
      clock.wake(readerLagMs, () => this.#notifyDropped())
    })
    feed.onErased(() => {
      this.#notifyErased()
      clock.wake(readerLagMs, () => this.#notifyErased())
    })
    feed.onReportWanted(() => this.#reportLowWatermarks())
    const onFatal = (error: unknown) => this.#failed(error)
    ownership.onGained((pipeId) => {
      // Limited, because a node that ended can leave thousands of pipes.
      this.#opening.run(() => this.#retryUntilAvailable(() => this.#refresh(pipeId))).catch(onFatal)
    })
    ownership.onLost((pipeId) => {
      // Done immediately, because metadata, which is read below, may not respond.
      this.#pipes.get(pipeId.toLowerCase())?.handOverAll()
      this.#retryUntilAvailable(() => this.#refresh(pipeId)).catch(onFatal)
    })
    ownership.onReleased((pipeId, graceMs) => this.#inTurn(pipeId, (pipe) => this.#release(pipe, graceMs)))
    const pipes = (await this.#retryUntilAvailable(() => source.allPipes())) ?? []
    await Promise.all(pipes.map((pipe) => this.#opening.run(() => this.#open(pipe))))
    const existing = new Set(pipes.map(({ pipeId }) => pipeId))
    await this.#retryUntilAvailable(() => this.#reportDeleted(existing))
    this.#report()
    this.#lookLater()
  }

  /**
   * Reports pipes that were deleted while this process did not run. Only metadata decides that a pipe is deleted. A pipe
   * that metadata does not know at all can be missing by mistake, so its messages stay in the buffer until they are too
   * old.
   */
  async #reportDeleted(existing: ReadonlySet<string>): Promise<void> {
    const { source, log } = this.#options
    const deleted = new Set(await source.deletedPipes())
    const inBuffer = await this.reader.pipeIds()
    for (const pipeId of inBuffer) {
      if (existing.has(pipeId)) continue
      if (deleted.delete(pipeId)) await this.refresh(pipeId)
      else log.warn({ pipe_id: pipeId }, 'buffer.unknown_pipe')
    }
    // The other pipes have no messages left here.
    if (deleted.size > 0) await source.forgetDeletedPipes([...deleted])
  }

  get budget(): MemoryBudget {
    return this.#opener.budget
  }

  get observed(): AttemptsObserved {
    return this.#opener.observed
  }

  columnFailure(destinationId: string): ColumnFailure | null {
    return this.#options.steps.columns?.failureOf(destinationId) ?? null
  }

  get drift(): DriftWatch {
    return this.#options.steps.drift
  }

  /** For lanes' own work: it waits while the buffer cannot be read. */
  get reader(): BufferReader {
    return this.#opener.reader
  }

  lane(destinationId: string): Lane | undefined {
    return this.#lanes.get(destinationId.toLowerCase())
  }

  lanes(): Iterable<Lane> {
    return this.#lanes.values()
  }

  lanesOf(pipeId: string): Lane[] {
    return this.#pipes.get(pipeId.toLowerCase())?.lanes() ?? []
  }

  /** The pipes that this process owns, with or without lanes. */
  *pipeIds(): Iterable<string> {
    for (const pipe of this.#pipes.values()) if (pipe.isOwned) yield pipe.pipeId
  }

  /** True when all lanes of the pipe run here, which includes a pipe without destinations. */
  runs(pipeId: string): boolean {
    return this.#pipes.get(pipeId.toLowerCase())?.isComplete ?? false
  }

  /** The pipe's newest message that is known without a query; at most a few seconds old. */
  headSeq(pipeId: string): number {
    return Math.max(this.#pipes.get(pipeId)?.committedSeq ?? 0, this.#heads.pipes.get(pipeId) ?? 0)
  }

  /** See `PipeLanes`. Null for a pipe that is not owned. */
  retentionHours(pipeId: string): number | null {
    return this.#pipes.get(pipeId)?.retentionHours ?? null
  }

  /** Metadata of this pipe changed. A new pipe gets its owner first. */
  async refresh(pipeId: string): Promise<void> {
    await this.#options.ownership.changed(pipeId)
    try {
      await this.#refresh(pipeId)
    } catch (error) {
      // The caller gets the error immediately. The change was stored, so lanes must apply it even if the caller does not
      // ask again.
      if (isUnavailable(error))
        this.#retryUntilAvailable(() => this.#refresh(pipeId)).catch((err) => this.#failed(err))
      throw error
    }
  }

  #refresh(pipeId: string): Promise<void> {
    return this.#inTurn(pipeId, async (pipe) => {
      if (!this.#isClosing) await this.#reconcile(pipe, await this.#options.source.pipe(pipe.pipeId))
    })
  }

  /** Opens a pipe as it was read at the start. If the pipe is already owned or was tried, metadata is read again. */
  async #open(wanted: PipeLanes): Promise<void> {
    let isTried = false
    await this.#retryUntilAvailable(() => {
      if (isTried) return this.#refresh(wanted.pipeId)
      isTried = true
      return this.#inTurn(wanted.pipeId, async (pipe) => {
        // A pipe gained in the meantime was read later.
        if (!this.#isClosing && !pipe.isOwned) await this.#reconcile(pipe, wanted)
      })
    })
  }

  async #reconcile(pipe: OwnedPipe, wanted: PipeLanes | null): Promise<void> {
    const isOwned = this.#options.ownership.owned(pipe.pipeId) !== null
    if (wanted !== null && isOwned) {
      this.#workspaceId ??= wanted.workspaceId
      if (this.#workspaceId !== wanted.workspaceId) this.budget.share()
    }
    await pipe.reconcile(wanted)
    if (pipe.isOwned) this.#hasMoved = true
  }

  async #release(pipe: OwnedPipe, graceMs: number): Promise<void> {
    if (!this.#isClosing) await pipe.release(graceMs)
  }

  /** Runs work on one pipe in that pipe's queue. */
  async #inTurn(givenId: string, work: (pipe: OwnedPipe) => Promise<void>): Promise<void> {
    const pipeId = givenId.toLowerCase()
    const pipe = this.#pipes.get(pipeId) ?? this.#newPipe(pipeId)
    this.#pipes.set(pipeId, pipe)
    try {
      await pipe.inTurn(() => work(pipe))
    } finally {
      if (pipe.isIdle) this.#pipes.delete(pipeId)
    }
  }

  #newPipe(pipeId: string): OwnedPipe {
    return new OwnedPipe(pipeId, {
      ownership: this.#options.ownership,
      openLane: (spec, epoch) => this.#opener.open(spec, epoch),
      onAdded: (lane) => this.#start(lane),
      onForgotten: (lane) => this.#lanes.delete(lane.spec.destinationId),
      onGone: (id) => this.#pipeGone(id),
      log: this.#options.log,
    })
  }

  #start(lane: Lane): void {
    if (this.#endsPulls) lane.consumers?.endPulls()
    this.#lanes.set(lane.spec.destinationId, lane)
    lane.start().then(
      () => this.#ended(lane),
      (error) => this.#failed(error),
    )
  }

  /** While the set closes, ended lanes stay in it, because the last report uses their cursors. */
  #ended(lane: Lane): void {
    if (this.#isClosing) return
    const { spec } = lane
    this.#pipes.get(spec.pipeId)?.forget(lane)
    if (!this.#lanes.has(spec.destinationId)) {
      this.drift.laneGone(spec.destinationId)
      this.#options.steps.columns?.laneGone(spec.destinationId)
    }
    this.#options.onLaneGone?.(spec, !this.#hasLaneOf(spec.workspaceId))
  }

  /** Stops at the first match and copies nothing, because thousands of lanes can end together. */
  #hasLaneOf(workspaceId: string): boolean {
    for (const { spec } of this.#lanes.values()) if (spec.workspaceId === workspaceId) return true
    return false
  }

  /**
   * Purging is final, so only metadata decides that a pipe is deleted; any node can forward that. A pipe that metadata
   * does not know can be missing by mistake, for example after a failover to a standby that lagged. Its messages stay
   * until they are too old.
   */
  async #pipeGone(pipeId: string): Promise<void> {
    const { source, feed, log } = this.#options
    if ((await source.deletedPipes()).includes(pipeId)) feed.pipeDeleted(pipeId)
    else log.warn({ pipe_id: pipeId }, 'buffer.unknown_pipe')
  }

  endPulls(): void {
    this.#endsPulls = true
    for (const lane of this.#lanes.values()) lane.consumers?.endPulls()
  }

  /** Attempts under way get `graceMs` to finish; every row is saved when this resolves. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    this.#opener.stopWaiting()
    for (const end of this.#waits) end()
    // In parallel: a change that waits for metadata must not use up the time in which lanes can end.
    const queues = [...this.#pipes.values()].map((pipe) => pipe.settled())
    await Promise.all([this.#closeLanes(graceMs), ...queues])
    // Lanes that were opened meanwhile.
    await this.#closeLanes(0)
    await this.#opener.drain()
    this.#cancelReport?.()
    this.#cancelLook?.()
    this.#reportLowWatermarks()
  }

  async #closeLanes(graceMs: number): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.end('closed', graceMs)))
  }

  /**
   * Retries each second while metadata cannot be reached, because no caller would ask again. Null: the set is closing.
   * Other work of the pipe runs between two tries, so a pipe that is lost meanwhile is dropped by the next try.
   */
  async #retryUntilAvailable<T>(work: () => Promise<T>): Promise<T | null> {
    let isWaiting = false
    while (!this.#isClosing) {
      try {
        return await work()
      } catch (err) {
        if (!isUnavailable(err)) throw err
        if (!isWaiting) this.#options.log.warn({ err }, 'lanes.open_delayed')
        isWaiting = true
      }
      await this.#wait(reopenAfterMs)
    }
    return null
  }

  #wait(ms: number): Promise<void> {
    if (this.#isClosing) return Promise.resolve()
    return new Promise((resolve) => {
      const end = () => {
        this.#waits.delete(end)
        cancel()
        resolve()
      }
      const cancel = this.#options.clock.wake(ms, end)
      this.#waits.add(end)
    })
  }

  /** While the set closes, an unavailable buffer is no error. */
  #failed(error: unknown): void {
    if (this.#isClosing && error instanceof BufferReadUnavailableError) return
    this.#options.onFatal(error)
  }

  #lookLater(): void {
    this.#cancelLook = this.#options.clock.wake(pollIntervalMs, () => {
      this.#lookForMissed().catch((error) => this.#failed(error))
    })
  }

  async #lookForMissed(): Promise<void> {
    const newer = await this.reader.heads(this.#heads.newestSeq)
    if (this.#isClosing) return
    if (newer !== null) this.#heads = newer
    // Done even without new messages: a lane can have been notified too early.
    for (const lane of this.#lanes.values()) lane.notifyHead(this.#heads.pipes.get(lane.spec.pipeId) ?? 0)
    this.#failing.look(this.#lanes)
    this.#lookLater()
  }

  #notifyErased(): void {
    for (const lane of this.#lanes.values()) lane.notifyErased()
  }

  #notifyDropped(): void {
    for (const lane of this.#lanes.values()) lane.notifyDropped()
  }

  /** Called every two seconds. Sends a report when a cursor moved, otherwise every five seconds. */
  #report(): void {
    const { clock } = this.#options
    const isDue = this.#hasMoved || clock.monotonicMs() - this.#reportedAt >= reportAnywayMs
    if (isDue) this.#reportLowWatermarks()
    this.#cancelReport = clock.wake(reportAfterMoveMs, () => this.#report())
  }

  #reportLowWatermarks(): void {
    this.#hasMoved = false
    this.#reportedAt = this.#options.clock.monotonicMs()
    const watermarks: LowWatermark[] = []
    for (const pipe of this.#pipes.values()) {
      const watermark = pipe.lowWatermark()
      if (watermark !== null) watermarks.push({ pipeId: pipe.pipeId, ...watermark })
    }
    this.#options.feed.reportLowWatermarks(watermarks)
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StorageUnavailableError || error instanceof LaneStoreUnavailableError
}
