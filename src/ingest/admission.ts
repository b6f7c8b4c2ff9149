/**
 * Whether a request may send what it sends: UUID → pipe → key and Origin, and once the records are known, the fields
 * that they must have. Each check throws the ApiError of its rule.
 *
 * Reads the format of a request's body from its headers.
 */
import { ApiError, type ErrorCode } from '../contract/errors.ts'
import { normaliseOrigin } from '../contract/pipe.ts'
import { isForPipe, type Principal } from '../contract/principal.ts'
import { isUuid } from '../contract/uuid.ts'
import type { Directory, DirectoryPipe } from '../metadata/directory-source.ts'
import type { Authenticate } from './directory/authenticate.ts'

/** Only an active pipe takes records (docs/dev/contract.md#pipes). */
export function findPipe(directory: Directory, pipeId: string): DirectoryPipe {
  // As most clients spell it; what is there under that name is a UUID.
  let entry = directory.pipe(pipeId)
  if (entry === undefined) {
    if (!isUuid(pipeId)) throw new ApiError('invalid_pipe_id')
    entry = directory.pipe(pipeId.toLowerCase())
  }
  if (entry === undefined || entry.pipe.pipe_status !== 'active') {
    throw new ApiError('pipe_not_found', { message: 'No active pipe with this id.' })
  }
  return entry
}

/** Key and Origin. A promise only for a key that the directory has to look for. */
export function requireSender(
  entry: DirectoryPipe,
  { authorization, origin }: { authorization: string; origin: string },
  authenticate: Authenticate,
): Promise<void> | null {
  if (entry.pipe.pipe_api_key_required) {
    const found = authenticate(authorization)
    if (found instanceof Promise) return found.then((late) => requireKeyAndOrigin(entry, late, origin))
    requireKeyAndOrigin(entry, found, origin)
  } else requireOrigin(entry, origin)
  return null
}

function requireKeyAndOrigin(entry: DirectoryPipe, principal: Principal | undefined, origin: string): void {
  if (principal?.workspaceId !== entry.workspaceId) throw new ApiError('unauthorized')
  if (!principal.may.ingest) throw new ApiError('forbidden', lacksIngest)
  if (!isForPipe(principal, entry.pipe.pipe_id)) throw new ApiError('forbidden', otherPipes)
  requireOrigin(entry, origin)
}

const lacksIngest = { message: 'This key lacks the scope ingest.' }
const otherPipes = { message: 'This key is limited to other pipes: use a key for this pipe.' }

function requireOrigin(entry: DirectoryPipe, origin: string): void {
  const { error } = checkOrigin(entry, origin)
  switch (error) {
    case null:
      return
    case 'unauthorized':
      throw new ApiError(error, {
        message: 'This pipe accepts browser requests only: an Origin header is required.',
      })
    case 'forbidden':
      throw new ApiError(error, {
        message: `The origin ${JSON.stringify(origin)} is not allowed for this pipe.`,
      })
    default:
      throw new ApiError(error)
  }
}

export interface OriginCheck {
  /** The value that `Access-Control-Allow-Origin` may echo; null: none. */
  allowOrigin: string | null
  /** Why the Origin is rejected; null: it is not. */
  error: ErrorCode | null
}

const standardOrigin = /^https?:\/\/(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i
/** Anything else in a header is no origin, and must not be sent back. */
const visibleText = /^[\x21-\x7e]+$/

/** docs/dev/contract.md#ingest-authentication. `origin` is the header as sent, '' when absent. */
export function checkOrigin(entry: DirectoryPipe, origin: string): OriginCheck {
  return entry.pipe.pipe_api_key_required ? withKey(entry, origin) : withoutKey(entry, origin)
}

/** Rule 6: the key is what protects the pipe; an Origin is only compared when there is something to compare it with. */
function withKey(entry: DirectoryPipe, origin: string): OriginCheck {
  if (origin === '') return { allowOrigin: null, error: null }
  const isOpen = !entry.pipe.pipe_allow_any_browser_origin && entry.allowedOrigins.size === 0
  // Also `null` and the schemes of browser extensions (docs/dev/contract.md#ingest-authentication).
  if (isOpen) return { allowOrigin: visibleText.test(origin) ? origin : null, error: null }
  return isAllowed(entry, origin) ? allowed(origin) : forbidden
}

/** Rule 7: the Origin is all there is. */
function withoutKey(entry: DirectoryPipe, origin: string): OriginCheck {
  if (origin === '') return { allowOrigin: null, error: 'unauthorized' }
  if (!entry.pipe.pipe_allow_any_browser_origin && entry.allowedOrigins.size === 0)
    return { allowOrigin: null, error: 'configuration_error' }
  return isAllowed(entry, origin) ? allowed(origin) : forbidden
}

function isAllowed(entry: DirectoryPipe, origin: string): boolean {
  if (entry.pipe.pipe_allow_any_browser_origin) return standardOrigin.test(origin)
  return entry.allowedOrigins.has(normaliseOrigin(origin))
}

const forbidden: OriginCheck = { allowOrigin: null, error: 'forbidden' }

function allowed(origin: string): OriginCheck {
  return { allowOrigin: origin, error: null }
}

export type BodyFormat = 'json' | 'ndjson'
export type BodyEncoding = 'identity' | 'gzip' | 'deflate' | 'br'

/**
 * Throws `invalid_payload` for anything but JSON and NDJSON in UTF-8. `text/plain` is JSON: a browser sends it to another
 * origin without asking first (no preflight), so that `navigator.sendBeacon` works. What protects a pipe then is what
 * protects it anyway, since a preflight keeps no program but a browser away: the Origin of the request itself is checked,
 * and no cookie or address of the client opens anything. The two other types of that kind are what forms send.
 */
export function bodyFormat(contentType: string): BodyFormat {
  if (contentType === 'application/json') return 'json'
  const [type, ...parameters] = contentType.split(';').map((part) => part.trim().toLowerCase())
  for (const parameter of parameters) {
    const charset = /^charset\s*=\s*"?([^"]*)"?$/.exec(parameter)?.[1]
    if (charset !== undefined && charset !== 'utf-8' && charset !== 'utf8') {
      throw new ApiError('invalid_payload', { message: `The body must be UTF-8, not ${charset}.` })
    }
  }
  if (type === 'application/json' || type === 'text/plain') return 'json'
  if (type === 'application/x-ndjson') return 'ndjson'
  throw new ApiError('invalid_payload', {
    message:
      'Content-Type must be application/json (or text/plain with JSON in it, or application/x-ndjson, one object per line).',
  })
}

/** Throws `unsupported_encoding`. */
export function bodyEncoding(contentEncoding: string): BodyEncoding {
  switch (contentEncoding.trim().toLowerCase()) {
    case '':
    case 'identity':
      return 'identity'
    case 'gzip':
    case 'x-gzip':
      return 'gzip'
    case 'deflate':
      return 'deflate'
    case 'br':
      return 'br'
    default:
      throw new ApiError('unsupported_encoding')
  }
}
