/**
 * All lanes of the pipes that this process owns: opened, changed and ended by metadata and ownership, notified by
 * the buffer's feed, and reported to it.
 *
 * `owned-pipe.ts` has everything that concerns one pipe, with what may interleave there. A pipe has its entry here from its first queued
 * work until it is neither owned nor has work queued; `#lanes` finds the lanes of all entries by destination.
 *
 * Retention goes by the low watermarks reported here, so they are made of saved cursors only: what a restart would begin
 * with. A pipe without lanes reports 0, since its messages wait for one.
 *
 * A lane at rest has no timer. A notification can be lost, or come too early to see the message: then the lane's cursor is behind
 * its pipe's newest message. All of them are compared every five seconds, with one read of the buffer.
 */
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
import type { AttemptsObserved } from './attempts-observed.ts'
import { pollIntervalMs } from './clock.ts'
import { FailingLanes } from './failing-lanes.ts'
import type { Lane } from './lane.ts'
import { LaneOpener, type LaneOpenerOptions } from './lane-opener.ts'
import type { MemoryBudget } from './memory-budget.ts'
import { OwnedPipe } from './owned-pipe.ts'

export interface LaneSetOptions extends LaneOpenerOptions {
  source: LaneSource
  ownership: LaneOwnership
  feed: BufferFeed
  /** A lane has ended here: deleted, or another owner has it. `isLast`: its workspace has no other. */
  onLaneGone?(spec: LaneSpec, isLast: boolean): void
  /** A lane stopped unexpectedly: the thread cannot continue. */
  onFatal(error: unknown): void
}

/** At most this often after a cursor moved, and this often anyway. */
const reportAfterMoveMs = 2_000
const reportAnywayMs = 5_000
const readerLagMs = 1_000
/** Pipes: their lanes are loaded over the few connections that a thread has. */
const openedAtOnce = 8
const openAgainMs = 1_000

export class LaneSet {
  readonly #options: LaneSetOptions
  readonly #opener: LaneOpener
  readonly #failing: FailingLanes
  readonly #pipes = new Map<string, OwnedPipe>()
  readonly #lanes = new Map<string, Lane>()
  readonly #opening = new Semaphore(openedAtOnce)
  /** Ends each wait for metadata. */
  readonly #waits = new Set<() => void>()
  #cancelReport: (() => void) | null = null
  #cancelLook: (() => void) | null = null
  #heads: Heads = { newestSeq: 0, pipes: new Map() }
  /** The first one that had a pipe here. */
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
      // A reader may notice a little later than the writer that files are gone.
      clock.wake(readerLagMs, () => this.#notifyDropped())
    })
    feed.onReportWanted(() => this.#reportLowWatermarks())
    const onFatal = (error: unknown) => this.#failed(error)
    ownership.onGained((pipeId) => {
      // A node that ended may leave thousands.
      this.#opening.run(() => this.#patiently(() => this.#refresh(pipeId))).catch(onFatal)
    })
    ownership.onLost((pipeId) => {
      // At once: metadata, which is asked below, may be what does not respond.
      this.#pipes.get(pipeId.toLowerCase())?.handOverAll()
      this.#patiently(() => this.#refresh(pipeId)).catch(onFatal)
    })
    ownership.onReleased((pipeId, graceMs) => this.#inTurn(pipeId, (pipe) => this.#release(pipe, graceMs)))
    const pipes = (await this.#patiently(() => source.allPipes())) ?? []
    await Promise.all(pipes.map((pipe) => this.#opening.run(() => this.#open(pipe))))
    const existing = new Set(pipes.map(({ pipeId }) => pipeId))
    await this.#patiently(() => this.#reportDeleted(existing))
    this.#report()
    this.#lookLater()
  }

  /**
   * Reports pipes that were deleted while this process did not run. Only metadata decides that a pipe is deleted: one that it does
   * not know at all may be missing there by mistake, and its messages in the buffer wait until they are too old.
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
    // The others have no message here any more.
    if (deleted.size > 0) await source.forgetDeletedPipes([...deleted])
  }

  get budget(): MemoryBudget {
    return this.#opener.budget
  }

  get observed(): AttemptsObserved {
    return this.#opener.observed
  }

  /** For the work of a lane itself: it waits while the buffer cannot be read. */
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

  /** The pipes that this process owns, with and without lanes. */
  *pipeIds(): Iterable<string> {
    for (const pipe of this.#pipes.values()) if (pipe.isOwned) yield pipe.pipeId
  }

  /** All lanes of the pipe run here; true also for a pipe without destinations. */
  runs(pipeId: string): boolean {
    return this.#pipes.get(pipeId.toLowerCase())?.isComplete ?? false
  }

  /** The newest message of the pipe that is known without a query: at most a few seconds old. */
  headSeq(pipeId: string): number {
    return Math.max(this.#pipes.get(pipeId)?.committedSeq ?? 0, this.#heads.pipes.get(pipeId) ?? 0)
  }

  /** Metadata of this pipe changed; a new one gets its owner first. */
  async refresh(pipeId: string): Promise<void> {
    await this.#options.ownership.changed(pipeId)
    try {
      await this.#refresh(pipeId)
    } catch (error) {
      // The caller is told at once. The change was made: lanes learn of it even if the caller does not ask again.
      if (isUnavailable(error)) this.#patiently(() => this.#refresh(pipeId)).catch((err) => this.#failed(err))
      throw error
    }
  }

  #refresh(pipeId: string): Promise<void> {
    return this.#inTurn(pipeId, async (pipe) => {
      if (!this.#isClosing) await this.#reconcile(pipe, await this.#options.source.pipe(pipe.pipeId))
    })
  }

  /** Opens a pipe as it was read at the start. Once the pipe is owned or was tried, metadata is read again. */
  async #open(wanted: PipeLanes): Promise<void> {
    let isTried = false
    await this.#patiently(() => {
      if (isTried) return this.#refresh(wanted.pipeId)
      isTried = true
      return this.#inTurn(wanted.pipeId, async (pipe) => {
        // A pipe that was gained in the meantime was read later.
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

  /** Work on one pipe runs in its queue. */
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

  /** While the set closes, lanes that have ended stay: the last report is made of their cursors. */
  #ended(lane: Lane): void {
    if (this.#isClosing) return
    const { spec } = lane
    this.#pipes.get(spec.pipeId)?.forget(lane)
    this.#options.onLaneGone?.(spec, !this.#hasLaneOf(spec.workspaceId))
  }

  /** Ends at the first lane that is found and copies nothing: thousands of lanes can go at once. */
  #hasLaneOf(workspaceId: string): boolean {
    for (const { spec } of this.#lanes.values()) if (spec.workspaceId === workspaceId) return true
    return false
  }

  /**
   * Purging is final, so only metadata decides that a pipe is deleted; any node can forward that. A pipe that metadata does not know may be
   * missing there by mistake, after a failover to a standby that lagged: its messages wait until they are too old.
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

  /** Attempts under way get `graceMs`; every row is saved when this resolves. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    this.#opener.stopWaiting()
    for (const end of this.#waits) end()
    // Not one after the other: a change that waits for metadata must not take the time that lanes have to end.
    const queues = [...this.#pipes.values()].map((pipe) => pipe.settled())
    await Promise.all([this.#closeLanes(graceMs), ...queues])
    // Those that were opened meanwhile.
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
   * Again each second while metadata cannot be reached: what is loaded here has no caller who could ask again. Null: the set closes.
   * Between two tries the pipe's other work has its turn, so a pipe that is lost meanwhile is forgotten by the next try.
   */
  async #patiently<T>(work: () => Promise<T>): Promise<T | null> {
    let isWaiting = false
    while (!this.#isClosing) {
      try {
        return await work()
      } catch (err) {
        if (!isUnavailable(err)) throw err
        if (!isWaiting) this.#options.log.warn({ err }, 'lanes.open_waits')
        isWaiting = true
      }
      await this.#wait(openAgainMs)
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

  /** While the set closes, a buffer that does not respond keeps no one waiting. */
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
    // Where nothing is new too: a lane may have been notified too early.
    for (const lane of this.#lanes.values()) lane.notifyHead(this.#heads.pipes.get(lane.spec.pipeId) ?? 0)
    this.#failing.look(this.#lanes)
    this.#lookLater()
  }

  #notifyDropped(): void {
    for (const lane of this.#lanes.values()) lane.notifyDropped()
  }

  /** Checks every two seconds; sends when something moved, else every five. */
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
