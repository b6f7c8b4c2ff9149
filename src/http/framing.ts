/**
 * Whether a request's framing headers can be trusted. uWebSockets' parser takes two Content-Lengths and any
 * Transfer-Encoding; a proxy in front may read the same bytes otherwise and be made to smuggle a request past it.
 * So both, two of either, or a Transfer-Encoding other than `chunked` are refused with 400 and the connection closed.
 */
export interface Framing {
  contentLengths: number
  contentLength: string
  transferEncodings: number
  transferEncoding: string
}

/** What is wrong, for the client; null when nothing is. */
export function framingFault(framing: Framing): string | null {
  if (framing.contentLengths > 1) return 'More than one Content-Length.'
  if (framing.transferEncodings > 1) return 'More than one Transfer-Encoding.'
  if (framing.contentLengths === 1 && framing.transferEncodings === 1) {
    return 'Both Content-Length and Transfer-Encoding.'
  }
  if (framing.transferEncodings === 1 && framing.transferEncoding.trim().toLowerCase() !== 'chunked') {
    return 'Transfer-Encoding must be chunked.'
  }
  if (framing.contentLengths === 1 && !/^\d{1,15}$/.test(framing.contentLength.trim())) {
    return 'Content-Length is not a number.'
  }
  return null
}
