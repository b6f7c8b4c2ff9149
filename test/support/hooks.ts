/**
 * Genuine webhooks of each source, from the documentation of the providers where it has a complete example with body,
 * secret and signature. The other signatures were computed with `openssl dgst -hmac`, independently of the code under test.
 */
import type { OpenedSource } from '../../src/contract/source-words.ts'
import type { HookRequest } from '../../src/ingest/hooks/request.ts'

export interface HookExample {
  source: OpenedSource
  /** Where the signature comes from. */
  from: string
  headers: Record<string, string>
  query?: string
  token?: string
  body: string
  nowMs: number
  deliveryId?: string
  /** The headers that are signed, or that have signatures or credentials. */
  covered: string[]
}

const plainHmac = {
  header: 'X-Signature',
  algorithm: 'sha256',
  encoding: 'hex',
  prefix: '',
  template: '{body}',
  timestamp_header: null,
  id_header: null,
  tolerance_seconds: 300,
  verify_token: null,
} as const

export const hmacSource = (
  settings: Partial<Extract<OpenedSource, { type: 'hmac' }>['settings']>,
  ...secrets: string[]
): Extract<OpenedSource, { type: 'hmac' }> => ({
  type: 'hmac',
  settings: { ...plainHmac, ...settings },
  secrets,
})

const slackBody = [
  'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar',
  'user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=',
  'response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN',
  'trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c',
].join('&')

export const hookExamples = {
  standard_webhooks: {
    source: {
      type: 'standard_webhooks',
      settings: { tolerance_seconds: 300 },
      secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    },
    from: 'docs.svix.com/receiving/verifying-payloads/how-manual, and the libraries of standard-webhooks',
    headers: {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    },
    body: '{"test": 2432232314}',
    nowMs: 1614265330_000,
    deliveryId: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    covered: ['webhook-id', 'webhook-timestamp', 'webhook-signature'],
  },
  stripe: {
    source: { type: 'stripe', settings: { tolerance_seconds: 300 }, secrets: ['whsec_5bXmCkV2Qm8hYw0b'] },
    // docs.stripe.com/webhooks shows the form of header and event, but no secret.
    from: 'openssl',
    headers: {
      'stripe-signature': 't=1492774577,v1=19fe68845c13abc1deadd7e2e500af21486cc6371c8e3cd39d26393b04f3dd0c',
    },
    body: '{"id":"evt_1NG8Du2eZvKYlo2CUI79vXWy","object":"event","type":"payment_intent.created","pending_webhooks":1}',
    nowMs: 1492774577_000,
    deliveryId: 'evt_1NG8Du2eZvKYlo2CUI79vXWy',
    covered: ['stripe-signature'],
  },
  github: {
    source: { type: 'github', settings: {}, secrets: ["It's a Secret to Everybody"] },
    from: 'docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries',
    headers: {
      'x-hub-signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    },
    body: 'Hello, World!',
    nowMs: 1614265330_000,
    deliveryId: '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    covered: ['x-hub-signature-256'],
  },
  shopify: {
    source: { type: 'shopify', settings: {}, secrets: ['hush'] },
    // shopify.dev/docs/apps/build/webhooks/verify-deliveries has no complete example.
    from: 'openssl',
    headers: {
      'x-shopify-hmac-sha256': 'm4FFod+h41Veq3iGu9IYC4BB/jVI4MOrGLOk7hjAbKU=',
      'x-shopify-webhook-id': 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
    },
    body: '{"id":820982911946154508,"email":"jon@example.com","total_price":"10.00"}',
    nowMs: 1614265330_000,
    deliveryId: 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
    covered: ['x-shopify-hmac-sha256'],
  },
  slack: {
    source: {
      type: 'slack',
      settings: { tolerance_seconds: 300 },
      secrets: ['8f742231b10e8888abcd99yyyzzz85a5'],
    },
    from: 'docs.slack.dev/authentication/verifying-requests-from-slack',
    headers: {
      'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
      'x-slack-request-timestamp': '1531420618',
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: slackBody,
    nowMs: 1531420618_000,
    covered: ['x-slack-signature', 'x-slack-request-timestamp'],
  },
  twilio: {
    source: {
      type: 'twilio',
      settings: { url: 'https://mycompany.com/myapp.php?foo=1&bar=2' },
      secrets: ['12345'],
    },
    from: 'the libraries of Twilio (twilio-php, tests/Twilio/Unit/RequestValidatorTest.php) and its former guide to security',
    headers: {
      'x-twilio-signature': 'RSOYDt4T1cUTdK1PDd93/VVr8B8=',
      'i-twilio-idempotency-token': 'd1a6ab35-b9f9-41a7-b7ad-d1f0d0a0b0c0',
      'content-type': 'application/x-www-form-urlencoded; charset=UTF-8',
    },
    query: 'foo=1&bar=2',
    body: 'Digits=1234&To=%2B18005551212&From=%2B14158675309&Caller=%2B14158675309&CallSid=CA1234567890ABCDE',
    nowMs: 1614265330_000,
    deliveryId: 'd1a6ab35-b9f9-41a7-b7ad-d1f0d0a0b0c0',
    covered: ['x-twilio-signature'],
  },
  // Zoom: developers.zoom.us/docs/api/webhooks has the body, but no secret.
  hmac: {
    source: hmacSource(
      {
        header: 'X-Zm-Signature',
        prefix: 'v0=',
        template: 'v0:{timestamp}:{body}',
        timestamp_header: 'X-Zm-Request-Timestamp',
        id_header: 'X-Zm-Trackingid',
      },
      'zoom-secret-token',
    ),
    from: 'openssl',
    headers: {
      'x-zm-signature': 'v0=89975da4edf65708b4514241cecf7d97fb385aec436a373ae845a3e38642b748',
      'x-zm-request-timestamp': '1658940994',
      'x-zm-trackingid': 'v=2.0;clid=us02;rid=WEB_1',
    },
    body: '{"event":"meeting.started","payload":{"account_id":"abc","object":{"id":"1234567890"}}}',
    nowMs: 1658940994_000,
    deliveryId: 'v=2.0;clid=us02;rid=WEB_1',
    covered: ['x-zm-signature', 'x-zm-request-timestamp'],
  },
  secret_url: {
    source: {
      type: 'secret_url',
      settings: { verify_token: null },
      // printf %s vLz3… | openssl dgst -sha256
      secrets: ['b06277b232ef3459b67fcda8be13cc5165104c6a5a5ef7457899c13834d45fd1'],
    },
    from: 'openssl',
    headers: {},
    token: 'vLz3yHkX1wJq8C2mN7pR5tYbD9fG4sQa0eUoIiWlZxM',
    body: '{"n":1}',
    nowMs: 1614265330_000,
    covered: [],
  },
  basic: {
    source: { type: 'basic', settings: { user: 'Aladdin' }, secrets: ['open sesame'] },
    from: 'RFC 7617, section 2',
    headers: { authorization: 'Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==' },
    body: '{"n":1}',
    nowMs: 1614265330_000,
    covered: ['authorization'],
  },
} satisfies Record<OpenedSource['type'], HookExample>

/** The request of an example, with changes. */
export function hookRequest(
  example: HookExample,
  changes: Partial<Pick<HookRequest, 'method' | 'query' | 'now' | 'body' | 'token'>> & {
    headers?: Record<string, string>
  } = {},
): HookRequest {
  const headers: Record<string, string | undefined> = { ...example.headers, ...changes.headers }
  return {
    method: 'POST',
    query: example.query ?? '',
    body: Buffer.from(example.body),
    now: example.nowMs,
    token: example.token,
    ...changes,
    headers: (name) => headers[name],
  }
}
