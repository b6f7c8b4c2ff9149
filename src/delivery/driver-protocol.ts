/** What passes between a delivery worker and a thread that runs one driver for one attempt or one check. */
import type { TableProposal } from '../contract/table-proposal.ts'
import {
  type Batch,
  DeliveryError,
  type DeliveryErrorClass,
  type DeliveryErrorOptions,
  type DestinationCheck,
  type DestinationSpec,
  type DriverSettings,
  type InferRequest,
  type RejectedRecord,
  type Sample,
} from '../destinations/driver.ts'

export interface DriverThreadData {
  spec: DestinationSpec
  settings: DriverSettings
  /** Of a WorkerBoard, for the beats alone. */
  board: SharedArrayBuffer
}

export type ToDriverThread =
  | { kind: 'deliver'; batch: Batch; setsAside: boolean }
  | { kind: 'check'; sample: Sample | null }
  | { kind: 'infer'; request: InferRequest }
  | { kind: 'forget' }
  | { kind: 'abort' }
  /** Responds to `before_request`. */
  | { kind: 'may_request'; id: number }
  /** Responds to what was asked under this id: what the lane resolved with; `error`: what it rejected with. */
  | { kind: 'answered'; id: number; answer: string | null; error: SentError | null }

export type FromDriverThread =
  | { kind: 'stored'; records: number }
  | { kind: 'before_request'; id: number }
  | { kind: 'ask'; id: number; question: Question }
  /** The last message is one of these. */
  | { kind: 'delivered' }
  | { kind: 'checked'; checks: DestinationCheck[] }
  | { kind: 'inferred'; proposal: TableProposal }
  | { kind: 'forgotten' }
  | { kind: 'failed'; error: SentError }

/** What a thread asks its lane. */
export type Question =
  /** PinServerKey of the lane. */
  | { kind: 'pin'; sha256: string }
  /** `messageIdAt` of the lane. */
  | { kind: 'message_id'; seq: number }
  /** `setAside` of the lane; the answer is null. */
  | { kind: 'set_aside'; rejected: readonly RejectedRecord[] }

export type SentError =
  | {
      kind: 'delivery'
      errorClass: DeliveryErrorClass
      code: string
      message: string
      options: DeliveryErrorOptions
    }
  | { kind: 'internal'; message: string }

export function sentError(error: unknown): SentError {
  if (!(error instanceof DeliveryError)) {
    return { kind: 'internal', message: error instanceof Error ? String(error.stack) : String(error) }
  }
  const { class: errorClass, code, message, known: options } = error
  return { kind: 'delivery', errorClass, code, message, options }
}

export function receivedError(sent: SentError): Error {
  if (sent.kind === 'internal') return new Error(sent.message)
  const { errorClass, code, message, options } = sent
  return new DeliveryError(errorClass, code, message, options)
}

/** The driver ended its thread, or kept it busy. */
export class DriverDiedError extends Error {
  constructor(reason: string) {
    super(reason)
    this.name = 'DriverDiedError'
  }
}
