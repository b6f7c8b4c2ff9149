/**
 * HTTP endpoint driver: a batch is one request (`json_array`, `ndjson`) or one request a record (`json_object`).
 *
 * One keep-alive connection a lane, one request on it at a time. Redirects are never followed: they would lead past
 * the egress policy and hand the credentials to someone else. `timeout_ms` bounds a request from look-up to the last
 * byte of the status line. With `json_object` the records go in order and the first refused one ends the attempt;
 * the next attempt begins with the first record again, so an endpoint sees records before the failing one more than
 * once, each time under the same `webhook-id`.
 */
import { Client, type Dispatcher } from 'undici'
import type { HttpEndpointConfig } from '../contract/destination.ts'
import { version } from '../version.ts'
import { blaming } from './blame.ts'
import { type Batch, DeliveryError, type DriverModule, type EgressPolicy } from './driver.ts'
import { egressConnector } from './egress.ts'
import { answerError, concernsWholeDestination } from './http-endpoint-answer.ts'
import {
  compress,
  contentType,
  type RequestBody,
  requestBodies,
  webhookHeaders,
} from './http-endpoint-body.ts'
import { networkError } from './network-error.ts'

const excerptBytes = 4096
const defaultTimeoutMs = 15_000
const userAgent = `pipectl/${version()}`

export const httpEndpoint: DriverModule = {
  open(spec, settings) {
    const config = spec.config as HttpEndpointConfig
    const client = openClient(config, settings.egress)
    return {
      deliver: (batch, signal) => deliver(client, config, batch, signal),
      close: () => client.destroy(),
    }
  },
  /** Any HTTP answer to a HEAD request shows that the URL is reachable; nothing is posted. */
  async check(spec, settings, signal) {
    const config = spec.config as HttpEndpointConfig
    const client = openClient(config, settings.egress)
    const name = 'url_reachable'
    try {
      const answer = await request(client, config, { method: 'HEAD', headers: baseHeaders(config) }, signal)
      const message = `The endpoint answers (${answer.status} to a HEAD request).`
      return [{ name, ok: true, message }]
    } catch (error) {
      return [{ name, ok: false, message: networkError(error, 'The endpoint').message }]
    } finally {
      await client.destroy()
    }
  },
}

function openClient(config: HttpEndpointConfig, egress: EgressPolicy): Client {
  return new Client(new URL(config.url).origin, {
    connect: egressConnector(egress),
    pipelining: 1,
    // Shorter than the usual 5 s of servers: a request on a connection they have just closed is lost.
    keepAliveTimeout: 4_000,
    // The request's own deadline is the only one.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
}

async function deliver(
  client: Client,
  config: HttpEndpointConfig,
  batch: Batch,
  signal: AbortSignal,
): Promise<void> {
  try {
    for (const body of requestBodies(batch, config.body_format ?? 'json_array')) {
      await deliverBody(client, config, batch, body, signal)
    }
  } catch (error) {
    // The policy refuses the endpoint, not a message.
    const isRefusal = error instanceof DeliveryError && error.code === 'egress_denied'
    throw isRefusal ? blaming(error, batch.firstSeq) : error
  }
}

async function deliverBody(
  client: Client,
  config: HttpEndpointConfig,
  batch: Batch,
  body: RequestBody,
  signal: AbortSignal,
): Promise<void> {
  const isGzip = config.compression === 'gzip'
  const sent = isGzip ? await compress(body.body) : body.body
  const headers = {
    ...baseHeaders(config),
    'content-type': contentType(config.body_format ?? 'json_array'),
    ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
    ...webhookHeaders(body, sent, Date.now(), config.signing_secret),
  }
  const answer = await request(
    client,
    config,
    { method: config.method ?? 'POST', headers, body: sent },
    signal,
  )
  const failedSeq = concernsWholeDestination(answer.status) ? batch.firstSeq : body.seq
  const error = answerError(answer, Date.now(), { secrets: secretsOf(config), failedSeq })
  if (error) throw error
}

function baseHeaders(config: HttpEndpointConfig): Record<string, string> {
  const headers: Record<string, string> = { 'user-agent': userAgent, accept: '*/*' }
  for (const [name, value] of Object.entries(config.headers ?? {})) headers[name.toLowerCase()] = value
  if (config.auth_header) headers.authorization = config.auth_header
  return headers
}

type RequestOptions = Pick<Dispatcher.RequestOptions, 'method' | 'headers' | 'body'>

async function request(
  client: Client,
  config: HttpEndpointConfig,
  options: RequestOptions,
  signal: AbortSignal,
) {
  const timeoutMs = config.timeout_ms ?? defaultTimeoutMs
  const deadline = AbortSignal.timeout(timeoutMs)
  const { pathname, search } = new URL(config.url)
  try {
    const stop = AbortSignal.any([signal, deadline])
    const answer = await client.request({ ...options, path: pathname + search, signal: stop })
    const excerpt = await readExcerpt(answer.body)
    return { status: answer.statusCode, headers: answer.headers, excerpt }
  } catch (error) {
    if (signal.aborted)
      throw new DeliveryError('transient', 'aborted', 'The attempt was ended before it was done.')
    if (deadline.aborted) {
      const message = `The endpoint had not answered after ${timeoutMs / 1000} s (timeout_ms).`
      throw new DeliveryError('transient', 'timeout', message, { cause: error })
    }
    throw networkError(error, 'The endpoint')
  }
}

/**
 * The beginning of an answer's body. The status has settled the batch's fate already: a body that is cut off, endless
 * or slower than a second changes nothing, it only costs the connection.
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
    // What was read so far will do.
  } finally {
    clearTimeout(patience)
    body.on('error', () => {})
    body.destroy()
  }
  return Buffer.concat(chunks).subarray(0, excerptBytes).toString('utf8')
}

/** Every value that must not come back in an error, and the bare token of an Authorization value. */
function secretsOf(config: HttpEndpointConfig): string[] {
  const auth = config.auth_header ?? ''
  const token = auth.slice(auth.indexOf(' ') + 1)
  return [auth, token, config.signing_secret ?? '', ...Object.values(config.headers ?? {})].filter(Boolean)
}
