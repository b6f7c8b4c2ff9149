/**
 * Requests to one endpoint. Redirects are never followed: they would bypass the egress policy and send the credentials
 * to another server. `timeout_ms` covers a request from the look-up to the end of the status line.
 */
import { setMaxListeners } from 'node:events'
import { type Dispatcher, errors, Pool } from 'undici'
import { hasSecretPath } from '../../contract/destination-secrets.ts'
import { version } from '../../platform/version.ts'
import { configuredSecrets } from '../configured-secrets.ts'
import { DeliveryError, type DriverSettings, type HttpEndpointSpec } from '../driver.ts'
import { ellipsis } from '../error-text.ts'
import { protocolError, ReadLimit } from '../guarded-socket.ts'
import { networkError } from '../network-error.ts'
import { aborted } from '../one-by-one.ts'
import { untilStopped } from '../until-stopped.ts'
import { egressConnector } from './egress-connector.ts'
import type { EndpointResponse } from './errors.ts'
import { type ExchangeDescriber, exchangeDescriber } from './exchange.ts'
import { basicAuthorization, httpSecrets } from './header-rules.ts'

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
