/** A permanent error with the message that is at fault: the lane then need not search for it. */
import assert from 'node:assert/strict'
import { DeliveryError } from './driver.ts'

export function blaming(error: DeliveryError, failedSeq: number): DeliveryError {
  assert(error.class === 'permanent')
  return new DeliveryError('permanent', error.code, error.message, { failedSeq, cause: error.cause })
}
