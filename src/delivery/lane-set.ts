/**
 * All lanes of the pipes that this process owns: opened, changed and ended by metadata and ownership, notified by
 * the buffer's feed, and reported to it.
 *
 * Retention goes by the low watermarks reported here, so they are made of saved cursors only: what a restart would begin
 * with. A pipe without lanes reports 0, since its messages wait for one.
 *
 * A lane at rest has no timer. Whatever made a notification come to nothing (it was lost, it came too early to see
 * the message), the lane's cursor is behind its pipe's newest message: all of them are compared every five seconds, with
 * one look into the buffer.
 */
import assert from 'node:assert'
import type { Epoch } from '../contract/epochs.ts'
import type { DestinationDriver } from '../destinations/driver.ts'
import {
  type BufferFeed,
  type BufferReader,
  BufferReadUnavailableError,
  type Heads,
  type LowWatermark,
} from '../log/buffer.ts'
import type { LaneOwnership } from '../metadata/lane-ownership.ts'
import {
  LaneOwnershipLostError,
  type LaneSource,
  type LaneSpec,
  type LaneState,
  LaneStateDamagedError,
  type LaneStore,
  LaneStoreUnavailableError,
  type PipeLanes,
} from '../metadata/lane-state.ts'
import type { AttemptedRange, ParkedStore } from '../metadata/parked-store-port.ts'
import { AtMost } from '../platform/at-most.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'
import { AttemptsObserved } from './attempts-observed.ts'
import { type Clock, pollIntervalMs } from './clock.ts'
import { EventLoopTurns } from './event-loop-turns.ts'
import { FailingLanes } from './failing-lanes.ts'
import type { Lane } from './lane.ts'
import type { LaneDeps } from './lane-deps.ts'
import { namesOf } from './lane-log.ts'
import { LaneSaver } from './lane-saver.ts'
import { MemoryBudget } from './memory-budget.ts'
import { ParkedRoom, Parking } from './parking.ts'
import { PatientReader, ReadOutage } from './patient-reader.ts'
import { PullLane } from './pull-lane.ts'
import { PushLane } from './push-lane.ts'
import { afterStateDamaged, newLaneState } from './transitions.ts'

export interface LaneSetOptions {
  source: LaneSource
  store: LaneStore
  ownership: LaneOwnership
  reader: BufferReader
  feed: BufferFeed
  /** `epoch`: of the ownership under which the lane was opened. */
  openDriver(spec: LaneSpec, epoch: number): DestinationDriver
  clock: Clock
  random(): number
  log: Logger
  maxInFlightBytes: number
  epochs: readonly Epoch[]
  parked: { store: ParkedStore; maxBytes: number }
  /** A lane was removed here: deleted, or another owner has it. `isLast`: its workspace has no other. */
  onLaneGone?(spec: LaneSpec, isLast: boolean): void
  /** A lane stopped unexpectedly: the thread cannot go on. */
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
  readonly budget: MemoryBudget
  readonly observed = new AttemptsObserved()
  readonly #options: LaneSetOptions
  readonly #pullTurns = new EventLoopTurns()
  readonly #saver: LaneSaver
  readonly #outage: ReadOutage
  readonly #reader: PatientReader
  readonly #parkedRoom: ParkedRoom
  readonly #failing: FailingLanes
  /** Pipe → its lanes, by destination; a pipe without any has an empty map. */
  readonly #pipes = new Map<string, Map<string, Lane>>()
  readonly #workspaces = new Map<string, string>()
  /** Under which the lanes of a pipe were opened. */
  readonly #epochs = new Map<string, number>()
  /** Pipes whose lanes are not all opened yet. */
  readonly #unfinished = new Set<string>()
  /** Ends each wait for metadata. */
  readonly #waits = new Set<() => void>()
  /** Pipes of which a lane is another owner's: soon the whole pipe is. */
  readonly #incomplete = new Set<string>()
  /** Lanes of pipes that another process gets: they finish what is under way. */
  readonly #releasing = new Map<string, readonly Lane[]>()
  readonly #opening = new AtMost(openedAtOnce)
  readonly #lanes = new Map<string, Lane>()
  /** By pipe: the last of its changes that are still being applied. */
  readonly #reconciling = new Map<string, Promise<void>>()
  #cancelReport: (() => void) | null = null
  #cancelLook: (() => void) | null = null
  #heads: Heads = { newestSeq: 0, pipes: new Map() }
  /** By pipe with lanes: the newest message that the feed told of. */
  readonly #committedSeqs = new Map<string, number>()
  #hasMoved = false
  #reportedAt = 0
  #isClosing = false
  #endsPulls = false

  constructor(options: LaneSetOptions) {
    this.#options = options
    this.budget = new MemoryBudget(options.maxInFlightBytes)
    this.#saver = new LaneSaver(options.store, options.clock, options.log)
    this.#outage = new ReadOutage(options.clock, options.log)
    this.#reader = new PatientReader(options.reader, options.clock, this.#outage)
    this.#parkedRoom = new ParkedRoom(options.parked.store, options.parked.maxBytes)
    this.#failing = new FailingLanes(options.clock, options.log)
  }

  /** Loads and starts every lane. */
  async open(): Promise<void> {
    const { feed, source, ownership, clock } = this.#options
    feed.onCommitted((pipes) => {
      for (const [pipeId, seq] of pipes) this.#committed(pipeId, seq)
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
      // At once: metadata, which is asked below, may be what does not answer. Those that were being released have no time left either.
      const lanes = [...this.lanesOf(pipeId), ...(this.#releasing.get(pipeId) ?? [])]
      for (const lane of lanes) lane.handOver().catch(onFatal)
      this.#patiently(() => this.#refresh(pipeId)).catch(onFatal)
    })
    ownership.onReleased((pipeId, graceMs) => this.#release(pipeId.toLowerCase(), graceMs))
    const pipes = (await this.#patiently(() => source.allPipes())) ?? []
    const open = (pipe: PipeLanes) => this.#patiently(() => this.#inTurn(pipe.pipeId, () => this.#open(pipe)))
    await Promise.all(pipes.map((pipe) => this.#opening.run(() => open(pipe))))
    const existing = new Set(pipes.map(({ pipeId }) => pipeId))
    await this.#patiently(() => this.#reportDeleted(existing))
    this.#report()
    this.#lookLater()
  }

  /**
   * Pipes that were deleted while this process did not run: by metadata's own word. One that metadata does not know at
   * all may be missing there by mistake, and what the buffer holds of it waits until it is too old.
   */
  async #reportDeleted(existing: ReadonlySet<string>): Promise<void> {
    const { source, log } = this.#options
    const deleted = new Set(await source.deletedPipes())
    const inBuffer = await this.#reader.pipeIds()
    for (const pipeId of inBuffer) {
      if (existing.has(pipeId)) continue
      if (deleted.delete(pipeId)) await this.refresh(pipeId)
      else log.warn({ pipe_id: pipeId }, 'buffer.unknown_pipe')
    }
    // What is left has no message here any more.
    if (deleted.size > 0) await source.forgetDeletedPipes([...deleted])
  }

  /** For what a lane itself does when it is asked to: it waits while the buffer cannot be read. */
  get reader(): BufferReader {
    return this.#reader
  }

  lane(destinationId: string): Lane | undefined {
    return this.#lanes.get(destinationId.toLowerCase())
  }

  lanes(): Iterable<Lane> {
    return this.#lanes.values()
  }

  lanesOf(pipeId: string): Lane[] {
    return [...(this.#pipes.get(pipeId.toLowerCase())?.values() ?? [])]
  }

  /** Of the pipes that this process owns, whether they have lanes or not. */
  pipeIds(): Iterable<string> {
    return this.#pipes.keys()
  }

  /** All lanes of the pipe are there, should it have any. */
  runs(pipeId: string): boolean {
    const id = pipeId.toLowerCase()
    return this.#pipes.has(id) && !this.#unfinished.has(id)
  }

  /** The newest message of the pipe that is known of without a query: at most a few seconds old. */
  headSeq(pipeId: string): number {
    return Math.max(this.#committedSeqs.get(pipeId) ?? 0, this.#heads.pipes.get(pipeId) ?? 0)
  }

  /** Metadata of this pipe changed; a new one gets its owner first. */
  async refresh(pipeId: string): Promise<void> {
    await this.#options.ownership.changed(pipeId)
    try {
      await this.#refresh(pipeId)
    } catch (error) {
      // The caller is told at once. The change was made: lanes get to know of it even if the caller does not ask again.
      if (isUnavailable(error)) this.#patiently(() => this.#refresh(pipeId)).catch((err) => this.#failed(err))
      throw error
    }
  }

  #refresh(givenId: string): Promise<void> {
    const pipeId = givenId.toLowerCase()
    return this.#inTurn(pipeId, async () => {
      if (!this.#isClosing) await this.#reconcile(pipeId, await this.#options.source.pipe(pipeId))
    })
  }

  /** Unless it was gained and opened in the meantime: that was read later. */
  async #open(pipe: PipeLanes): Promise<void> {
    if (!this.#isClosing && !this.runs(pipe.pipeId)) await this.#reconcile(pipe.pipeId, pipe)
  }

  /** Another process gets the pipe when this resolves: what its lanes did is saved. */
  #release(pipeId: string, graceMs: number): Promise<void> {
    return this.#inTurn(pipeId, async () => {
      if (this.#isClosing || this.#options.ownership.owned(pipeId) !== null) return
      const lanes = this.lanesOf(pipeId)
      for (const lane of lanes) this.#forget(lane)
      this.#forgetPipe(pipeId)
      this.#releasing.set(pipeId, lanes)
      await Promise.all(lanes.map((lane) => lane.close(graceMs)))
      this.#releasing.delete(pipeId)
    })
  }

  /** What concerns one pipe runs one after the other: the last state read is the one in force. */
  #inTurn(pipeId: string, work: () => Promise<void>): Promise<void> {
    const done = (this.#reconciling.get(pipeId) ?? Promise.resolve()).then(work)
    const settled = done
      .catch(() => {})
      .then(() => {
        if (this.#reconciling.get(pipeId) === settled) this.#reconciling.delete(pipeId)
      })
    this.#reconciling.set(pipeId, settled)
    return done
  }

  endPulls(): void {
    this.#endsPulls = true
    for (const lane of this.#lanes.values()) lane.consumers?.endPulls()
  }

  /** Attempts under way get `graceMs`; every row is saved when this resolves. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    this.#saver.stopWaiting()
    this.#reader.stopWaiting()
    for (const end of this.#waits) end()
    // Not one after the other: a change that waits for metadata must not take the time that lanes have to end.
    await Promise.all([this.#closeLanes(graceMs), ...this.#reconciling.values()])
    // Those that were opened meanwhile.
    await this.#closeLanes(0)
    await this.#saver.drain()
    this.#cancelReport?.()
    this.#cancelLook?.()
    this.#reportLowWatermarks()
  }

  async #closeLanes(graceMs: number): Promise<void> {
    await Promise.all([...this.#lanes.values()].map((lane) => lane.close(graceMs)))
  }

  async #reconcile(pipeId: string, pipe: PipeLanes | null): Promise<void> {
    const epoch = this.#options.ownership.owned(pipeId)
    const known = this.#pipes.get(pipeId) ?? new Map<string, Lane>()
    const wanted = new Map((pipe?.lanes ?? []).map((spec) => [spec.destinationId, spec]))
    // Lost and gained again before the loss was seen to: these lanes can save nothing any more.
    const isOurs = epoch !== null && (this.#epochs.get(pipeId) ?? epoch) === epoch
    for (const [destinationId, lane] of known) {
      const spec = wanted.get(destinationId)
      if (isOurs && spec !== undefined && spec.type === lane.spec.type) continue
      this.#forget(lane)
      if (!isOurs) await lane.handOver()
      else await lane.remove()
    }
    if (pipe === null || epoch === null) {
      this.#forgetPipe(pipeId)
      // What another owner has is unknown here, not deleted.
      if (pipe === null) await this.#pipeGone(pipeId)
      return
    }
    this.#epochs.set(pipeId, epoch)
    this.#incomplete.delete(pipeId)
    // Not reported before all its lanes are there: the pipe's low watermark is the smallest of all their cursors.
    if (!this.#pipes.has(pipeId)) this.#unfinished.add(pipeId)
    // Known from the first lane on: after a failure below, the next try goes on with those that run.
    this.#pipes.set(pipeId, known)
    try {
      await this.#openLanes(known, wanted, epoch)
    } catch (error) {
      this.#incomplete.add(pipeId)
      throw error
    }
    this.#unfinished.delete(pipeId)
    const [someWorkspace = pipe.workspaceId] = this.#workspaces.values()
    if (someWorkspace !== pipe.workspaceId) this.budget.share()
    this.#workspaces.set(pipeId, pipe.workspaceId)
    this.#hasMoved = true
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

  async #openLanes(
    known: Map<string, Lane>,
    wanted: ReadonlyMap<string, LaneSpec>,
    epoch: number,
  ): Promise<void> {
    for (const [destinationId, spec] of wanted) {
      const lane = known.get(destinationId)
      if (lane === undefined) await this.#addLane(known, spec, epoch)
      else if (lane.spec.revision !== spec.revision) await lane.reconfigure(spec)
    }
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

  async #addLane(lanes: Map<string, Lane>, spec: LaneSpec, epoch: number): Promise<void> {
    try {
      lanes.set(spec.destinationId, await this.#openLane(spec, epoch))
    } catch (error) {
      if (!(error instanceof LaneOwnershipLostError)) throw error
      this.#incomplete.add(spec.pipeId)
      this.#options.log.warn(namesOf(spec), 'lane.ownership_lost')
    }
  }

  #forgetPipe(pipeId: string): void {
    this.#pipes.delete(pipeId)
    this.#workspaces.delete(pipeId)
    this.#committedSeqs.delete(pipeId)
    this.#epochs.delete(pipeId)
    this.#incomplete.delete(pipeId)
    this.#unfinished.delete(pipeId)
  }

  async #openLane(spec: LaneSpec, epoch: number): Promise<Lane> {
    const row = await this.#relocated(spec, await this.#take(spec, epoch))
    const opening = { epoch, attempted: attemptedRange(row) }
    const parking = await Parking.open(spec, opening, this.#options.parked.store, this.#parkedRoom)
    const deps = this.#depsOf(spec.pipeId, epoch, parking)
    const lane =
      spec.type === 'destination_pull' ? new PullLane(spec, row, deps) : new PushLane(spec, row, deps)
    if (this.#endsPulls) lane.consumers?.endPulls()
    this.#lanes.set(spec.destinationId, lane)
    lane.start().then(
      () => this.#ended(lane),
      (error) => this.#failed(error),
    )
    return lane
  }

  async #take(spec: LaneSpec, epoch: number): Promise<LaneState> {
    const { store, log } = this.#options
    const { destinationId } = spec
    try {
      return (await store.take(destinationId, epoch)) ?? newLaneState(destinationId)
    } catch (error) {
      if (!(error instanceof LaneStateDamagedError)) throw error
      const row = { ...afterStateDamaged(error.found, this.#options.clock.now()), ownerEpoch: epoch }
      await store.repair(row)
      log.error(namesOf(spec), 'lane.state_damaged')
      return (await store.take(destinationId, epoch)) ?? row
    }
  }

  /** A lane that has seen more than the log holds would wait until the log has caught up with it: it counts anew. */
  async #relocated(spec: LaneSpec, row: LaneState): Promise<LaneState> {
    const { pipeId } = spec
    const { cursorSeq, cursorMark } = row
    if (cursorMark === null) return row
    const { log } = this.#options
    const { cursor, missing } = await this.#reader.relocate(pipeId, { seq: cursorSeq, mark: cursorMark })
    if (missing === 0) return row
    const { seq } = await this.#reader.cursorAt(pipeId, cursorSeq)
    log.error(
      {
        ...namesOf(spec),
        ...{ missing_messages: missing, first_seq: seq + 1, last_seq: cursorSeq },
      },
      'buffer.behind_lanes',
    )
    return { ...row, cursorMark: cursor.mark }
  }

  /**
   * Unless it was asked to end: another owner has it. Its cursor is no longer known here, so neither is what of its pipe is done
   * with.
   */
  #ended(lane: Lane): void {
    if (this.#isClosing) return
    const { destinationId, pipeId } = lane.spec
    if (this.#pipes.get(pipeId)?.get(destinationId) === lane) this.#incomplete.add(pipeId)
    this.#forget(lane)
  }

  #forget(lane: Lane): void {
    const { destinationId, pipeId } = lane.spec
    if (this.#lanes.get(destinationId) === lane) this.#lanes.delete(destinationId)
    const lanes = this.#pipes.get(pipeId)
    if (lanes?.get(destinationId) === lane) lanes.delete(destinationId)
    this.#options.onLaneGone?.(lane.spec, !this.#hasLaneOf(lane.spec.workspaceId))
  }

  /** Ends at the first lane that is found and copies nothing: thousands of lanes can go at once. */
  #hasLaneOf(workspaceId: string): boolean {
    for (const { spec } of this.#lanes.values()) if (spec.workspaceId === workspaceId) return true
    return false
  }

  #depsOf(pipeId: string, epoch: number, parking: Parking): LaneDeps {
    const { reader, openDriver, clock, random, log, epochs, ownership } = this.#options
    // Of each lane its own: one that ends waits for nothing.
    return {
      isOwned: () => ownership.holds(pipeId, epoch),
      reader: new PatientReader(reader, clock, this.#outage),
      viewReader: reader,
      openDriver: (spec) => openDriver(spec, epoch),
      clock,
      random,
      log,
      epoch,
      epochs,
      parking,
      budget: this.budget,
      observed: this.observed,
      pullTurns: this.#pullTurns,
      save: (row, counts, parked) => this.#saver.save(row, counts, parked),
      onSaved: () => {
        this.#hasMoved = true
      },
    }
  }

  /** While it ends, a buffer that does not answer keeps nobody waiting. */
  #failed(error: unknown): void {
    if (this.#isClosing && error instanceof BufferReadUnavailableError) return
    this.#options.onFatal(error)
  }

  #committed(pipeId: string, seq: number): void {
    const lanes = this.#pipes.get(pipeId)
    if (lanes === undefined) return
    this.#committedSeqs.set(pipeId, seq)
    for (const lane of lanes.values()) lane.notify()
  }

  #lookLater(): void {
    this.#cancelLook = this.#options.clock.wake(pollIntervalMs, () => {
      this.#lookForMissed().catch((error) => this.#failed(error))
    })
  }

  async #lookForMissed(): Promise<void> {
    const newer = await this.#reader.heads(this.#heads.newestSeq)
    if (this.#isClosing) return
    if (newer !== null) this.#heads = newer
    // Also where nothing is new: a lane may have been notified in vain.
    for (const [pipeId, lanes] of this.#pipes) {
      const headSeq = this.#heads.pipes.get(pipeId) ?? 0
      for (const lane of lanes.values()) lane.notifyHead(headSeq)
    }
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
    for (const [pipeId, lanes] of this.#pipes) {
      const epoch = this.#epochs.get(pipeId)
      assert(epoch !== undefined)
      // One who no longer owns it may know less than its owner: a destination that was added, a rewind.
      if (this.#incomplete.has(pipeId) || !this.runs(pipeId) || !this.#options.ownership.holds(pipeId, epoch))
        continue
      const cursors = [...lanes.values()].map((lane) => lane.savedCursorSeq)
      const workspaceId = this.#workspaces.get(pipeId)
      assert(workspaceId !== undefined)
      watermarks.push({ pipeId, workspaceId, seq: cursors.length === 0 ? 0 : Math.min(...cursors) })
    }
    this.#options.feed.reportLowWatermarks(watermarks)
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof StorageUnavailableError || error instanceof LaneStoreUnavailableError
}

/** Nothing else was attempted before this process: a range is saved before it is sent. */
function attemptedRange({ cursorSeq, generation, ...row }: LaneState): AttemptedRange {
  const throughSeq = Math.max(row.batchLastSeq ?? 0, row.bisectLastSeq ?? 0, row.nextLastSeq ?? 0)
  return { afterSeq: cursorSeq, throughSeq, generation }
}
