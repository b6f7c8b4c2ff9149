/**
 * Decides from an endpoint's response whether the batch is stored, retried or rejected. Pure. Rules:
 * docs/dev/contract.md#retry.
 */
import type { AttemptResponse } from '../../contract/attempts.ts'
import { redacted } from '../../contract/destination-words.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { redactedUrl } from '../../contract/secret-url.ts'
import { type AttemptExchange, DeliveryError, type DeliveryFault, type HttpEndpointSpec } from '../driver.ts'
import { cleanText, secretRemover, withoutSecrets } from '../error-text.ts'

export interface EndpointResponse {
  status: number
  headers: Readonly<Record<string, string | string[] | undefined>>
  /** The beginning of the body, or all of it if the request asked for that. */
  excerpt: string
}

const shownCharacters = 200

/** Null: the batch is stored. `failedSeq` is the failing message if the caller knows it. */
export function responseError(
  response: EndpointResponse,
  nowMs: number,
  { secrets = [], failedSeq }: { secrets?: readonly string[]; failedSeq?: number | undefined } = {},
): DeliveryError | null {
  const { status } = response
  if (status >= 200 && status < 300) return clickhouseError(response, secrets, failedSeq)
  const isTransient = status === 408 || status === 425 || status === 429 || status >= 500
  const message = `The endpoint responded ${status}${explanation(response)}${quoted(response, secrets)}`
  return new DeliveryError(isTransient ? 'transient' : 'permanent', `http_${status}`, message, {
    retryAfterMs: isTransient
      ? retryAfterMs(response.headers['retry-after'], sentMs(response) ?? nowMs)
      : undefined,
    failedSeq,
    fault: isTransient ? undefined : faultOf(status),
  })
}

/** ClickHouse sends its status early. If the INSERT fails later, a header reports it. */
function clickhouseError(
  response: EndpointResponse,
  secrets: readonly string[],
  failedSeq: number | undefined,
): DeliveryError | null {
  const code = response.headers['x-clickhouse-exception-code']
  if (code === undefined || code === '0') return null
  const isOfRecords = clickhouseParseErrors.has(String(code))
  const message = `ClickHouse responded ${response.status} and the exception ${printable(String(code), 20)}.${quoted(response, secrets)}`
  return new DeliveryError(isOfRecords ? 'permanent' : 'transient', 'clickhouse_exception', message, {
    failedSeq,
    ...(isOfRecords ? { fault: 'records' as const } : {}),
  })
}

/** Exceptions about rows for which ClickHouse responds 400: unparsable input, mismatched types, incorrect data. */
const clickhouseParseErrors: ReadonlySet<string> = new Set([
  '6',
  '25',
  '26',
  '27',
  '38',
  '41',
  '53',
  '72',
  '117',
])

/** Statuses about the content of the request: bad request, conflict, too large, unsupported type, unprocessable. */
const ofRecords: ReadonlySet<number> = new Set([400, 409, 413, 415, 422])

function faultOf(status: number): DeliveryFault {
  return ofRecords.has(status) ? 'records' : 'destination'
}

/** True if the response is about the destination and not about the content: splitting the batch would not help. */
export function concernsEndpoint(status: number): boolean {
  return (status >= 300 && status < 400) || status === 401 || status === 405
}

/** The time by the endpoint's own clock, on which dates in `Retry-After` are based too. Our clock may be wrong. */
export function sentMs({ headers }: EndpointResponse): number | undefined {
  const date = typeof headers.date === 'string' ? Date.parse(headers.date) : Number.NaN
  return Number.isNaN(date) ? undefined : date
}

/** Converts `Retry-After` (seconds or HTTP date) to ms from now, never negative; undefined if it is neither. */
export function retryAfterMs(header: string | string[] | undefined, nowMs: number): number | undefined {
  const value = (Array.isArray(header) ? header[0] : header)?.trim()
  if (value === undefined || value === '') return undefined
  if (/^\d{1,10}$/.test(value)) return Number(value) * 1000
  const date = /^[A-Z][a-z]{2}/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs)
}

function explanation({ status, headers }: EndpointResponse): string {
  if (status >= 300 && status < 400) {
    const location = Array.isArray(headers.location) ? headers.location[0] : headers.location
    const target = location ? ` to ${printable(location.replace(/[?#].*$/s, ''), 200)}` : ''
    return `, a redirect${target}. Redirects are not followed: set url to the final address.`
  }
  if (status === 401 || status === 403) return ': check auth_header and headers.'
  if (status === 404 || status === 410) return ': check url.'
  if (status === 405) return ': check method.'
  if (status === 413) return ': the body is too large; lower the flush limits of the destination.'
  if (status === 415) return ': check body_format and compression.'
  if (status === 429) return ': too many requests; limit them with rate.'
  return '.'
}

export function quoted({ excerpt, headers }: EndpointResponse, secrets: readonly string[]): string {
  if (headers['content-encoding'] !== undefined) return ''
  // An endpoint that echoes its request must not put our credentials into a stored error.
  const shown = printable(withoutMarkup(withoutSecrets(excerpt, secrets)), shownCharacters)
  return shown === '' ? '' : ` Response: ${shown}`
}

/** The text between tags, without scripts and styles. */
function withoutMarkup(html: string): string {
  const lower = html.toLowerCase()
  let text = ''
  let at = 0
  while (at < html.length) {
    const tag = html.indexOf('<', at)
    const end = tag === -1 ? -1 : html.indexOf('>', tag)
    if (end === -1) break
    text += `${html.slice(at, tag)} `
    at = end + 1
    for (const name of ['script', 'style']) {
      if (!lower.startsWith(`<${name}`, tag)) continue
      const close = lower.indexOf(`</${name}>`, at)
      if (close === -1) return text
      at = close + name.length + 3
    }
  }
  return text + html.slice(at)
}

export function printable(text: string, maxCharacters: number): string {
  const clean = text.replace(/[\p{C}\p{Z}\ufffd]+/gu, ' ').trim()
  return clean.length > maxCharacters ? `${clean.slice(0, maxCharacters)}…` : clean
}

/** Describes one request and its response for people, without secrets and within bounds. */
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
