/** Describes one request and its response for people, without secrets and within bounds. */
import type { AttemptResponse } from '../../contract/attempts.ts'
import { redacted } from '../../contract/destination-words.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { redactedUrl } from '../../contract/secret-url.ts'
import type { AttemptExchange, HttpEndpointSpec } from '../driver.ts'
import { cleanText, secretRemover } from '../error-text.ts'
import type { EndpointResponse } from './errors.ts'

export interface ExchangeDescriber {
  /** `headers` are added to those of every request. */
  describe(
    request: { method: string; headers?: Record<string, string> },
    response: EndpointResponse | null,
  ): AttemptExchange
}

export interface ShownEndpoint {
  /** Every value that the endpoint could echo. */
  secrets: readonly string[]
  isPathSecret: boolean
  /** The headers of every request. */
  headers: Record<string, string>
}

export function exchangeDescriber(
  { config }: HttpEndpointSpec,
  { secrets, isPathSecret, headers }: ShownEndpoint,
): ExchangeDescriber {
  const url = redactedUrl(config.url, isPathSecret)
  const withoutSecrets = secretRemover(secrets)
  const open = new Set([
    'user-agent',
    'accept',
    ...Object.keys(config.headers).map((name) => name.toLowerCase()),
  ])
  const own = Object.entries(headers).map(([name, value]) => [name, open.has(name) ? value : redacted])
  return {
    describe({ method, headers = {} }, response) {
      const added = Object.entries(headers).map(([name, value]) => [
        name,
        name === signature ? redacted : value,
      ])
      return {
        request: { method, url, headers: bounded([...own, ...added]) },
        response: response && describeResponse(response, withoutSecrets),
      }
    },
  }
}

const signature = 'webhook-signature'
/** Values of these response headers admit to a session of the server. */
const secretHeaders: ReadonlySet<string> = new Set(['set-cookie', 'set-cookie2', 'authorization'])
/** Headers in which servers name a request, the most common first. */
const requestIdHeaders = [
  'x-request-id',
  'request-id',
  'x-amzn-requestid',
  'x-amz-request-id',
  'x-correlation-id',
  'cf-ray',
]

function describeResponse(
  response: EndpointResponse,
  withoutSecrets: (text: string) => string,
): AttemptResponse {
  const { attemptExcerptBytes } = resourceLimits
  const shown = (value: string) => cleanText(withoutSecrets(value), attemptExcerptBytes)
  const headers = Object.entries(response.headers).flatMap(([name, value]) => {
    if (value === undefined) return []
    const text = Array.isArray(value) ? value.join(', ') : value
    return [[shown(name), secretHeaders.has(name) ? redacted : shown(text)]]
  })
  const isCompressed = response.headers['content-encoding'] !== undefined
  const id = requestIdHeaders.map((name) => response.headers[name]).find((value) => typeof value === 'string')
  return {
    status: response.status,
    request_id: typeof id === 'string' ? cleanText(withoutSecrets(id), requestIdBytes) : null,
    headers: bounded(headers),
    excerpt: isCompressed ? '' : shown(response.excerpt),
  }
}

const requestIdBytes = 128

/** Leaves out the headers that exceed the limit of characters. */
function bounded(headers: readonly string[][]): Record<string, string> {
  let characters = 0
  const kept = headers.filter(([name = '', value = '']) => {
    characters += name.length + value.length
    return characters <= resourceLimits.attemptHeaderCharacters
  })
  return Object.fromEntries(kept)
}
