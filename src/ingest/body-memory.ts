/**
 * Limits the memory of the bodies of all requests under way. A body's memory is reserved from its first byte until its
 * message is stored, so that many large uploads or a slow disk lead to 503 and not to the end of the process.
 *
 * The memory is shared, so that slow uploads to one pipe cannot take all of it:
 *
 *   0 ──────────────── 12/16 ──────── 14/16 ──────── 15/16 ──────── 16/16
 *     everyone           pipes within   workspaces     bodies up to 64 KiB
 *                        their share    within theirs  of these
 *
 * A share is an equal part, computed for one more holder than there is, so that a new one finds room.
 */
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { newMsgId } from './msg-id.ts'
import { bodyBytesAt, bodyPipesAt, headEntry, SharedCounters } from './shared-counters.ts'

export interface BodyMemory {
  /** For one request to this pipe. Reserves nothing yet. */
  open(workspaceId: string, pipeId: string): BodyReservation
  /** Bytes held by all requests together. */
  heldBytes(): number
}

export interface BodyReservation {
  /** Throws `buffer_unavailable` when there is no room for this many more bytes. */
  add(bytes: number): void
  /** Releases everything. Adding afterwards is a bug. */
  release(): void
}

/** An index in the head entry. */
const totalAt = 1
const workspacesAt = 2

/** Threads with the same counters share the memory limit. */
export function createBodyMemory(
  maxBytes: number,
  counters: SharedCounters = new SharedCounters(),
): BodyMemory {
  const { numbers } = counters
  const forEveryone = Math.floor((maxBytes * 12) / 16)

  const mayReach = (workspace: number, pipe: number, bodyBytes: number, bytes: number): number => {
    if (numbers[pipe + bodyBytesAt]! + bytes > maxBytes / (numbers[workspace + bodyPipesAt]! + 1))
      return forEveryone
    if (numbers[workspace + bodyBytesAt]! + bytes > maxBytes / (numbers[workspacesAt]! + 1))
      return (maxBytes * 14) / 16
    return bodyBytes > resourceLimits.smallBodyBytes ? (maxBytes * 15) / 16 : maxBytes
  }
  const hold = (workspace: number, pipe: number, bytes: number) => {
    numbers[totalAt]! += bytes
    numbers[workspacesAt]! += change(numbers, workspace + bodyBytesAt, bytes)
    numbers[workspace + bodyPipesAt]! += change(numbers, pipe + bodyBytesAt, bytes)
  }

  const add = (workspace: number, pipe: number, reserved: number, bytes: number): boolean => {
    const total = numbers[totalAt]!
    const next = total + bytes
    // A single body always fits, whatever the two settings are.
    if (next > forEveryone && total > reserved && next > mayReach(workspace, pipe, reserved + bytes, bytes))
      return false
    hold(workspace, pipe, bytes)
    return true
  }

  return {
    heldBytes: () => numbers[totalAt]!,
    open: (workspaceId, pipeId) => {
      // Pipe ids and workspace ids are UUIDs, so they cannot collide.
      const workspace = counters.entry(workspaceId)
      const pipe = counters.entry(pipeId)
      let reserved = 0
      return {
        add: (bytes) => {
          if (!counters.locked(headEntry, () => add(workspace, pipe, reserved, bytes))) throw overloaded()
          reserved += bytes
        },
        release: () => {
          if (reserved > 0) counters.locked(headEntry, () => hold(workspace, pipe, -reserved))
          reserved = 0
        },
      }
    },
  }
}

/** The change of the number of holders: 1 for a holder's first bytes, -1 for its last. */
function change(numbers: Float64Array, at: number, bytes: number): number {
  const before = numbers[at]!
  numbers[at] = before + bytes
  return Number(before + bytes > 0) - Number(before > 0)
}

function overloaded(): ApiError {
  return new ApiError('buffer_unavailable', {
    message:
      'Too many large requests are in progress. Nothing was stored; it is safe to send the request again.',
    details: { msg_id: newMsgId(), details: { reason: 'too_many_bytes_in_flight' } },
    headers: { 'Retry-After': '5' },
  })
}
