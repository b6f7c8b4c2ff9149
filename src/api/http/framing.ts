/**
 * Decides whether a request's head can be trusted: where its body ends, who sends it, how large it is. The parser of
 * uWebSockets accepts two Content-Lengths and any Transfer-Encoding, and that of node:http accepts `gzip, chunked`. A
 * proxy in front can read the same bytes differently, and an attacker could use that to smuggle a request past it. A
 * request is therefore rejected, on every path, if it has both headers, two of either, or a Transfer-Encoding other
 * than `chunked`. Nothing that comes after it on the connection is executed.
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
  /** The size of all headers: names, values and separators. */
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

/** Adds one header. `name` is in lower case. */
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

/** The error with which the request is rejected and its connection cut. Null if the head is valid. */
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
