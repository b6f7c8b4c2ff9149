/** Who may send to which pipe: UUID → pipe → key and Origin, the first checks of a request. */
import { ApiError } from '../contract/errors.ts'
import { isUuid } from '../contract/uuid.ts'
import type { Authenticate } from './bearer.ts'
import type { Directory, DirectoryPipe } from './directory.ts'
import type { OriginVerdict } from './origins.ts'

/** Only an active pipe takes records (spec "States and transitions"). */
export function findPipe(directory: Directory, pipeId: string): DirectoryPipe {
  if (!isUuid(pipeId)) throw new ApiError('invalid_pipe_id')
  const entry = directory.pipe(pipeId.toLowerCase())
  if (entry === undefined || entry.pipe.pipe_status !== 'active') {
    throw new ApiError('pipe_not_found', { message: 'No active pipe with this id.' })
  }
  return entry
}

/** A promise only when the directory has to look for the key; it rejects like the function throws. */
export function requireKey(
  entry: DirectoryPipe,
  authorization: string,
  authenticate: Authenticate,
): undefined | Promise<undefined> {
  if (!entry.pipe.pipe_api_key_required) return undefined
  const require = (workspaceId: string | undefined) => {
    if (workspaceId === entry.workspaceId) return undefined
    throw new ApiError('unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } })
  }
  const key = authenticate(authorization)
  return key instanceof Promise ? key.then((found) => require(found?.workspaceId)) : require(key?.workspaceId)
}

/** The error for an Origin that was refused. */
export function refusalOf(code: NonNullable<OriginVerdict['refusal']>, origin: string): ApiError {
  if (code === 'unauthorized') {
    return new ApiError(code, {
      message: 'This pipe takes browser requests only: an Origin header is required.',
      headers: { 'WWW-Authenticate': 'Bearer' },
    })
  }
  if (code === 'forbidden') {
    return new ApiError(code, {
      message: `The origin ${JSON.stringify(origin)} is not allowed for this pipe.`,
    })
  }
  return new ApiError(code)
}
