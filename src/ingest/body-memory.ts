/**
 * Limits the memory of the bodies of all requests under way. A body's memory is reserved from its first byte until
 * its message is stored, so that a crowd of large uploads, or a disk slower than they arrive, ends in 503 and not in
 * the death of the process.
 *
 * The memory is shared, so that slow uploads to one pipe cannot take all of it:
 *
 *   0 ──────────────── 12/16 ──────── 14/16 ──────── 15/16 ──────── 16/16
 *     everyone           pipes within   workspaces     bodies up to 64 KiB
 *                        their share    within theirs  of these
 *
 * A share is an equal part, with one part more than there are holders: the next one finds room.
 */
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { newMsgId } from './msg-id.ts'
import { bodyBytesAt, bodyPipesAt, headEntry, SharedCounters } from './shared-counters.ts'

export interface BodyMemory {
  /** For one request to this pipe; nothing is reserved yet. */
  open(workspaceId: string, pipeId: string): BodyReservation
  /** The bytes of all requests together. */
  heldBytes(): number
}

export interface BodyReservation {
  /** Throws `buffer_unavailable` when there is no room for as many bytes more. */
  add(bytes: number): void
  /** Releases everything; adding afterwards is a mistake. */
  release(): void
}

/** In the head. */
const totalAt = 1
const workspacesAt = 2

/** Threads with the same counters share the memory. */
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
    // One body alone always fits, whatever the settings say of both.
    if (next > forEveryone && total > reserved && next > mayReach(workspace, pipe, reserved + bytes, bytes))
      return false
    hold(workspace, pipe, bytes)
    return true
  }

  return {
    heldBytes: () => numbers[totalAt]!,
    open: (workspaceId, pipeId) => {
      // Ids of pipes and of workspaces are UUIDs: no two are the same.
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

/** By how much the number of holders changes with it: 1 for the first bytes that one holds, -1 for the last. */
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
