/**
 * Whether a request's head can be trusted: where its body ends, who sends it, how large it is. uWebSockets' parser takes
 * two Content-Lengths and any Transfer-Encoding, node:http's `gzip, chunked`; a proxy in front may read the same bytes otherwise and be made to
 * smuggle a request past it. So both, two of either, or a Transfer-Encoding other than `chunked` are rejected, on every
 * path, and nothing that comes after them on the connection is executed.
 */
import { ApiError } from '../../contract/errors.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'

export interface Framing {
  contentLengths: number
  contentLength: string
  transferEncodings: number
  transferEncoding: string
  authorizations: number
  headers: number
  /** Names, values and what stands around them. */
  bytes: number
}

export function noFraming(): Framing {
  return {
    contentLengths: 0,
    contentLength: '',
    transferEncodings: 0,
    transferEncoding: '',
    authorizations: 0,
    headers: 0,
    bytes: 0,
  }
}

/** Takes in one header. `name` in lower case. */
export function noteHeader(framing: Framing, name: string, value: string): void {
  framing.headers++
  framing.bytes += name.length + value.length + 4
  if (name === 'content-length') {
    framing.contentLengths++
    framing.contentLength = value
  } else if (name === 'transfer-encoding') {
    framing.transferEncodings++
    framing.transferEncoding = value
  } else if (name === 'authorization') framing.authorizations++
}

/** Why the request is rejected and its connection cut; null: it is not. */
export function framingFault(framing: Framing): ApiError | null {
  const complaint = complaintAbout(framing)
  if (complaint !== null) return new ApiError('bad_request', { message: complaint })
  if (framing.headers > resourceLimits.headers) {
    const message = `The request has more than ${resourceLimits.headers} headers.`
    return new ApiError('headers_too_large', { message })
  }
  return framing.bytes > resourceLimits.headBytes ? new ApiError('headers_too_large') : null
}

function complaintAbout(framing: Framing): string | null {
  const { contentLengths, contentLength, transferEncodings, transferEncoding } = framing
  if (contentLengths > 1) return 'More than one Content-Length.'
  if (transferEncodings > 1) return 'More than one Transfer-Encoding.'
  if (contentLengths === 1 && transferEncodings === 1) return 'Both Content-Length and Transfer-Encoding.'
  if (transferEncodings === 1 && transferEncoding.trim().toLowerCase() !== 'chunked') {
    return 'Transfer-Encoding must be chunked.'
  }
  if (contentLengths === 1 && !/^\d{1,15}$/.test(contentLength.trim()))
    return 'Content-Length is not a number.'
  return null
}
