/** The calls between a delivery worker and a thread that runs one driver, for one attempt or one check. */
import type { TableProposal } from '../contract/table-proposal.ts'
import type {
  AttemptProgress,
  Batch,
  DestinationCheck,
  DestinationSpec,
  DriverSettings,
  InferRequest,
  PinServerKey,
  RejectedRecord,
  Sample,
} from '../destinations/driver.ts'

export interface DriverThreadData {
  spec: DestinationSpec
  settings: DriverSettings
}

/** One of the first four, once. */
export interface DriverCalls {
  deliver(batch: Batch, parks: boolean): void
  check(sample: Sample | null): DestinationCheck[]
  infer(request: InferRequest): TableProposal
  forget(): void
  abort(): void
}

/** Metadata, the buffer and the destination's rate are with the lane. */
export interface LaneCalls {
  stored: AttemptProgress['stored']
  beforeRequest: AttemptProgress['beforeRequest']
  pin: PinServerKey
  messageIdAt(seq: number): string | null
  park(rejected: readonly RejectedRecord[]): void
}

/** The driver ended its thread, or kept it busy. */
export class DriverDiedError extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'DriverDiedError'
  }
}
