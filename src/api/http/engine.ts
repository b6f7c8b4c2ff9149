/**
 * The port to HTTP libraries. An engine listens, parses, finds the path's handler and gives it an `Exchange`. The
 * routes and all of their rules are the same for every engine.
 *
 * Guarantees of an engine, whatever a client sends:
 * - a connection whose TLS handshake fails, or takes longer than 10 s, is closed;
 * - a connection is closed if it sends nothing for 10 s, if its head is incomplete after 10 s, if its body arrives
 *   slower than 16 KiB/s, or if its client reads the response slower than that over 30 s; a handler can take any
 *   time;
 * - at most twice `headBytes` of a larger head is kept in memory;
 * - no request is executed that arrives after one whose connection is cut.
 */
import type { ListenAddress } from '../../settings/settings.ts'
import type { ListenerCertificate } from '../tls/listener-certificate.ts'
import type { Exchange, RequestHead } from './exchange.ts'
import type { HttpResponse } from './response.ts'

/** The time that a client has to send a head, and to send the next 160 KiB of a body. */
export const patienceMs = 10_000

/** `head` is readable until the handler first waits. Must not throw. */
export type Handler = (head: RequestHead, exchange: Exchange) => void

export interface ServedPath {
  /**
   * With parameters in braces: `/v1/pipes/{pipe_id}`. A literal segment takes precedence over a parameter.
   * `/dashboard/*` matches everything below that no other path matches; it has no methods, only `rest`.
   */
  path: string
  /** By method, in capitals. */
  methods: ReadonlyMap<string, Handler>
  /** For all other methods. */
  rest: Handler
  /** The methods that require a key. */
  keyed?: ReadonlySet<string>
  /** Most requests use this path, so an engine can give it a faster route. */
  isHot?: boolean
}

export interface ListenerOptions {
  /** The key of the setting, for errors. */
  name: string
  address: ListenAddress
  paths: readonly ServedPath[]
  /** Handles every path that is not in `paths`. */
  notFound: Handler
  /** The response to a request that the engine itself rejects or whose handler threw. */
  failed(error: unknown): HttpResponse
  /**
   * Called when a request begins. The engine calls the returned function when the response is handed over or the
   * client has disconnected.
   */
  begin(): () => void
  /**
   * The listener uses TLS with this certificate; when it is replaced, new connections get the new one. Null or
   * absent: plain HTTP.
   */
  certificate?: ListenerCertificate | null
}

/** One surface's listen socket. It can be closed and opened again while open connections continue. */
export interface Listener {
  /** The port, also after `stop`. A port that the system chose stays the same when the listener opens again. */
  readonly port: number
  /** Does nothing if it already listens. Throws ListenError, AddressInUseError. */
  listen(): Promise<void>
  /** Closes the listen socket, immediately or by the time the promise resolves. */
  stop(): void | Promise<void>
  /** Closes every connection as well, including those with a request in progress. */
  close(): void
}

export interface HttpEngine {
  readonly name: 'uws' | 'node'
  /** Creates a listener that does not listen yet. */
  createListener(options: ListenerOptions): Listener
}
