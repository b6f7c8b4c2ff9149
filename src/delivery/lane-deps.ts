import type { Epoch } from '../contract/epochs.ts'
import type { DestinationDriver } from '../destinations/driver.ts'
import type { BufferReader } from '../log/buffer.ts'
import type { LaneCounts, LaneSpec, LaneState } from '../metadata/lane-state.ts'
import type { ParkedChange } from '../metadata/parked-store-port.ts'
import type { Logger } from '../platform/log.ts'
import type { AttemptSteps } from './attempt.ts'
import type { AttemptsObserved } from './attempts-observed.ts'
import type { Clock } from './clock.ts'
import type { EventLoopTurns } from './event-loop-turns.ts'
import type { MemoryBudget } from './memory-budget.ts'
import type { Parking } from './parked/parking.ts'
import type { PatientReader } from './patient-reader.ts'

/** Everything outside a lane, so that tests can run one in-process and let time jump. */
export interface LaneDeps {
  /** For the lane itself: it waits while the buffer cannot be read. */
  readonly reader: PatientReader
  /** For who asks about the lane: it rejects instead. */
  readonly viewReader: BufferReader
  openDriver(spec: LaneSpec): DestinationDriver
  readonly steps: AttemptSteps
  /** Durable when it resolves. */
  save(row: LaneState, counts: LaneCounts | null, parked: readonly ParkedChange[]): Promise<void>
  /** The parked records of the lane. */
  readonly parking: Parking
  readonly clock: Clock
  /** 0 ≤ x < 1. */
  random(): number
  readonly log: Logger
  readonly observed: AttemptsObserved
  readonly budget: MemoryBudget
  /** The turns of the reads of all pull lanes. */
  readonly pullTurns: EventLoopTurns
  /** The epochs of the data directory: a seq from a consumer may be of a timeline that a restore has ended. */
  readonly epochs: readonly Epoch[]
  /** Whether it still is the owner's lane. Asked before every attempt, and before a message is handed to a consumer. */
  isOwned(): boolean
  /** The epoch of the ownership under which the lane was opened: every save carries it. */
  readonly epoch: number
  /** The saved cursor may have moved. */
  onSaved(): void
}
