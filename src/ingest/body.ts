/** Reads the format of a request's body from its headers. */
import { ApiError } from '../contract/errors.ts'

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
