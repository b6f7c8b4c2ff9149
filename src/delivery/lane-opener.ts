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
import type { LaneOwnership } from '../metadata/lane-ownership.ts'
import {
  fixedThrough,
  type LaneSpec,
  type LaneState,
  LaneStateDamagedError,
  type LaneStore,
  newLaneState,
} from '../metadata/lane-state.ts'
import type { AttemptedRange, ParkedStore } from '../metadata/parked-store-port.ts'
import type { Logger } from '../platform/log.ts'
import type { AttemptSteps } from './attempt.ts'
import { AttemptsObserved } from './attempts-observed.ts'
import { type Clock, EventLoopTurns } from './clock.ts'
import type { Lane, LaneDeps } from './lane.ts'
import { namesOf } from './lane-log.ts'
import { LaneSaver } from './lane-saver.ts'
import { MemoryBudget } from './memory-budget.ts'
import { ParkedSpace, Parking } from './parked/parking.ts'
import { PatientReader, ReadOutage } from './patient-reader.ts'
import { PullLane } from './pull-lane.ts'
import { PushLane } from './push-lane.ts'
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
  parked: { store: ParkedStore; maxBytes: number }
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
  readonly #outage: ReadOutage
  readonly #parkedSpace: ParkedSpace

  /** `onSaved` is called when the saved cursor of a lane has possibly moved. */
  constructor(options: LaneOpenerOptions, onSaved: () => void) {
    this.#options = options
    this.#onSaved = onSaved
    this.budget = new MemoryBudget(options.maxInFlightBytes)
    this.#saver = new LaneSaver(options.store, options.clock, options.log)
    this.#outage = new ReadOutage(options.clock, options.log)
    this.reader = new PatientReader(options.reader, options.clock, this.#outage)
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
    const { reader, openDriver, steps, clock, random, log, epochs, ownership } = this.#options
    // Each lane has its own reader, so that a lane that ends does not wait.
    return {
      isOwned: () => ownership.holds(pipeId, epoch),
      reader: new PatientReader(reader, clock, this.#outage),
      viewReader: reader,
      openDriver,
      steps,
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
      onSaved: this.#onSaved,
    }
  }
}

/** No earlier process has attempted anything else, because a range is saved before it is sent. */
function attemptedRange(row: LaneState): AttemptedRange {
  const { cursorSeq, generation } = row
  return { afterSeq: cursorSeq, throughSeq: fixedThrough(row), generation }
}
