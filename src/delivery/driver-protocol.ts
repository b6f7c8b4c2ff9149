/** What passes between a delivery worker and a thread that runs one driver for one attempt or one check. */
import type {
  Batch,
  DeliveryErrorClass,
  DeliveryErrorOptions,
  DestinationCheck,
  DestinationSpec,
  DriverSettings,
  Sample,
} from '../destinations/driver.ts'

export interface DriverThreadData {
  spec: DestinationSpec
  settings: DriverSettings
  /** Of a WorkerBoard, for the beats alone. */
  board: SharedArrayBuffer
}

export type ToDriverThread =
  | { kind: 'deliver'; batch: Batch }
  | { kind: 'check'; sample: Sample | null }
  | { kind: 'forget' }
  | { kind: 'abort' }
  /** Responds to `before_request`. */
  | { kind: 'may_request'; id: number }
  /** Responds to `pin`: what PinServerKey resolved with, or null text and that it rejected. */
  | { kind: 'pinned'; id: number; pinned: string | null; isStored: boolean }
  /** Responds to `message_id`: what `messageIdAt` resolved with, or null text and that it rejected. */
  | { kind: 'message_id'; id: number; msgId: string | null; isRead: boolean }

export type FromDriverThread =
  | { kind: 'stored'; records: number }
  | { kind: 'before_request'; id: number }
  /** PinServerKey of the lane. */
  | { kind: 'pin'; id: number; sha256: string }
  /** `messageIdAt` of the lane. */
  | { kind: 'message_id'; id: number; seq: number }
  /** The last message is one of these. */
  | { kind: 'delivered' }
  | { kind: 'checked'; checks: DestinationCheck[] }
  | { kind: 'forgotten' }
  | { kind: 'failed'; error: SentError }

export type SentError =
  | {
      kind: 'delivery'
      errorClass: DeliveryErrorClass
      code: string
      message: string
      options: DeliveryErrorOptions
    }
  | { kind: 'internal'; message: string }

/** The driver ended its thread, or kept it busy. */
export class DriverDiedError extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'DriverDiedError'
  }
}
