/**
 * Requests to one endpoint. Redirects are never followed: they would bypass the egress policy and send the credentials
 * to another server. `timeout_ms` covers a request from the look-up to the end of the status line.
 */
import { setMaxListeners } from 'node:events'
import type { Socket } from 'node:net'
import { buildConnector, type Dispatcher, errors, Pool } from 'undici'
import { hasSecretPath } from '../../contract/destination-secrets.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { version } from '../../platform/version.ts'
import { configuredSecrets } from '../configured-secrets.ts'
import { DeliveryError, type DriverSettings, type EgressPolicy, type HttpEndpointSpec } from '../driver.ts'
import { dial } from '../egress.ts'
import { ellipsis } from '../error-text.ts'
import { guardSocket, protocolError, ReadLimit, untilStopped } from '../guards.ts'
import { networkError } from '../network-error.ts'
import { aborted } from '../one-by-one.ts'
import { basicAuthorization, httpSecrets } from './header-rules.ts'
import { type EndpointResponse, type ExchangeDescriber, exchangeDescriber } from './response.ts'

const excerptBytes = 4096
const userAgent = `pipectl/${version()}`

export interface Endpoint extends ExchangeDescriber {
  /** Rejects with a DeliveryError if there is no response. `headers` are added to the destination's own. */
  send(request: EndpointRequest, signal: AbortSignal): Promise<EndpointResponse>
  /** Every value that must not appear in an error. */
  readonly secrets: readonly string[]
  close(): Promise<void>
}

export interface EndpointRequest {
  method: 'POST' | 'PUT' | 'HEAD'
  headers?: Record<string, string>
  body?: Buffer
  /** Read the whole response body, within the attempt's time and byte limits, because the body decides the outcome. */
  isWhole?: boolean
}

export function openEndpoint(spec: HttpEndpointSpec, settings: DriverSettings): Endpoint {
  const { config, concurrency = 1 } = spec
  const url = new URL(config.url)
  const reads = new ReadLimit()
  const closing = new AbortController()
  // Every connection in progress adds a listener.
  setMaxListeners(concurrency + 10, closing.signal)
  const pool = new Pool(url.origin, {
    connect: egressConnector(settings.egress, reads, closing.signal),
    connections: concurrency,
    pipelining: 1,
    // Shorter than the usual 5 s of servers: a request on a connection that the server has just closed is lost.
    keepAliveTimeout: 4_000,
    // Only the request's own deadline applies.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
  const path = url.pathname + url.search
  const own = ownHeaders(config)
  const secrets = configuredSecrets(spec, httpSecrets(config))
  const isPathSecret = hasSecretPath(spec.type, { ...config })
  return {
    ...exchangeDescriber(spec, { secrets, isPathSecret, headers: own }),
    secrets,
    async close() {
      closing.abort()
      await pool.destroy()
    },
    async send({ method, headers, body = null, isWhole = false }, signal) {
      const deadline = AbortSignal.timeout(config.timeout_ms)
      const stop = AbortSignal.any([signal, deadline])
      // An attempt can have a thousand requests, each with its own response.
      reads.begin()
      try {
        const request = { path, method, body, signal: stop, headers: { ...own, ...headers } }
        // undici aborts a request that was sent, but one that waits for a connection would keep waiting. It is then not
        // sent.
        const response = await untilStopped(pool.request(request), stop)
        const isRead = isWhole && response.statusCode >= 200 && response.statusCode < 300
        const excerpt = isRead
          ? await untilStopped(response.body.text(), stop)
          : await readExcerpt(response.body)
        return { status: response.statusCode, headers: response.headers, excerpt }
      } catch (error) {
        if (signal.aborted) throw aborted()
        if (reads.error) throw reads.error
        if (deadline.aborted) throw late(config.timeout_ms, error)
        throw connectionError(error)
      }
    },
  }
}

function connectionError(error: unknown): DeliveryError {
  return error instanceof errors.HTTPParserError
    ? protocolError('The endpoint sent data that is not an HTTP response.', error)
    : networkError(error, 'The endpoint')
}

/** The endpoint may still have stored the request. */
function late(timeoutMs: number, cause: unknown): DeliveryError {
  const message = `The endpoint did not respond within ${timeoutMs / 1000} s (timeout_ms).`
  return new DeliveryError('transient', 'timeout', message, { timedOut: 'unknown', cause })
}

function ownHeaders(config: HttpEndpointSpec['config']): Record<string, string> {
  const headers: Record<string, string> = { 'user-agent': userAgent, accept: '*/*' }
  for (const [name, value] of Object.entries({ ...config.headers, ...config.secret_headers }))
    headers[name.toLowerCase()] = value
  const authorization = config.auth_header ?? basicAuthorization(config.url)
  if (authorization !== null) headers.authorization = authorization
  return headers
}

/**
 * Reads the beginning of a response's body. The status has already decided about the batch, so a body that is cut off,
 * endless or slower than a second only costs the connection.
 */
async function readExcerpt(body: Dispatcher.ResponseData['body']): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  const patience = setTimeout(() => body.destroy(), 1_000)
  try {
    for await (const chunk of body) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > excerptBytes) break
    }
  } catch {
    // The bytes that were read are enough.
  } finally {
    clearTimeout(patience)
    body.on('error', () => {})
    body.destroy()
  }
  const excerpt = Buffer.concat(chunks).subarray(0, excerptBytes).toString('utf8')
  // A cut text may end with the beginning of a secret. The ellipsis tells `withoutSecrets` to remove it.
  return bytes > excerptBytes ? `${excerpt}${ellipsis}` : excerpt
}

/**
 * A `connect` option for undici. SNI and the Host header keep the name; only the address is chosen here. Aborting
 * `closing` ends connections in progress, for example to a server that never answers the TLS handshake: undici itself
 * ends only established ones.
 */
function egressConnector(
  policy: EgressPolicy,
  reads: ReadLimit,
  closing: AbortSignal,
): buildConnector.connector {
  const secure = buildConnector({ timeout: 10_000 })
  return (options, callback) => {
    const isTls = options.protocol === 'https:'
    const port = Number(options.port) || (isTls ? 443 : 80)
    dial({ host: options.hostname, port }, policy, { reads, signal: closing }).then(
      (socket) => {
        if (!isTls) return callback(null, withoutInterimResponses(socket))
        const drop = () => socket.destroy()
        closing.addEventListener('abort', drop, { once: true })
        secure({ ...options, httpSocket: socket }, (...[error, secured]) => {
          closing.removeEventListener('abort', drop)
          if (error !== null) callback(error, null)
          else callback(null, withoutInterimResponses(guardSocket(secured, reads)))
        })
      },
      (error) => callback(error, null),
    )
  }
}

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

/** One request of an attempt. */
export interface RequestBody {
  /** The same for every attempt, so that the receiver can detect a repetition. */
  webhookId: string
  body: Buffer
  /** The first message in this request. */
  firstSeq: number
  /**
   * Set if the request holds only one record, or one message whose records the endpoint does not distinguish (null).
   */
  only?: { seq: number; recordIndex: number | null }
}
