/** The calls between main and a delivery worker, in both directions. */
import type { DriverSettings } from '../destinations/driver.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { MetadataSpec } from '../metadata/store.ts'
import type { LogSettings } from '../platform/log.ts'
import type { Delivery } from './delivery.ts'

export interface DeliveryThreadData {
  buffer: BufferSpec
  metadata: MetadataSpec
  sealingKey: Uint8Array
  /**
   * The id of this node in its cluster: it delivers the pipes that it gets a lease for. Null: it delivers everything.
   */
  nodeId: string | null
  driverSettings: DriverSettings
  maxInFlightBytes: number
  maxParkedBytes: number
  log: LogSettings
  /** The memory of a WorkerBoard; each worker has its own. */
  board: SharedArrayBuffer
  /** Lanes that were under way when the last worker died: main wants to know when they have finished an attempt. */
  suspects: readonly string[]
  /** Lanes whose attempts run in a thread of their own. */
  quarantined: readonly string[]
  /** Every destination counts as blocked. */
  isSafe: boolean
  /** The process stops: pulls do not wait. */
  endsPulls: boolean
}

export interface DeliveryCalls extends Delivery {
  close(graceMs: number): Promise<void>
  /** A quarantined lane is like any other from now on. */
  release(destinationId: string): void
}
export type DeliveryMethod = keyof DeliveryCalls

/** A worker's reports to main. */
export interface DeliveryReports {
  /** A suspect has finished an attempt. */
  finished(destinationId: string): void
  /** A quarantined lane has delivered in a thread of its own. */
  deliveredApart(destinationId: string): void
}
