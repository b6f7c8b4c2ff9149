/**
 * The guards of every connection to a destination, raw or TLS: the other side may be malicious, or merely the wrong
 * server.
 *
 *   bytes read      counted per attempt; over the limit the socket is destroyed (`response_too_large`)
 *   a parser throws a client library parses in the socket's `data` event, where an exception would end the process:
 *                   it is caught, the socket destroyed (`protocol_error`)
 *   errors          always have a listener, also after the library has let go of the socket
 */
import type { Socket } from 'node:net'
import { resourceLimits } from '../contract/resource-limits.ts'
import { DeliveryError } from './driver.ts'

/** Counts what a driver reads during one attempt, on all of its sockets. */
export class ReadLimit {
  #bytes = 0
  #error: DeliveryError | null = null

  /** An attempt begins. */
  begin(): void {
    this.#bytes = 0
    this.#error = null
  }

  /** Why reading was ended during this attempt; null: it was not. Client libraries bury the error of a socket. */
  get error(): DeliveryError | null {
    return this.#error
  }

  /** The error once there is too much. */
  count(bytes: number): DeliveryError | null {
    this.#bytes += bytes
    if (this.#bytes > resourceLimits.destinationReadBytes) this.#error ??= tooLarge()
    return this.#error
  }
}

/** Changes the socket itself, so that it stays the object that libraries expect. */
export function guardSocket<T extends Socket>(socket: T, reads?: ReadLimit): T {
  socket.on('error', () => {})
  const { push } = socket
  Object.assign(socket, {
    // Everything that is read comes through here first, whatever the reader.
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
 * Listeners to `data` get the result of `filter`, nothing if it is empty. An error that it or they throw ends the
 * socket.
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

/** A DeliveryError that a parser threw is kept: it knows more. */
export function protocolError(message: string, cause?: unknown): DeliveryError {
  if (cause instanceof DeliveryError) return cause
  return new DeliveryError('transient', 'protocol_error', message, { cause })
}

function tooLarge(): DeliveryError {
  const mebibytes = resourceLimits.destinationReadBytes / 1024 / 1024
  const message = `The destination sent more than ${mebibytes} MiB during one attempt; the connection was dropped.`
  return new DeliveryError('transient', 'response_too_large', message)
}
