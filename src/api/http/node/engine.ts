/**
 * The engine on node:http, for systems on which no native binding loads, or where a strict parser is worth more than
 * speed. It is imported only when it is chosen.
 *
 * Behavior of node:http that this code works around:
 * - its own rejections have no body: each of them is replaced by ours;
 * - headers beyond `maxHeadersCount` are dropped silently: the limit is switched off, and `noteHeader` counts them;
 * - it executes requests that were sent after one whose response closes the connection: `connection.ts` does not;
 * - its `close` also ends idle connections: net's own `close` only stops listening;
 * - it accepts connections until no descriptor is left: `#accept` leaves enough for everything else.
 */
import { constants } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import { Server as NetServer, type Socket } from 'node:net'
import { ApiError } from '../../../contract/errors.ts'
import { resourceLimits } from '../../../contract/resource-limits.ts'
import { errorCode } from '../../../platform/error-code.ts'
import type { ServedCertificate } from '../../tls/certificate-files.ts'
import type { ConnectionQuota } from '../connection-quota.ts'
import { maxConnections } from '../descriptor-guard.ts'
import { type Handler, type HttpEngine, type Listener, type ListenerOptions, patienceMs } from '../engine.ts'
import type { RequestHead } from '../exchange.ts'
import { AddressInUseError, ListenError } from '../listen.ts'
import { type HttpResponse, statusLine } from '../response.ts'
import { addressBytes, Connection } from './connection.ts'
import { NodeExchange } from './exchange.ts'
import { PathTable } from './path-table.ts'

export function createEngine(quota: ConnectionQuota): HttpEngine {
  const openSockets = { sockets: new Set<Socket>(), max: maxConnections(), quota }
  return { name: 'node', createListener: (options) => new NodeListener(options, openSockets) }
}

/** The connections of all listeners, and their limits. */
interface OpenSockets {
  /** All open sockets, whether or not their TLS handshake is complete. */
  sockets: Set<Socket>
  max: number
  quota: ConnectionQuota
}

const checkEveryMs = 1_000

class NodeListener implements Listener {
  readonly #options: ListenerOptions
  readonly #paths: PathTable
  readonly #openSockets: OpenSockets
  readonly #own = new Set<Socket>()
  /** The connections by their socket: with TLS, the decrypted one. */
  readonly #connections = new Map<Socket, Connection>()
  readonly #server: Server | TlsServer
  readonly #checks: NodeJS.Timeout
  #port: number

  constructor(options: ListenerOptions, openSockets: OpenSockets) {
    this.#options = options
    this.#paths = new PathTable(options.paths)
    this.#openSockets = openSockets
    this.#port = options.address.port
    this.#server = this.#createServer()
    this.#server.maxHeadersCount = 0
    this.#server.on('connection', (socket) => this.#accept(socket))
    this.#server.on(options.certificate ? 'secureConnection' : 'connection', (socket) => this.#open(socket))
    this.#server.on('request', (request, response) => this.#serve(request, response, false))
    this.#server.on('checkContinue', (request, response) => this.#serve(request, response, true))
    this.#server.on('checkExpectation', (request, response) => this.#serve(request, response, false))
    this.#server.on('clientError', (error, socket) => this.#reject(error, socket as Socket))
    this.#checks = setInterval(() => {
      const nowMs = performance.now()
      for (const connection of this.#connections.values()) connection.check(nowMs)
    }, checkEveryMs)
    this.#checks.unref()
  }

  get port(): number {
    return this.#port
  }

  async listen(): Promise<void> {
    if (this.#server.listening) return
    const { name, address } = this.#options
    await new Promise<void>((resolve, reject) => {
      const failed = (error: NodeJS.ErrnoException) => {
        reject(
          error.code === 'EADDRINUSE'
            ? new AddressInUseError(name, address)
            : new ListenError(name, address, error.code ?? error.message),
        )
      }
      this.#server.once('error', failed)
      this.#server.listen({ host: address.host, port: this.#port, exclusive: true }, () => {
        this.#server.off('error', failed)
        resolve()
      })
    })
    const bound = this.#server.address()
    if (bound !== null && typeof bound === 'object') this.#port = bound.port
  }

  stop(): void {
    if (this.#server.listening) NetServer.prototype.close.call(this.#server)
  }

  close(): void {
    this.stop()
    clearInterval(this.#checks)
    for (const socket of this.#own) socket.destroy()
    this.#server.close()
  }

  #createServer(): Server | TlsServer {
    const { certificate } = this.#options
    const limits = {
      maxHeaderSize: 2 * resourceLimits.headBytes,
      headersTimeout: patienceMs,
      keepAliveTimeout: patienceMs,
      // `connection.ts` limits bodies instead: a large body can take long as long as it makes progress.
      requestTimeout: 0,
      connectionsCheckingInterval: checkEveryMs,
      requireHostHeader: false,
      insecureHTTPParser: false,
    }
    if (certificate == null) return createServer(limits)
    const server = createTlsServer({
      ...limits,
      ...secureOptions(certificate.current),
      handshakeTimeout: patienceMs,
    })
    certificate.onChange((next) => server.setSecureContext(secureOptions(next)))
    return server
  }

  #accept(socket: Socket): void {
    const { sockets, max, quota } = this.#openSockets
    const release = sockets.size < max ? quota.take(addressBytes(socket.remoteAddress)) : null
    if (release === null) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    this.#own.add(socket)
    socket.once('close', () => {
      release()
      sockets.delete(socket)
      this.#own.delete(socket)
    })
  }

  #open(socket: Socket): void {
    if (socket.destroyed) return
    this.#connections.set(socket, new Connection(socket))
    socket.once('close', () => this.#connections.delete(socket))
  }

  #serve(request: IncomingMessage, response: ServerResponse, awaitsContinue: boolean): void {
    const connection = this.#connections.get(request.socket)
    if (connection === undefined || !connection.mayServe()) return
    const { begin, failed } = this.#options
    const exchange = new NodeExchange({ request, response }, connection, awaitsContinue, begin())
    try {
      if (request.httpVersion === '1.1' && request.headers.host === undefined) {
        exchange.sendAndCut(failed(new ApiError('bad_request', { message: 'The header Host is missing.' })))
      } else this.#handle(request, exchange)
    } catch (error) {
      exchange.send(failed(error), true)
    }
    exchange.dropUnwantedBody()
  }

  #handle(request: IncomingMessage, exchange: NodeExchange): void {
    const { method = '' } = request
    const url = originForm(request)
    const mark = url.indexOf('?')
    const found = this.#paths.find(mark < 0 ? url : url.slice(0, mark))
    const handler: Handler =
      found === null ? this.#options.notFound : (found.served.methods.get(method) ?? found.served.rest)
    handler(new NodeHead(request, method, mark < 0 ? '' : url.slice(mark + 1), found?.params ?? {}), exchange)
  }

  /** Handles errors of the parser, and those of sockets, whose codes do not begin with HPE_. */
  #reject(error: unknown, socket: Socket): void {
    const code = errorCode(error)
    const isFault = code?.startsWith('HPE_') === true
    const fault = code === 'HPE_HEADER_OVERFLOW' ? 'headers_too_large' : 'bad_request'
    const response = isFault ? asBytes(this.#options.failed(new ApiError(fault))) : null
    const connection = this.#connections.get(socket)
    if (connection === undefined) socket.destroy()
    else connection.reject(response)
  }
}

/**
 * The path and query of a request. A client can send them with the origin in front, as to a proxy (RFC 9112, 3.2.2).
 * That origin must be the one in Host: if a proxy trusted one of the two and we the other, they would disagree about
 * the request.
 */
function originForm({ url = '', headers, httpVersion }: IncomingMessage): string {
  const absolute = /^https?:\/\/([^/?#]*)(.*)$/i.exec(url)
  if (absolute === null) return url
  const [, authority = '', rest = ''] = absolute
  if (httpVersion === '1.1' && authority.toLowerCase() !== headers.host?.toLowerCase()) {
    throw new ApiError('bad_request', {
      message: 'The request target and the header Host name different hosts.',
    })
  }
  return rest.startsWith('/') ? rest : `/${rest}`
}

class NodeHead implements RequestHead {
  readonly #rawHeaders: readonly string[]
  readonly #params: Readonly<Record<string, string>>
  readonly method: string
  readonly query: string

  constructor(
    request: IncomingMessage,
    method: string,
    query: string,
    params: Readonly<Record<string, string>>,
  ) {
    this.#rawHeaders = request.rawHeaders
    this.#params = params
    this.method = method
    this.query = query
  }

  param(name: string): string {
    return this.#params[name] ?? ''
  }

  eachHeader(take: (name: string, value: string) => void): void {
    const raw = this.#rawHeaders
    for (let at = 0; at + 1 < raw.length; at += 2) take(raw[at]!.toLowerCase(), raw[at + 1]!)
  }
}

/** Renegotiation costs the server more than the client, and no client needs it. */
function secureOptions({ cert, key }: ServedCertificate) {
  return { cert, key, minVersion: 'TLSv1.2' as const, secureOptions: constants.SSL_OP_NO_RENEGOTIATION }
}

function asBytes({ status, headers, body }: HttpResponse): Buffer {
  const fields = [...headers, ['Connection', 'close'], ['Content-Length', String(body?.byteLength ?? 0)]]
  const head = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([
    Buffer.from(`HTTP/1.1 ${statusLine(status)}\r\n${head}\r\n`),
    body ?? Buffer.alloc(0),
  ])
}
