/** The response to a request whose message could not be appended. */
import { ApiError } from '../contract/errors.ts'
import { BufferUnavailableError, IdempotencyKeyReusedError } from '../log/buffer.ts'

export function appendError(error: unknown, msgId: string): unknown {
  if (error instanceof IdempotencyKeyReusedError) return new ApiError('idempotency_key_reused')
  return error instanceof BufferUnavailableError ? unavailable(error, msgId) : error
}

function unavailable({ reason, mayBeStored }: BufferUnavailableError, msgId: string): ApiError {
  return new ApiError('buffer_unavailable', {
    ...(mayBeStored && {
      message:
        'The records may be stored or not: the buffer did not answer in time. Send the request again; with the same Idempotency-Key they are stored once.',
    }),
    details: { msg_id: msgId, details: { reason } },
    headers: { 'Retry-After': '5' },
  })
}
