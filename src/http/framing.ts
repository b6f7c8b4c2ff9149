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

export function noFraming(): Framing {
  return { contentLengths: 0, contentLength: '', transferEncodings: 0, transferEncoding: '' }
}

/** Takes in one header; others than the two are passed over. `name` in lower case. */
export function noteFraming(framing: Framing, name: string, value: string): void {
  if (name === 'content-length') {
    framing.contentLengths++
    framing.contentLength = value
  } else if (name === 'transfer-encoding') {
    framing.transferEncodings++
    framing.transferEncoding = value
  }
}

/** What is wrong, for the client; null when nothing is. */
export function framingFault(framing: Framing): string | null {
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
