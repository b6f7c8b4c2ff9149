/** The delivery thread's numbers, as they cross to the main thread for Prometheus. */
import type { DestinationType, Lane } from '../contract/destination.ts'
import type { DeliveryErrorClass } from '../destinations/driver.ts'

export interface LaneMetrics {
  destinationId: string
  pipeId: string
  type: DestinationType
  /** State, backlog, age and counters, as the API shows them. */
  lane: Lane
  /** Since this process began. An attempt that was aborted counts nowhere. */
  attempts: Record<'delivered' | DeliveryErrorClass, number>
}

export interface DeliveryMetrics {
  /** Memory that batches under way take together. */
  inFlightBytes: number
  lanes: LaneMetrics[]
}
