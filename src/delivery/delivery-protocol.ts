/** The messages between main and a delivery worker: calls by number, responses by the same number. */

import type { DriverSettings } from '../destinations/driver.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { MetadataSpec } from '../metadata/store.ts'
import type { LogSettings } from '../platform/log.ts'
import type { LaneService } from './lane-service.ts'

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

/** Every method of the lane service, and `close(graceMs)`. */
export type DeliveryMethod = keyof LaneService | 'close'

/** How often a worker tells that it is alive, and how often somebody looks. */
export const beatEveryMs = 1_000

export type ToDeliveryWorker =
  | { kind: 'call'; id: number; method: DeliveryMethod; args: unknown[] }
  /** A quarantined lane is like any other from now on. */
  | { kind: 'release'; destinationId: string }

export type FromDeliveryWorker =
  /** The first message: the lanes are loaded. */
  | { kind: 'ready' }
  | { kind: 'result'; id: number; value: unknown }
  /**
   * `unavailable`: nothing can be saved for now. `elsewhere`: the lane of this destination is another node's. Else an internal
   * error: `message` for the log.
   */
  | { kind: 'failure'; id: number; message: string; reason: 'unavailable' | 'internal' }
  | { kind: 'elsewhere'; id: number; destinationId: string }
  /** A suspect has finished an attempt. */
  | { kind: 'finished'; destinationId: string }
  /** A quarantined lane has delivered in a thread of its own. */
  | { kind: 'delivered_apart'; destinationId: string }
