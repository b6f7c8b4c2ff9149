/**
 * Opens the lane of a destination: takes its row for this owner, repairs a damaged row, and relocates the cursor in a
 * log that was restored from a backup. The lanes of a thread share the memory budget, the saver, and the reader that
 * waits for an unavailable buffer.
 *
 * After a crash between any two steps they are repeated: taking a row only raises its epoch, a repair writes the row
 * that the next start would write, and the relocated cursor is saved with the lane's first save.
 */
import { wordsOf } from '../contract/destination-words.ts'
import type { Epoch } from '../contract/epochs.ts'
import type { DestinationDriver } from '../destinations/driver.ts'
import type { BufferReader } from '../log/buffer.ts'
import type { ReplicaBarrier } from '../log/replica-barrier.ts'
import type { LaneOwnership } from '../metadata/lane-ownership.ts'
import {
  fixedThrough,
  type LaneChange,
  type LaneCounts,
  LaneOwnershipLostError,
  type LaneSpec,
  type LaneState,
  LaneStateDamagedError,
  type LaneStore,
  LaneStoreUnavailableError,
  newLaneState,
  type RangeStore,
} from '../metadata/lane-state.ts'
import type { AttemptedRange, ParkedStore } from '../metadata/parked-store-port.ts'
import type { Logger } from '../platform/log.ts'
import type { AttemptSteps } from './attempt.ts'
import { type Clock, EventLoopTurns } from './clock.ts'
import type { Lane, LaneDeps } from './lane.ts'
import { AttemptsObserved, namesOf } from './lane-log.ts'
import { MemoryBudget } from './memory-budget.ts'
import { ParkedSpace, Parking } from './parking.ts'
import { PullLane } from './pull-lane.ts'
import { PushLane } from './push-lane.ts'
import { PatientReader, SharedReads } from './read-ahead.ts'
import { afterStateDamaged } from './transitions.ts'

export interface LaneOpenerOptions {
  store: LaneStore
  ownership: Pick<LaneOwnership, 'holds'>
  reader: BufferReader
  openDriver(spec: LaneSpec): DestinationDriver
  steps: AttemptSteps
  clock: Clock
  random(): number
  log: Logger
  maxInFlightBytes: number
  epochs: readonly Epoch[]
  /** Null: lanes do not wait for a replica. */
  replica: ReplicaBarrier | null
  parked: { store: ParkedStore & RangeStore; maxBytes: number }
}

export class LaneOpener {
  readonly budget: MemoryBudget
  readonly observed = new AttemptsObserved()
  /** For the thread's own work: it waits while the buffer cannot be read. */
  readonly reader: PatientReader
  readonly #options: LaneOpenerOptions
  readonly #onSaved: () => void
  readonly #pullTurns = new EventLoopTurns()
  readonly #saver: LaneSaver
  readonly #sharedReads: SharedReads
  readonly #parkedSpace: ParkedSpace

  /** `onSaved` is called when the saved cursor of a lane has possibly moved. */
  constructor(options: LaneOpenerOptions, onSaved: () => void) {
    this.#options = options
    this.#onSaved = onSaved
    this.budget = new MemoryBudget(options.maxInFlightBytes)
    this.#saver = new LaneSaver(options.store, options.clock, options.log)
    this.#sharedReads = new SharedReads(options.clock, options.log)
    this.reader = new PatientReader(options.reader, options.clock, this.#sharedReads)
    this.#parkedSpace = new ParkedSpace(options.parked.store, options.parked.maxBytes)
  }

  /** Returns a lane that is not started. Rejects with LaneOwnershipLostError when a newer owner has taken it. */
  async open(spec: LaneSpec, epoch: number): Promise<Lane> {
    const row = await this.#relocated(spec, await this.#take(spec, epoch))
    const opening = { epoch, attempted: attemptedRange(row) }
    const parking = await Parking.open(spec, opening, this.#options.parked.store, this.#parkedSpace)
    const deps = this.#depsOf(spec.pipeId, epoch, parking)
    return wordsOf(spec.type).isPulled ? new PullLane(spec, row, deps) : new PushLane(spec, row, deps)
  }

  /** From now on, reads and saves that would wait for the buffer or for disk space reject. */
  stopWaiting(): void {
    this.#saver.stopWaiting()
    this.reader.stopWaiting()
  }

  /** Resolves when every started save has ended. */
  async drain(): Promise<void> {
    await this.#saver.drain()
  }

  async #take(spec: LaneSpec, epoch: number): Promise<LaneState> {
    const { store, log } = this.#options
    const { destinationId } = spec
    try {
      return (await store.take(destinationId, epoch)) ?? newLaneState(destinationId)
    } catch (error) {
      if (!(error instanceof LaneStateDamagedError)) throw error
      const row = { ...afterStateDamaged(error, this.#options.clock.now()), ownerEpoch: epoch }
      await store.repair(row)
      log.error(namesOf(spec), 'lane.state_damaged')
      return (await store.take(destinationId, epoch)) ?? row
    }
  }

  /** A lane with a cursor beyond the end of the log would wait until the log has caught up. It gets new counts instead. */
  async #relocated(spec: LaneSpec, row: LaneState): Promise<LaneState> {
    const { pipeId } = spec
    const { cursorSeq, cursorMark } = row
    if (cursorMark === null) return row
    const { log } = this.#options
    const { cursor, missing } = await this.reader.relocate(pipeId, { seq: cursorSeq, mark: cursorMark })
    if (missing === 0) return row
    const { seq } = await this.reader.cursorAt(pipeId, cursorSeq)
    log.error(
      {
        ...namesOf(spec),
        missing_messages: missing,
        first_seq: seq + 1,
        last_seq: cursorSeq,
      },
      'buffer.behind_lanes',
    )
    return { ...row, cursorMark: cursor.mark }
  }

  #depsOf(pipeId: string, epoch: number, parking: Parking): LaneDeps {
    const { reader, openDriver, steps, clock, random, log, epochs, replica, ownership } = this.#options
    // Each lane has its own reader, so that a lane that ends does not wait.
    return {
      isOwned: () => ownership.holds(pipeId, epoch),
      reader: new PatientReader(reader, clock, this.#sharedReads),
      viewReader: reader,
      openDriver,
      steps,
      clock,
      random,
      log,
      epoch,
      epochs,
      replica,
      parking,
      budget: this.budget,
      observed: this.observed,
      pullTurns: this.#pullTurns,
      save: (row, counts, parked) => this.#saver.save(row, counts, parked),
      onSaved: this.#onSaved,
    }
  }
}

/** No earlier process has attempted anything else, because a range is saved before it is sent. */
function attemptedRange(row: LaneState): AttemptedRange {
  const { cursorSeq, generation } = row
  return { afterSeq: cursorSeq, throughSeq: fixedThrough(row), generation }
}

/** One lane's part of a group. */
interface Entry {
  row: LaneState
  counts: LaneCounts[]
  parked: LaneChange[]
  saved: Promise<void>
  resolve(): void
  reject(error: unknown): void
}

const retrySaveMs = 1_000
/** How long a stopping process waits for disk space, and for each save. */
const closingMs = 3_000

/**
 * Group commit of lane state: everything that lanes save while one transaction is under way goes into the next one, so a
 * hundred lanes cost one fsync instead of a hundred.
 *
 * On a full disk lanes wait and do not fail: nothing is delivered beyond the saved state, and the save is repeated until
 * there is room. A process that stops does not wait, not even for a store that does not respond: unsaved progress is
 * delivered again after the next start, under the same identity. A lane that another owner has taken over fails alone.
 * Every other error rejects for all lanes of the group, and the thread ends with it.
 */
export class LaneSaver {
  readonly #store: LaneStore
  readonly #clock: Clock
  readonly #log: Logger
  #gathering = new Map<string, Entry>()
  #running: Promise<void> | null = null
  #givesUpAtMs = Number.POSITIVE_INFINITY
  /** Starts the time limit of the current save. */
  #limitSave: () => void = () => {}

  constructor(store: LaneStore, clock: Clock, log: Logger) {
    this.#store = store
    this.#clock = clock
    this.#log = log
  }

  /** Resolves when the row, the counts and the parked records are durable. The row must not be changed in place. */
  save(row: LaneState, counts: LaneCounts | null, parked: readonly LaneChange[] = []): Promise<void> {
    const entry = this.#gathering.get(row.destinationId) ?? newEntry(row)
    entry.row = row
    if (counts !== null) entry.counts.push(counts)
    entry.parked.push(...parked)
    this.#gathering.set(row.destinationId, entry)
    this.#running ??= this.#saveGroups()
    return entry.saved
  }

  /** From now on, saves that find no room soon reject with LaneStoreUnavailableError. */
  stopWaiting(): void {
    this.#givesUpAtMs = this.#clock.monotonicMs() + closingMs
    this.#limitSave()
  }

  /** Resolves when no save is in progress. */
  async drain(): Promise<void> {
    while (this.#running !== null) await this.#running
  }

  async #saveGroups(): Promise<void> {
    // Other saves of this turn of the event loop join the first group.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#gathering.size > 0) {
      const group = this.#gathering
      this.#gathering = new Map()
      try {
        await this.#saveGroup(group)
        for (const entry of group.values()) entry.resolve()
      } catch (error) {
        for (const entry of group.values()) entry.reject(error)
      }
    }
    this.#running = null
  }

  async #saveGroup(group: Map<string, Entry>): Promise<void> {
    for (let tries = 1; group.size > 0; tries += 1) {
      try {
        const entries = [...group.values()]
        const saving = this.#store.save(
          entries.map(({ row }) => row),
          entries.flatMap(({ counts }) => counts),
          new Map(
            entries
              .filter(({ parked }) => parked.length > 0)
              .map(({ row, parked }) => [row.destinationId, parked]),
          ),
        )
        if (await this.#isAnswered(saving)) return
      } catch (error) {
        if (!rejectLost(group, error)) await this.#pauseAfter(error, group.size, tries)
        continue
      }
      // Not repeated: the save can still succeed, and its counts would be added twice.
      throw new LaneStoreUnavailableError(new Error(`no answer within ${closingMs} ms`))
    }
  }

  /** Waits before the save is repeated. Rethrows the error when repeating cannot help or the process is stopping. */
  async #pauseAfter(error: unknown, lanes: number, tries: number): Promise<void> {
    if (!(error instanceof LaneStoreUnavailableError)) throw error
    if (this.#clock.monotonicMs() >= this.#givesUpAtMs) throw error
    if (tries === 1) this.#log.error({ lanes, err: error.cause }, 'lanes.save_delayed')
    await new Promise<void>((resolve) => this.#clock.wake(retrySaveMs, resolve))
  }

  /**
   * Returns false when the process is stopping and waits no longer. A late success of the save is harmless: a restart
   * begins with its row.
   */
  async #isAnswered(saving: Promise<void>): Promise<boolean> {
    let cancel = () => {}
    const late = new Promise<false>((resolve) => {
      this.#limitSave = () => {
        cancel = this.#clock.wake(closingMs, () => resolve(false))
      }
    })
    if (this.#givesUpAtMs < Number.POSITIVE_INFINITY) this.#limitSave()
    try {
      return await Promise.race([saving.then(() => true), late])
    } finally {
      cancel()
      this.#limitSave = () => {}
      saving.catch(() => {})
    }
  }
}

function newEntry(row: LaneState): Entry {
  let resolve = () => {}
  let reject: (error: unknown) => void = () => {}
  const saved = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { row, counts: [], parked: [], saved, resolve, reject }
}

/** Returns true when lanes of other owners were removed, so that the group can be saved without them. */
function rejectLost(group: Map<string, Entry>, error: unknown): boolean {
  if (!(error instanceof LaneOwnershipLostError)) return false
  const lost = error.destinationIds.filter((id) => group.has(id))
  for (const id of lost) {
    group.get(id)!.reject(error)
    group.delete(id)
  }
  return lost.length > 0
}
