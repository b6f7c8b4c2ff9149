/** What a lane is given: everything outside it, so that tests can run one in-process and let time jump. */
import type { BufferReader } from '../buffer/buffer.ts'
import type { DeliveryErrorClass, DestinationDriver } from '../destinations/driver.ts'
import type { Logger } from '../log.ts'
import type { Clock } from './clock.ts'
import type { LaneCounts, LaneRow, LaneSpec } from './delivery.ts'
import type { MemoryBudget } from './memory-budget.ts'

export interface LaneDeps {
  readonly reader: BufferReader
  openDriver(spec: LaneSpec): DestinationDriver
  /** Durable when it resolves. */
  save(row: LaneRow, counts: LaneCounts | null): Promise<void>
  readonly clock: Clock
  /** 0 ≤ x < 1. */
  random(): number
  readonly log: Logger
  readonly budget: MemoryBudget
  /** One attempt is over (an abort is none). */
  onAttempt(outcome: 'delivered' | DeliveryErrorClass, spec: LaneSpec): void
  /** The saved cursor may have moved. */
  onSaved(): void
}
