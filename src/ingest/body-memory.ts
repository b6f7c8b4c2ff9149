/**
 * What the bodies of all requests under way may take together. A body's memory is reserved from its first byte until
 * its message is stored, so that a crowd of large uploads, or a disk slower than they come, ends in 503 and not in the
 * death of the process.
 *
 * The memory is shared, so that slow uploads to one pipe cannot take all of it:
 *
 *   0 ──────────────── 12/16 ──────── 14/16 ──────── 15/16 ──────── 16/16
 *     everyone           pipes within   workspaces     bodies up to 64 KiB
 *                        their share    within theirs  of these
 *
 * A share is an equal part, with one part more than there are holders: whoever comes next finds room.
 */
import { v7 as newMsgId } from 'uuid'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'

export interface BodyMemory {
  /** For one request to this pipe; nothing is reserved yet. */
  open(workspaceId: string, pipeId: string): BodyReservation
  /** Of all requests together. */
  heldBytes(): number
}

export interface BodyReservation {
  /** Throws `buffer_unavailable` when there is no room for as many bytes more. */
  add(bytes: number): void
  /** Releases everything; adding afterwards is a mistake. */
  release(): void
}

/** Of one pipe or one workspace; kept while it holds anything. */
interface Holder {
  bytes: number
}
interface WorkspaceHolder extends Holder {
  pipes: Map<string, Holder>
}

export function createBodyMemory(maxBytes: number): BodyMemory {
  const forEveryone = Math.floor((maxBytes * 12) / 16)
  const workspaces = new Map<string, WorkspaceHolder>()
  let total = 0

  const mayReach = (workspaceId: string, pipeId: string, bodyBytes: number, bytes: number): number => {
    const workspace = workspaces.get(workspaceId)
    const pipeCount = (workspace?.pipes.size ?? 0) + 1
    if ((workspace?.pipes.get(pipeId)?.bytes ?? 0) + bytes > maxBytes / pipeCount) return forEveryone
    if ((workspace?.bytes ?? 0) + bytes > maxBytes / (workspaces.size + 1)) return (maxBytes * 14) / 16
    return bodyBytes > resourceLimits.smallBodyBytes ? (maxBytes * 15) / 16 : maxBytes
  }

  return {
    heldBytes: () => total,
    open: (workspaceId, pipeId) => {
      let reserved = 0
      return {
        add: (bytes) => {
          const next = total + bytes
          // One body alone always fits, whatever the settings say of both.
          if (
            next > forEveryone &&
            total > reserved &&
            next > mayReach(workspaceId, pipeId, reserved + bytes, bytes)
          )
            throw overloaded()
          total = next
          reserved += bytes
          hold(workspaces, workspaceId, pipeId, bytes)
        },
        release: () => {
          total -= reserved
          if (reserved > 0) hold(workspaces, workspaceId, pipeId, -reserved)
          reserved = 0
        },
      }
    },
  }
}

function hold(
  workspaces: Map<string, WorkspaceHolder>,
  workspaceId: string,
  pipeId: string,
  bytes: number,
): void {
  let workspace = workspaces.get(workspaceId)
  if (workspace === undefined) {
    workspace = { bytes: 0, pipes: new Map() }
    workspaces.set(workspaceId, workspace)
  }
  let pipe = workspace.pipes.get(pipeId)
  if (pipe === undefined) {
    pipe = { bytes: 0 }
    workspace.pipes.set(pipeId, pipe)
  }
  workspace.bytes += bytes
  pipe.bytes += bytes
  if (pipe.bytes === 0) workspace.pipes.delete(pipeId)
  if (workspace.bytes === 0) workspaces.delete(workspaceId)
}

function overloaded(): ApiError {
  return new ApiError('buffer_unavailable', {
    message:
      'Too many bytes are in flight at once. Nothing was stored; it is safe to send the request again.',
    details: { msg_id: newMsgId(), details: { reason: 'too_many_bytes_in_flight' } },
    headers: { 'Retry-After': '5' },
  })
}
