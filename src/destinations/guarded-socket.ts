/**
 * Guards for every connection to a destination, raw or TLS. The server may be malicious, or simply the wrong one.
 *
 *   bytes read      counted per attempt; above the limit the socket is destroyed (`response_too_large`)
 *   parser throws   client libraries parse in the socket's `data` event, where an exception would end the process:
 *                   it is caught and the socket destroyed (`protocol_error`)
 *   errors          always have a listener, even after the library has detached from the socket
 */
import type { Socket } from 'node:net'
import { resourceLimits } from '../contract/resource-limits.ts'
import { DeliveryError } from './driver.ts'

/** Counts the bytes that a driver reads during one attempt, on all of its sockets. */
export class ReadLimit {
  #bytes = 0
  #error: DeliveryError | null = null

  /** Starts the count of a new attempt. */
  begin(): void {
    this.#bytes = 0
    this.#error = null
  }

  /** The reason why reading was stopped during this attempt, or null. Client libraries hide a socket's error. */
  get error(): DeliveryError | null {
    return this.#error
  }

  /** Returns the error once the limit is exceeded. */
  count(bytes: number): DeliveryError | null {
    this.#bytes += bytes
    if (this.#bytes > resourceLimits.destinationReadBytes) this.#error ??= tooLarge()
    return this.#error
  }
}

/** Modifies the socket itself, so that libraries see the object they expect. */
export function guardSocket<T extends Socket>(socket: T, reads?: ReadLimit): T {
  socket.on('error', () => {})
  const { push } = socket
  Object.assign(socket, {
    // All bytes that are read pass through here, whatever the reader.
    push(chunk: Buffer | null, encoding?: BufferEncoding): boolean {
      const error = chunk === null ? null : reads?.count(chunk.length)
      if (!error) return Reflect.apply(push, socket, [chunk, encoding])
      socket.destroy(error)
      return false
    },
  })
  return filterData(socket, (chunk) => chunk)
}

/**
 * Passes the result of `filter` to the listeners of `data`, or nothing if it is empty. An error thrown by the filter or
 * a listener destroys the socket.
 */
export function filterData<T extends Socket>(socket: T, filter: (chunk: Buffer) => Buffer): T {
  const { emit } = socket
  return Object.assign(socket, {
    emit(event: string, ...args: unknown[]): boolean {
      const [chunk] = args
      if (event !== 'data' || !Buffer.isBuffer(chunk)) return Reflect.apply(emit, socket, [event, ...args])
      try {
        const passed = filter(chunk)
        return passed.length > 0 && Reflect.apply(emit, socket, [event, passed])
      } catch (error) {
        socket.destroy(protocolError('The server sent data that its protocol does not allow.', error))
        return true
      }
    },
  })
}

/** Keeps a DeliveryError that a parser threw, since it is more specific. */
export function protocolError(message: string, cause?: unknown): DeliveryError {
  if (cause instanceof DeliveryError) return cause
  return new DeliveryError('transient', 'protocol_error', message, { cause })
}

function tooLarge(): DeliveryError {
  const mebibytes = resourceLimits.destinationReadBytes / 1024 / 1024
  const message = `The destination sent more than ${mebibytes} MiB during one attempt; the connection was dropped.`
  return new DeliveryError('transient', 'response_too_large', message)
}
