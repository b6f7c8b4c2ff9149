/**
 * All lanes: made, changed and removed as metadata says, woken by the buffer's feed, and reported to it.
 *
 * Retention goes by the floors reported here, so they are made of saved cursors only: what a restart would begin with.
 * A pipe without lanes reports 0, since its messages wait for one.
 */
import type { BufferFeed, BufferReader, DeliveredFloor } from '../buffer/buffer.ts'
import type { DeliveryErrorClass, DestinationDriver } from '../destinations/driver.ts'
import type { Logger } from '../log.ts'
import type { Clock } from './clock.ts'
import type { LaneSource, LaneSpec, LaneStore, PipeLanes } from './delivery.ts'
import { Lane } from './lane.ts'
import type { LaneDeps } from './lane-deps.ts'
import { newLaneRow } from './lane-row.ts'
import { type LaneSaver, openLaneSaver } from './lane-saver.ts'
import { MemoryBudget } from './memory-budget.ts'
import { PullLane } from './pull-lane.ts'

export type AnyLane = Lane | PullLane

export interface LaneSetOptions {
  source: LaneSource
  store: LaneStore
  reader: BufferReader
  feed: BufferFeed
  openDriver(spec: LaneSpec): DestinationDriver
  clock: Clock
  random(): number
  log: Logger
  maxInFlightBytes: number
  /** A lane came to an end that it must not: the thread cannot go on. */
  onFatal(error: unknown): void
}

export type AttemptCounts = Record<'delivered' | DeliveryErrorClass, number>

/** At most this often after a cursor moved, and this often anyway. */
const reportAfterMoveMs = 2_000
const reportAnywayMs = 5_000
const readerLagMs = 1_000

export class LaneSet {
  readonly budget: MemoryBudget
  readonly #options: LaneSetOptions
  readonly #saver: LaneSaver
  /** Pipe → its lanes, by destination; a pipe without any has an empty map. */
  readonly #pipes = new Map<string, Map<string, AnyLane>>()
  readonly #lanes = new Map<string, AnyLane>()
  readonly #attempts = new Map<string, AttemptCounts>()
  #newestSeq = 0
  /** By pipe: the end of the line of its changes. */
  readonly #reconciling = new Map<string, Promise<void>>()
  #cancelReport: (() => void) | null = null
  #hasMoved = false
  #reportedAt = 0
  #isClosing = false
  #endsPulls = false

  constructor(options: LaneSetOptions) {
    this.#options = options
    this.budget = new MemoryBudget(options.maxInFlightBytes)
    this.#saver = openLaneSaver(options.store, options.clock, options.log)
  }

  /** Loads and starts every lane. */
  async open(): Promise<void> {
    const { feed, source, reader, clock } = this.#options
    feed.onCommitted((pipes) => {
      for (const [pipeId, seq] of pipes) this.#committed(pipeId, seq)
    })
    feed.onDropped(() => {
      this.#noticeDropped()
      // A reader may notice a little later than the writer that files are gone.
      clock.wake(readerLagMs, () => this.#noticeDropped())
    })
    for (const pipe of await source.allPipes()) {
      await this.#reconcile(pipe.pipeId, pipe)
      this.#newestSeq = Math.max(this.#newestSeq, (await reader.head(pipe.pipeId)).seq)
    }
    this.#report()
  }

  lane(destinationId: string): AnyLane | undefined {
    return this.#lanes.get(destinationId.toLowerCase())
  }

  lanes(): Iterable<AnyLane> {
    return this.#lanes.values()
  }

  lanesOf(pipeId: string): AnyLane[] {
    return [...(this.#pipes.get(pipeId.toLowerCase())?.values() ?? [])]
  }

  /** Since this process began. */
  attempts(destinationId: string): AttemptCounts {
    return this.#attempts.get(destinationId) ?? { delivered: 0, transient: 0, permanent: 0 }
  }

  /** Metadata of this pipe changed. One after the other: the last state read is the one that stands. */
  refresh(givenId: string): Promise<void> {
    const pipeId = givenId.toLowerCase()
    const done = (this.#reconciling.get(pipeId) ?? Promise.resolve()).then(async () => {
      if (!this.#isClosing) await this.#reconcile(pipeId, await this.#options.source.pipe(pipeId))
    })
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
    for (const lane of this.#lanes.values()) if (lane instanceof PullLane) lane.endPulls()
  }

  /** Attempts under way get `graceMs`; every row is saved when this resolves. */
  async close(graceMs: number): Promise<void> {
    this.#isClosing = true
    await Promise.all(this.#reconciling.values())
    await Promise.all([...this.#lanes.values()].map((lane) => lane.close(graceMs)))
    await this.#saver.settle()
    this.#cancelReport?.()
    this.#sendFloors()
  }

  async #reconcile(pipeId: string, pipe: PipeLanes | null): Promise<void> {
    const known = this.#pipes.get(pipeId) ?? new Map<string, AnyLane>()
    const wanted = new Map((pipe?.lanes ?? []).map((spec) => [spec.destinationId, spec]))
    for (const [destinationId, lane] of known) {
      const spec = wanted.get(destinationId)
      if (spec !== undefined && spec.type === lane.spec.type) continue
      known.delete(destinationId)
      this.#lanes.delete(destinationId)
      this.#attempts.delete(destinationId)
      await lane.remove()
    }
    for (const [destinationId, spec] of wanted) {
      const lane = known.get(destinationId)
      if (lane === undefined) {
        const opened = await this.#openLane(spec)
        known.set(destinationId, opened)
        this.#lanes.set(destinationId, opened)
      } else if (lane.spec.revision !== spec.revision) await lane.reconfigure(spec)
    }
    if (pipe === null) this.#pipes.delete(pipeId)
    else this.#pipes.set(pipeId, known)
    this.#moved()
  }

  async #openLane(spec: LaneSpec): Promise<AnyLane> {
    const row = (await this.#options.store.load(spec.destinationId)) ?? newLaneRow(spec.destinationId)
    if (spec.type === 'destination_pull') {
      const lane = new PullLane(spec, row, this.#depsFor(spec))
      if (this.#endsPulls) lane.endPulls()
      await lane.start()
      return lane
    }
    const lane = new Lane(spec, row, this.#depsFor(spec))
    lane.start().catch(this.#options.onFatal)
    return lane
  }

  #depsFor({ destinationId }: LaneSpec): LaneDeps {
    const { reader, openDriver, clock, random, log } = this.#options
    const attempts: AttemptCounts = { delivered: 0, transient: 0, permanent: 0 }
    this.#attempts.set(destinationId, attempts)
    return {
      reader,
      openDriver,
      clock,
      random,
      log,
      budget: this.budget,
      save: (row, counts) => this.#saver.save(row, counts),
      onAttempt: (outcome) => {
        attempts[outcome] += 1
      },
      onSaved: () => this.#moved(),
    }
  }

  #committed(pipeId: string, seq: number): void {
    this.#newestSeq = Math.max(this.#newestSeq, seq)
    for (const lane of this.#pipes.get(pipeId)?.values() ?? []) lane.notice()
  }

  #noticeDropped(): void {
    for (const lane of this.#lanes.values()) lane.noticeDropped()
  }

  #moved(): void {
    this.#hasMoved = true
  }

  /** Looks every two seconds; sends when something moved, else every five. */
  #report(): void {
    const { clock } = this.#options
    const isDue = this.#hasMoved || clock.monotonicMs() - this.#reportedAt >= reportAnywayMs
    if (isDue) this.#sendFloors()
    this.#cancelReport = clock.wake(reportAfterMoveMs, () => this.#report())
  }

  #sendFloors(): void {
    this.#hasMoved = false
    this.#reportedAt = this.#options.clock.monotonicMs()
    const floors: DeliveredFloor[] = []
    for (const [pipeId, lanes] of this.#pipes) {
      const cursors = [...lanes.values()].map((lane) => lane.savedCursorSeq)
      floors.push({ pipeId, seq: cursors.length === 0 ? 0 : Math.min(...cursors) })
    }
    this.#options.feed.reportFloors(this.#newestSeq, floors)
  }
}
