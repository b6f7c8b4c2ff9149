/**
 * Finds resources by the ids of a path, which are in lower case. An id that is unknown or belongs to another
 * workspace throws the 404 of the resource.
 */
import { ApiError } from '../../contract/errors.ts'
import type { Pipe } from '../../contract/pipe.ts'
import type { StoredDestination } from '../../metadata/destinations.ts'
import type { Metadata } from '../../metadata/store.ts'
import type { DestinationRef } from '../../metadata/tables.ts'

export async function requirePipe(
  { pipes }: Pick<Metadata, 'pipes'>,
  workspaceId: string,
  { pipe_id: pipeId }: { pipe_id: string },
): Promise<Pipe> {
  const pipe = await pipes.get({ workspaceId, pipeId })
  if (pipe === null) throw new ApiError('pipe_not_found')
  return pipe
}

/** An unknown pipe and an unknown destination throw the same error. */
export async function requireDestination(
  { destinations }: Pick<Metadata, 'destinations'>,
  workspaceId: string,
  { pipe_id, destination_id }: { pipe_id: string; destination_id: string },
): Promise<StoredDestination> {
  const destination = await destinations.get({ workspaceId, pipeId: pipe_id, destinationId: destination_id })
  if (destination === null) throw new ApiError('destination_not_found')
  return destination
}

/** The reference to a destination, as the stores take it. */
export function refOf(workspaceId: string, found: StoredDestination): Required<DestinationRef> {
  return { workspaceId, pipeId: found.pipe_id, destinationId: found.destination_id }
}
