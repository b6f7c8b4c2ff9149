/**
 * Removes interim responses (RFC 9110 15.2) from what undici reads. A client must accept any number of them before the
 * response, even without asking for one. undici ends the connection at a `100 Continue`, whether or not the request was
 * stored.
 *
 *   head of a request is written ──▶ at the start of a response ──"HTTP/1.1 1xx …\r\n\r\n"──▶ dropped, the same again
 *                                          └── any other byte, or too much ──▶ everything passes until the next request
 *
 * 101 is passed on: the protocol is never switched, and undici ends such a connection.
 */
import type { Socket } from 'node:net'
import { resourceLimits } from '../../contract/resource-limits.ts'

const headEnd = Buffer.from('\r\n\r\n')

/**
 * Modifies the socket itself, so that undici sees the object it expects. undici writes bodies as buffers and heads as
 * text.
 */
export function withoutInterimResponses<T extends Socket>(socket: T): T {
  const { push, write } = socket
  let isAtStart = false
  let dropped = 0
  let held: Buffer = Buffer.alloc(0)
  const pass = (bytes: Buffer) => {
    isAtStart = false
    held = Buffer.alloc(0)
    return bytes.length === 0 || Reflect.apply(push, socket, [bytes])
  }
  /** Drops complete interim responses. True: `held` is the beginning of another one, and within the limit. */
  const dropInterim = () => {
    while (isInterim(held)) {
      const end = held.indexOf(headEnd)
      if (end === -1) return held.length <= resourceLimits.interimResponseBytes
      dropped += end
      if (dropped > resourceLimits.interimResponseBytes) return false
      held = held.subarray(end + headEnd.length)
    }
    return false
  }
  return Object.assign(socket, {
    write(...args: unknown[]): boolean {
      if (typeof args[0] === 'string') {
        isAtStart = true
        dropped = 0
      }
      return Reflect.apply(write, socket, args)
    },
    push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
      if (chunk === null || !isAtStart) {
        if (held.length > 0) pass(held)
        return Reflect.apply(push, socket, [chunk, encoding])
      }
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
      return dropInterim() || pass(held)
    },
  })
}

/** True if the bytes are an interim response, or the beginning of one. */
function isInterim(bytes: Buffer): boolean {
  const start = bytes.toString('latin1', 0, 'HTTP/1.1 1'.length).replace('/1.0', '/1.1')
  const digits = bytes.toString('latin1', 'HTTP/1.1 1'.length, 'HTTP/1.1 100'.length)
  return 'HTTP/1.1 1'.startsWith(start) && /^\d{0,2}$/.test(digits) && digits !== '01'
}
