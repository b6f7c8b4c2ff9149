/**
 * Checks whether a request is allowed: UUID → pipe → key and Origin. Each check throws the ApiError of its rule.
 *
 * It reads the format of a body from the headers as well.
 */
import { ApiError, type ErrorCode } from '../contract/errors.ts'
import { normaliseOrigin } from '../contract/pipe.ts'
import { isForPipe, type Principal } from '../contract/principal.ts'
import { isUuid } from '../contract/uuid.ts'
import type { Directory, DirectoryPipe } from '../metadata/directory-source.ts'
import type { Authenticate } from './directory/authenticate.ts'

/** Only an active pipe accepts records (docs/dev/contract.md#pipes). */
export function findPipe(directory: Directory, pipeId: string): DirectoryPipe {
  // Most clients use this spelling, and an id in the directory is a valid UUID.
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

/** Checks key and Origin. Returns a promise only when the directory has to look up the key. */
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
  /** The value that `Access-Control-Allow-Origin` can echo; null for none. */
  allowOrigin: string | null
  /** Why the Origin is rejected; null when it is accepted. */
  error: ErrorCode | null
}

const standardOrigin = /^https?:\/\/(?:[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i
/** Other text is no origin and must not be echoed. */
const visibleText = /^[\x21-\x7e]+$/

/** docs/dev/contract.md#ingest-authentication. `origin` is the header as sent, '' when absent. */
export function checkOrigin(entry: DirectoryPipe, origin: string): OriginCheck {
  return entry.pipe.pipe_api_key_required ? withKey(entry, origin) : withoutKey(entry, origin)
}

/** Rule 6: the key protects the pipe. An Origin is checked only when the pipe has a list of origins. */
function withKey(entry: DirectoryPipe, origin: string): OriginCheck {
  if (origin === '') return { allowOrigin: null, error: null }
  const isOpen = !entry.pipe.pipe_allow_any_browser_origin && entry.allowedOrigins.size === 0
  // Includes `null` and the schemes of browser extensions (docs/dev/contract.md#ingest-authentication).
  if (isOpen) return { allowOrigin: visibleText.test(origin) ? origin : null, error: null }
  return isAllowed(entry, origin) ? allowed(origin) : forbidden
}

/** Rule 7: only the Origin protects the pipe. */
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
 * Throws `invalid_payload` for anything but JSON and NDJSON in UTF-8. `text/plain` is treated as JSON: a browser sends
 * it to another origin without a preflight, so that `navigator.sendBeacon` works. This does not weaken the protection,
 * because a preflight restrains only browsers: the Origin of the request itself is checked, and neither cookies nor
 * client addresses grant access. The two other types without a preflight are those of forms.
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
