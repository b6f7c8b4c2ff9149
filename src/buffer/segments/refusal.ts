/** Why an append is refused, in words for the operator. */
import { BufferUnavailableError } from '../buffer.ts'

export type RefusalReason = BufferUnavailableError['reason']

const messages: Record<RefusalReason, string> = {
  over_quota: 'the buffer has reached buffer.max_bytes, and what it holds is not delivered yet',
  low_disk_space: 'free disk space is below buffer.min_free_bytes',
  write_failed: 'the buffer could not be written',
  closing: 'the service is shutting down',
}

export function refusal(reason: RefusalReason): BufferUnavailableError {
  return new BufferUnavailableError(reason, messages[reason])
}
