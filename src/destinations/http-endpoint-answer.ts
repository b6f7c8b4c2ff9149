/** What an endpoint's answer means for the batch. Pure. Rules: contract "Delivery", Retry. */
import { DeliveryError } from './driver.ts'

export interface EndpointAnswer {
  status: number
  headers: Readonly<Record<string, string | string[] | undefined>>
  /** The beginning of the body. */
  excerpt: string
}

const shownCharacters = 200

/** Null: stored. `failedSeq` is the message to blame where the caller knows it. */
export function answerError(
  answer: EndpointAnswer,
  nowMs: number,
  { secrets = [], failedSeq }: { secrets?: readonly string[]; failedSeq?: number | undefined } = {},
): DeliveryError | null {
  const { status } = answer
  if (status >= 200 && status < 300) return null
  const isTransient = status === 408 || status === 425 || status === 429 || status >= 500
  const message = `The endpoint answered ${status}${explanation(answer)}${quoted(answer, secrets)}`
  return new DeliveryError(isTransient ? 'transient' : 'permanent', `http_${status}`, message, {
    retryAfterMs: isTransient
      ? retryAfterMs(answer.headers['retry-after'], sentMs(answer) ?? nowMs)
      : undefined,
    failedSeq,
  })
}

/** True when the answer is about the destination and not about what was sent: splitting the batch would not help. */
export function concernsWholeDestination(status: number): boolean {
  return (status >= 300 && status < 400) || status === 401 || status === 405
}

/** By the endpoint's own clock, which a date in `Retry-After` is told by too: ours may be an hour or ten years off. */
function sentMs({ headers }: EndpointAnswer): number | undefined {
  const date = typeof headers.date === 'string' ? Date.parse(headers.date) : Number.NaN
  return Number.isNaN(date) ? undefined : date
}

/** `Retry-After` in seconds or as an HTTP date → ms from now, never negative; undefined when it says neither. */
export function retryAfterMs(header: string | string[] | undefined, nowMs: number): number | undefined {
  const value = (Array.isArray(header) ? header[0] : header)?.trim()
  if (value === undefined || value === '') return undefined
  if (/^\d{1,10}$/.test(value)) return Number(value) * 1000
  const date = /^[A-Z][a-z]{2}/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(date) ? undefined : Math.max(0, date - nowMs)
}

function explanation({ status, headers }: EndpointAnswer): string {
  if (status >= 300 && status < 400) {
    const location = Array.isArray(headers.location) ? headers.location[0] : headers.location
    const target = location ? ` to ${printable(location.replace(/[?#].*$/s, ''), 200)}` : ''
    return `, a redirect${target}. Redirects are not followed: set url to the final address.`
  }
  if (status === 401 || status === 403) return ': check auth_header and headers.'
  if (status === 404 || status === 410) return ': check url.'
  if (status === 405) return ': check method.'
  if (status === 413) return ': the body is too large for it; lower the flush limits of the pipe.'
  if (status === 415) return ': check body_format and compression.'
  if (status === 429) return ': it takes no more requests for now.'
  return '.'
}

function quoted({ excerpt, headers }: EndpointAnswer, secrets: readonly string[]): string {
  if (headers['content-encoding'] !== undefined) return ''
  let text = excerpt
  // An endpoint that echoes its request must not carry our credentials into a stored error.
  for (const secret of secrets) if (secret.length >= 4) text = text.replaceAll(secret, '[redacted]')
  const shown = printable(text.replace(/<(script|style)[\s\S]*?<\/\1>|<[^>]*>/gi, ' '), shownCharacters)
  return shown === '' ? '' : ` It said: ${shown}`
}

function printable(text: string, maxCharacters: number): string {
  const clean = text.replace(/[\p{C}\p{Z}\ufffd]+/gu, ' ').trim()
  return clean.length > maxCharacters ? `${clean.slice(0, maxCharacters)}…` : clean
}
