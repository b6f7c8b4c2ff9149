/**
 * Decides whether a request to the hook address of a pipe was sent by its provider. Pure functions: no clock, no state,
 * no I/O. Read this first.
 *
 *   POST ──▶ verifier of the source ──▶ accepted ──▶ a challenge of the provider? ──▶ answered, nothing is stored
 *                     │                                       └──────────────────▶ stored, with the provider's id
 *                     └──▶ refused with a reason, which is counted
 *   GET  ──▶ challenge of the provider ──▶ answered, or refused
 *
 * | source            | signed text                       | signature                    | timestamp | id of the delivery |
 * |-------------------|-----------------------------------|------------------------------|-----------|--------------------|
 * | standard_webhooks | id.timestamp.body                 | HMAC-SHA256 base64, list     | checked   | webhook-id         |
 * | stripe            | timestamp.body                    | HMAC-SHA256 hex, list        | checked   | id of the event    |
 * | github            | body                              | HMAC-SHA256 hex              | none      | X-GitHub-Delivery  |
 * | shopify           | body                              | HMAC-SHA256 base64           | none      | X-Shopify-Webhook-Id |
 * | slack             | v0:timestamp:body                 | HMAC-SHA256 hex              | checked   | event_id           |
 * | twilio            | URL and the sorted fields         | HMAC-SHA1 base64             | none      | I-Twilio-Idempotency-Token |
 * | hmac              | template                          | as configured                | optional  | as configured      |
 * | secret_url        | the token in the path             |                              | none      | none               |
 * | basic             | user and password                 |                              | none      | none               |
 *
 * The signature is checked before the timestamp, so that `expired_timestamp` means a genuine request that is late. The
 * sender is unknown until then: `signature.ts` has the limits.
 */
import type { OpenedSource } from '../../contract/source-words.ts'
import { challengeByGet, challengeByPost } from './challenges.ts'
import {
  verifyBasic,
  verifyGithub,
  verifyHmac,
  verifySecretUrl,
  verifyShopify,
  verifySlack,
  verifyStandardWebhooks,
  verifyStripe,
} from './providers.ts'
import type { Accepted, HookRequest, Refused, Verdict } from './request.ts'
import { refused } from './signature.ts'
import { verifyTwilio } from './twilio.ts'

/** Never throws, whatever the request contains. */
export function verify(source: OpenedSource, request: HookRequest): Verdict {
  // A path with a token exists only for the source that has one.
  if (source.type !== 'secret_url' && request.token !== undefined) return refused('wrong_token')
  if (request.method === 'GET') return challengeByGet(source, request)
  const verdict = verifyPost(source, request)
  if (!verdict.ok) return verdict
  return challengeByPost(source, request) ?? verdict
}

function verifyPost(source: OpenedSource, request: HookRequest): Accepted | Refused {
  switch (source.type) {
    case 'standard_webhooks':
      return verifyStandardWebhooks(source, request)
    case 'stripe':
      return verifyStripe(source, request)
    case 'github':
      return verifyGithub(source, request)
    case 'shopify':
      return verifyShopify(source, request)
    case 'slack':
      return verifySlack(source, request)
    case 'twilio':
      return verifyTwilio(source, request)
    case 'hmac':
      return verifyHmac(source, request)
    case 'secret_url':
      return verifySecretUrl(source, request)
    case 'basic':
      return verifyBasic(source, request)
  }
}
