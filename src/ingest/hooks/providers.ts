/** One verifier per source. The table in `verify.ts` compares them; `twilio.ts` has the one that signs form fields. */

import { resourceLimits } from '../../contract/resource-limits.ts'
import type { Accepted, HookRequest, Refused, SourceOf } from './request.ts'
import {
  asBuffer,
  deliveryId,
  hasHash,
  isSameSecret,
  isTimely,
  plainMember,
  refused,
  required,
  signatureProblem,
  unixTimeMs,
} from './signature.ts'

type Outcome = Accepted | Refused

/**
 * https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md. Svix sends the same headers
 * under its own name.
 */
export function verifyStandardWebhooks(
  { secrets, settings }: SourceOf<'standard_webhooks'>,
  request: HookRequest,
): Outcome {
  const vendor = request.headers('webhook-signature') === undefined ? 'svix' : 'webhook'
  const signature = required(request, `${vendor}-signature`)
  if (typeof signature !== 'string') return signature
  const id = request.headers(`${vendor}-id`)?.trim() ?? ''
  const timestamp = request.headers(`${vendor}-timestamp`)?.trim() ?? ''
  const timeMs = unixTimeMs(timestamp)
  if (timeMs === null || deliveryId(id) === undefined) return refused('malformed')
  // The signed text is id.timestamp.body: with such an id, a signed text could be divided in two ways.
  if (/\.\d+$/.test(id)) return refused('malformed')
  const problem = signatureProblem({
    algorithm: 'sha256',
    encoding: 'base64',
    keys: secrets.map((secret) => Buffer.from(secret.replace(/^whsec_/, ''), 'base64')),
    parts: [`${id}.${timestamp}.`, request.body],
    signatures: afterPrefix(signature.split(' '), 'v1,'),
  })
  return problem ?? timely(timeMs, request, settings, id)
}

/** https://docs.stripe.com/webhooks#verify-manually */
export function verifyStripe({ secrets, settings }: SourceOf<'stripe'>, request: HookRequest): Outcome {
  const header = required(request, 'stripe-signature')
  if (typeof header !== 'string') return header
  const items = header.split(',').map((item) => item.trim())
  const [timestamp = '', ...others] = afterPrefix(items, 't=')
  const timeMs = unixTimeMs(timestamp)
  if (timeMs === null || others.length > 0) return refused('malformed')
  const problem = signatureProblem({
    algorithm: 'sha256',
    encoding: 'hex',
    keys: secrets,
    parts: [`${timestamp}.`, request.body],
    signatures: afterPrefix(items, 'v1='),
  })
  return problem ?? timely(timeMs, request, settings, stripeEventId(request.body))
}

/** Events begin with their id. Searching the remainder of the body would cost more than a repeated event. */
function stripeEventId(body: Uint8Array): string | undefined {
  const beginning = Buffer.from(body.subarray(0, 300)).toString('latin1')
  return /^\s*\{\s*"id"\s*:\s*"(evt_\w{1,200})"/.exec(beginning)?.[1]
}

/** https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries */
export function verifyGithub({ secrets }: SourceOf<'github'>, request: HookRequest): Outcome {
  const signature = required(request, 'x-hub-signature-256')
  if (typeof signature !== 'string') return signature
  const problem = signatureProblem({
    algorithm: 'sha256',
    encoding: 'hex',
    keys: secrets,
    parts: [request.body],
    signatures: afterPrefix([signature], 'sha256='),
  })
  return problem ?? accepted(request.headers('x-github-delivery'))
}

/** https://shopify.dev/docs/apps/build/webhooks/verify-deliveries */
export function verifyShopify({ secrets }: SourceOf<'shopify'>, request: HookRequest): Outcome {
  const signature = required(request, 'x-shopify-hmac-sha256')
  if (typeof signature !== 'string') return signature
  const problem = signatureProblem({
    algorithm: 'sha256',
    encoding: 'base64',
    keys: secrets,
    parts: [request.body],
    signatures: [signature],
  })
  return problem ?? accepted(request.headers('x-shopify-webhook-id'))
}

/** https://docs.slack.dev/authentication/verifying-requests-from-slack */
export function verifySlack({ secrets, settings }: SourceOf<'slack'>, request: HookRequest): Outcome {
  const signature = required(request, 'x-slack-signature')
  if (typeof signature !== 'string') return signature
  const timestamp = request.headers('x-slack-request-timestamp')?.trim() ?? ''
  const timeMs = unixTimeMs(timestamp)
  if (timeMs === null) return refused('malformed')
  const problem = signatureProblem({
    algorithm: 'sha256',
    encoding: 'hex',
    keys: secrets,
    parts: [`v0:${timestamp}:`, request.body],
    signatures: afterPrefix([signature], 'v0='),
  })
  return problem ?? timely(timeMs, request, settings, slackEventId(request.body))
}

/** Only events have one: Slack repeats neither interactions nor commands. */
function slackEventId(body: Uint8Array): string | undefined {
  return body.length > resourceLimits.hookParsedBytes
    ? undefined
    : (plainMember(asBuffer(body), 'event_id') ?? undefined)
}

export function verifyHmac({ secrets, settings }: SourceOf<'hmac'>, request: HookRequest): Outcome {
  const { header, prefix, template, encoding, algorithm, id_header } = settings
  const value = required(request, header.toLowerCase())
  if (typeof value !== 'string') return value
  const items = value.split(/[\s,]+/)
  const timestamp = hmacTimestamp(settings, request, items)
  if (timestamp === 'malformed') return refused('malformed')
  const id = id_header !== null ? request.headers(id_header.toLowerCase())?.trim() : undefined
  const texts = new Map<string, string | Uint8Array>([
    ['{body}', request.body],
    ['{timestamp}', timestamp?.text ?? ''],
    ['{id}', deliveryId(id) ?? ''],
  ])
  // `HMAC …` in an Authorization header: such a prefix is of the complete value.
  const signatures = afterPrefix(/[\s,]/.test(prefix) ? [value] : items, prefix)
  const problem = signatureProblem({
    algorithm,
    encoding,
    keys: secrets,
    parts: template.split(/(\{body\}|\{timestamp\}|\{id\})/).map((part) => texts.get(part) ?? part),
    signatures: encoding === 'hex' ? signatures.map(asLowerCase) : signatures,
  })
  if (problem !== null) return problem
  return timestamp === null ? accepted(id) : timely(timestamp.ms, request, settings, id)
}

/** Some providers write the digits A to F in upper case. Both in one text are no signature of any provider. */
function asLowerCase(signature: string): string {
  return /^[0-9A-F]+$/.test(signature) ? signature.toLowerCase() : signature
}

/**
 * Null: the source has no timestamp. A timestamp in the header of the signature is its item `t=`, as in
 * `t=1614265330,v1=…`. Thirteen digits are milliseconds: as seconds they would be beyond the year 33658.
 */
function hmacTimestamp(
  { header, timestamp_header }: SourceOf<'hmac'>['settings'],
  { headers }: HookRequest,
  items: readonly string[],
): { text: string; ms: number } | 'malformed' | null {
  if (timestamp_header === null) return null
  const isItem = timestamp_header.toLowerCase() === header.toLowerCase()
  const [text = '', ...others] = isItem
    ? afterPrefix(items, 't=')
    : [headers(timestamp_header.toLowerCase())?.trim()]
  const ms = /^\d{13}$/.test(text) ? Number(text) : unixTimeMs(text)
  return ms === null || others.length > 0 ? 'malformed' : { text, ms }
}

export function verifySecretUrl({ secrets }: SourceOf<'secret_url'>, { token }: HookRequest): Outcome {
  if (token === undefined || token.length > resourceLimits.hookHeaderCharacters) return refused('wrong_token')
  return secrets.some((hash) => hasHash(token, hash)) ? { ok: true } : refused('wrong_token')
}

export function verifyBasic({ secrets, settings }: SourceOf<'basic'>, request: HookRequest): Outcome {
  const header = required(request, 'authorization')
  if (typeof header !== 'string') return header
  const encoded = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(header)?.[1]
  if (encoded === undefined) return refused('malformed')
  // The text is compared, not what it encodes: several base64 texts decode to the same bytes.
  const isKnown = secrets.some((password) =>
    isSameSecret(encoded, Buffer.from(`${settings.user}:${password}`).toString('base64')),
  )
  return isKnown ? { ok: true } : refused('wrong_credentials')
}

/** The items that begin with the prefix, without it. Signatures of other versions are ignored. */
function afterPrefix(items: readonly string[], prefix: string): string[] {
  return items.filter((item) => item.startsWith(prefix)).map((item) => item.slice(prefix.length))
}

function accepted(id: string | undefined): Accepted {
  return { ok: true, deliveryId: deliveryId(id?.trim()) }
}

function timely(
  timeMs: number,
  { now }: HookRequest,
  { tolerance_seconds }: { tolerance_seconds: number },
  id: string | undefined,
): Outcome {
  return isTimely(timeMs, now, tolerance_seconds) ? accepted(id) : refused('expired_timestamp')
}
