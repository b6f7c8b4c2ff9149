/**
 * The port to HTTP libraries. An engine listens, parses, finds the path's handler and gives it an `Exchange`; the
 * routes and every rule about them are the same for all engines.
 *
 * Guarantees of an engine, whatever arrives from outside:
 * - a TLS handshake that takes longer than 10 s, or is none, ends with its connection;
 * - a connection that sends nothing for 10 s, a head that is incomplete by then, a body slower than 16 KiB/s and a
 *   response that its client reads slower than that over 30 s end with their connection; a handler can take any time;
 * - at most twice `headBytes` of a larger head is kept;
 * - nothing is executed that arrives after a request whose connection is cut.
 */
import type { ListenAddress } from '../../settings/settings.ts'
import type { ListenerCertificate } from '../tls/listener-certificate.ts'
import type { Exchange, RequestHead } from './exchange.ts'
import type { HttpResponse } from './response.ts'

/** The time that a client has for a head, and for the next 160 KiB of a body. */
export const patienceMs = 10_000

/** Runs until it first waits with `head` readable. Must not throw. */
export type Handler = (head: RequestHead, exchange: Exchange) => void

export interface ServedPath {
  /**
   * With parameters in braces: `/v1/pipes/{pipe_id}`. A literal segment wins over a parameter. `/dashboard/*` is everything
   * below that no other path is; it has no methods, only `rest`.
   */
  path: string
  /** By method, in capitals. */
  methods: ReadonlyMap<string, Handler>
  /** For all other methods. */
  rest: Handler
  /** Those of the methods that take a key. */
  keyed?: ReadonlySet<string>
  /** Most requests go there: an engine may take a shorter way. */
  isHot?: boolean
}

export interface ListenerOptions {
  /** For errors: the setting's key. */
  name: string
  address: ListenAddress
  paths: readonly ServedPath[]
  /** For every path that is none of them. */
  notFound: Handler
  /** The response to a request that the engine itself rejects or whose handler threw. */
  failed(error: unknown): HttpResponse
  /** Called when a request begins; what it returns, when its response is handed over or its client has gone. */
  begin(): () => void
  /** Speaks TLS with it, and with what follows it to connections from then on; null or none: plain HTTP. */
  certificate?: ListenerCertificate | null
}

/** One surface's listen socket, which can be closed and opened again while connections go on. */
export interface Listener {
  /** Where it listens, or did: the same one again, also where it was any free one. */
  readonly port: number
  /** Does nothing while it listens. Throws ListenError, AddressInUseError. */
  listen(): Promise<void>
  /** Closes the listen socket: at once, or once it resolves. */
  stop(): void | Promise<void>
  /** Closes every connection as well, including those with a request in progress. */
  close(): void
}

export interface HttpEngine {
  readonly name: 'uws' | 'node'
  /** Nothing listens yet. */
  createListener(options: ListenerOptions): Listener
}
