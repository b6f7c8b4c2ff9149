/** Resources by the ids of a path, in lower case. One that is unknown or belongs to another workspace gives the resource's own 404. */
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

/** Under an unknown pipe there is no destination: one error for both. */
export async function requireDestination(
  { destinations }: Pick<Metadata, 'destinations'>,
  workspaceId: string,
  { pipe_id, destination_id }: { pipe_id: string; destination_id: string },
): Promise<StoredDestination> {
  const destination = await destinations.get({ workspaceId, pipeId: pipe_id, destinationId: destination_id })
  if (destination === null) throw new ApiError('destination_not_found')
  return destination
}

/** For the stores: a destination that was looked up. */
export function refOf(workspaceId: string, found: StoredDestination): Required<DestinationRef> {
  return { workspaceId, pipeId: found.pipe_id, destinationId: found.destination_id }
}
