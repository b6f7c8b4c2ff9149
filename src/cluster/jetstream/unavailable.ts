/** The error of a rejected append, with the reason worded for the operator. */
import { BufferUnavailableError } from '../../log/buffer.ts'

export type UnavailableReason = Exclude<BufferUnavailableError['reason'], 'not_replicated'>

const messages: Record<UnavailableReason, string> = {
  over_quota:
    'the stream has reached buffer.max_bytes or a limit of its servers, and its messages are not delivered yet',
  pipe_share: 'the buffer is almost full, and this pipe or its workspace holds more than its share of it',
  idempotency_full:
    'this pipe or its workspace has used its share of the space for idempotency keys, which are kept for 24 hours',
  low_disk_space: 'the servers of the stream have no disk space left',
  write_failed:
    'the stream has not acknowledged the message: no connection, no leader, or no response in time',
  not_in_cluster: 'this node could not renew its lease in time',
  closing: 'the service is shutting down',
}

export function unavailable(reason: UnavailableReason, detail?: string): BufferUnavailableError {
  return new BufferUnavailableError(reason, messageOf(reason, detail))
}

/** For a message that was sent to the stream and may be in it. */
export function unacknowledged(detail?: string): BufferUnavailableError {
  return new BufferUnavailableError('write_failed', messageOf('write_failed', detail), true)
}

function messageOf(reason: UnavailableReason, detail: string | undefined): string {
  return detail === undefined ? messages[reason] : `${messages[reason]} (${detail})`
}
