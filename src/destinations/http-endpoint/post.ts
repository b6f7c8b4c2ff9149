/**
 * Sends one JSON text to an endpoint outside any lane; used for alerts. The rules for destinations apply: egress
 * policy, no redirects, deadlines, bounded responses, a signature, and no secrets in results.
 */
import { resolvedConfig } from '../../contract/destinations/config-field.ts'
import { httpEndpoint } from '../../contract/destinations/http-endpoint.fields.ts'
import { urlSecrets } from '../../contract/secret-url.ts'
import { DeliveryError, type DriverSettings, type HttpEndpointSpec } from '../driver.ts'
import { cleanText, withoutSecrets } from '../error-text.ts'
import { networkError } from '../network-error.ts'
import { webhookHeaders } from './driver.ts'
import { openEndpoint } from './request.ts'
import { type EndpointResponse, printable, quoted, retryAfterMs, sentMs } from './response.ts'

export interface Post {
  url: string
  /** `whsec_…`; null: the request is not signed. */
  secret: string | null
  /** The path of the URL is a secret too. */
  isPathSecret: boolean
  /** The `webhook-id`, the same for every attempt. */
  id: string
  body: string
  timeoutMs: number
}

export interface PostOutcome {
  /** The response has a status from 200 to 299. */
  ok: boolean
  /** Null: there was no response. */
  status: number | null
  /** `http_204`, `timeout`, `egress_denied`, … */
  code: string
  /** One line for users, without secrets. */
  message: string
  /** The receiver asked for this pause. */
  retryAfterMs: number | null
}

/** Never rejects for an error of the endpoint or the network. */
export async function postOnce(
  post: Post,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<PostOutcome> {
  const endpoint = openEndpoint(specOf(post), settings)
  const secrets = [...endpoint.secrets, ...urlSecrets(post.url, post.isPathSecret)]
  const scrubbed = (text: string) => cleanText(withoutSecrets(text, secrets))
  try {
    const body = Buffer.from(post.body)
    const signed = webhookHeaders({ webhookId: post.id, body, firstSeq: 0 }, Date.now(), post.secret)
    const headers = { 'content-type': 'application/json', ...signed }
    const response = await endpoint.send({ method: 'POST', headers, body }, signal)
    const { status } = response
    const ok = status >= 200 && status < 300
    return {
      ok,
      status,
      code: `http_${status}`,
      message: scrubbed(
        `The receiver responded ${status}${redirectNote(response)}.${quoted(response, secrets)}`,
      ),
      retryAfterMs: ok
        ? null
        : (retryAfterMs(response.headers['retry-after'], sentMs(response) ?? Date.now()) ?? null),
    }
  } catch (error) {
    const found = error instanceof DeliveryError ? error : networkError(error, 'The receiver')
    const message = scrubbed(found.message.replace(/^The endpoint/, 'The receiver'))
    return { ok: false, status: null, code: found.code, message, retryAfterMs: null }
  } finally {
    await endpoint.close()
  }
}

function specOf({ url, secret, timeoutMs }: Post): HttpEndpointSpec {
  return {
    type: 'destination_http_endpoint',
    destinationId: '',
    pipeId: '',
    pipeName: '',
    columns: [],
    timestampField: '',
    config: resolvedConfig(httpEndpoint.fields, { url, signing_secret: secret, timeout_ms: timeoutMs }),
  }
}

function redirectNote({ status, headers }: EndpointResponse): string {
  if (status < 300 || status >= 400) return ''
  const location = Array.isArray(headers.location) ? headers.location[0] : headers.location
  const target = location ? ` to ${printable(location.replace(/[?#].*$/s, ''), 200)}` : ''
  return `, a redirect${target}, which is not followed: set url to the final address`
}
