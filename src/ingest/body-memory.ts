/**
 * What the bodies of all requests under way may take together. A body is held from its first byte until its message is
 * answered, so a crowd of large uploads, or a disk slower than they come, ends in 503 and not in the process's death.
 */
import { v7 as newMsgId } from 'uuid'
import { ApiError } from '../contract/errors.ts'

export interface BodyMemory {
  /** For one request; nothing is held yet. */
  open(): BodyHold
}

export interface BodyHold {
  /** Throws `buffer_unavailable` when all holds together would pass the limit. */
  add(bytes: number): void
  /** Gives everything back; adding afterwards is a mistake. */
  release(): void
}

export function createBodyMemory(maxBytes: number): BodyMemory {
  let total = 0
  return {
    open: () => {
      let held = 0
      return {
        add: (bytes) => {
          // One body alone always fits, whatever the settings say of both.
          if (total > 0 && total + bytes > maxBytes && total > held) throw overloaded()
          total += bytes
          held += bytes
        },
        release: () => {
          total -= held
          held = 0
        },
      }
    },
  }
}

function overloaded(): ApiError {
  return new ApiError('buffer_unavailable', {
    message: 'Too many bytes are under way at once; nothing was kept, it is safe to send it again.',
    details: { msg_id: newMsgId() },
    headers: { 'Retry-After': '5' },
  })
}
