/**
 * Resources by the ids of a path. An id that is not a UUID, is unknown or belongs to another workspace gives the
 * resource's own 404.
 */
import { ApiError, type ErrorCode } from '../../contract/errors.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { isUuid } from '../../contract/uuid.ts'
import type { StoredDestination } from '../../metadata/destinations.ts'
import type { Metadata } from '../../metadata/store.ts'

/** The id as it is stored: lower case. */
export function resourceId(text: string, notFound: ErrorCode): string {
  if (!isUuid(text)) throw new ApiError(notFound)
  return text.toLowerCase()
}

export async function requirePipe(
  { pipes }: Pick<Metadata, 'pipes'>,
  workspaceId: string,
  pipeId: string,
): Promise<Pipe> {
  const pipe = await pipes.get(workspaceId, resourceId(pipeId, 'pipe_not_found'))
  if (pipe === null) throw new ApiError('pipe_not_found')
  return pipe
}

/** Under an unknown pipe there is no destination: one error for both. */
export async function requireDestination(
  { destinations }: Pick<Metadata, 'destinations'>,
  workspaceId: string,
  pipeId: string,
  destinationId: string,
): Promise<StoredDestination> {
  const destination = await destinations.get(
    workspaceId,
    resourceId(pipeId, 'destination_not_found'),
    resourceId(destinationId, 'destination_not_found'),
  )
  if (destination === null) throw new ApiError('destination_not_found')
  return destination
}
