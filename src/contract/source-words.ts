/**
 * The sources of a pipe: providers that send webhooks to POST /v1/hooks/{pipe_id} without an API key. Free of schemas,
 * because the command line and the dashboard load it. `pipe-source.ts` has the schemas, `src/ingest/hooks/verify.ts`
 * verifies the requests.
 *
 * A source has settings, which are listed in `fields`, and 1 to `maxSecrets` secrets. A request is accepted if it
 * matches any of them, so that a secret can be rotated without a gap. The secrets are write-only.
 */
import {
  type ConfigField,
  type ConfigFields,
  optionalSecret,
  type ResolvedFields,
} from './destinations/config-field.ts'

export interface SourceFacts {
  readonly title: string
  /** One sentence that helps users choose a source. */
  readonly summary: string
  /** The page in docs/ about the source. */
  readonly guide: string
  /** `entered`: the user enters the secret of the provider. `generated`: the daemon makes it and shows it once. */
  readonly secrets: 'entered' | 'generated'
  /** The name of the secret at the provider. */
  readonly secretLabel: string
  /** Where the secret is found, or which form it has. */
  readonly secretHint: string
  /** A pattern of `patternWords` in `validate.ts`. */
  readonly secretPattern?: string
  readonly fields: ConfigFields
}

/** The limit of the secrets of one source. */
export const maxSecrets = 5
export const maxSecretLength = 1000
/** A key of Standard Webhooks: base64, with or without its prefix. */
export const standardSecretPattern = '^(whsec_)?[A-Za-z0-9+/]{8,}={0,2}$'

const tolerance = {
  tolerance_seconds: {
    kind: 'integer',
    label: 'Tolerance (seconds)',
    hint: 'A request whose timestamp differs more from the clock of this machine is rejected, so that it cannot be replayed later.',
    minimum: 1,
    maximum: 86_400,
    default: 300,
    advanced: true,
  },
} as const

/** Meta, and other providers that follow WebSub, verify an address with a GET that has to echo `hub.challenge`. */
const verifyToken = {
  verify_token: {
    ...optionalSecret,
    label: 'Verify token',
    hint: 'A GET with hub.mode=subscribe and this hub.verify_token gets hub.challenge back (Meta). Without it, no such request is answered.',
    maxLength: 400,
    advanced: true,
  },
} as const

export const sourceFacts = {
  standard_webhooks: {
    title: 'Standard Webhooks',
    summary: 'Svix and every provider that signs like standardwebhooks.com.',
    guide: 'webhooks-standard.md',
    secrets: 'entered',
    secretLabel: 'Signing secret',
    secretHint: 'whsec_… of the endpoint.',
    secretPattern: standardSecretPattern,
    fields: tolerance,
  },
  stripe: {
    title: 'Stripe',
    summary: 'Events of Stripe.',
    guide: 'webhooks-stripe.md',
    secrets: 'entered',
    secretLabel: 'Signing secret',
    secretHint: 'whsec_… of the endpoint.',
    fields: tolerance,
  },
  github: {
    title: 'GitHub',
    summary: 'Webhooks of a repository, an organization or an app.',
    guide: 'webhooks-github.md',
    secrets: 'entered',
    secretLabel: 'Secret',
    secretHint: 'The secret that was entered in the settings of the webhook.',
    fields: {},
  },
  shopify: {
    title: 'Shopify',
    summary: 'Webhooks of a shop or an app.',
    guide: 'webhooks-shopify.md',
    secrets: 'entered',
    secretLabel: 'Client secret',
    secretHint: 'The client secret of the app, or the signing secret below the webhooks of the shop.',
    fields: {},
  },
  slack: {
    title: 'Slack',
    summary: 'Events, interactions and slash commands of an app.',
    guide: 'webhooks-slack.md',
    secrets: 'entered',
    secretLabel: 'Signing secret',
    secretHint: 'The signing secret of the app.',
    fields: tolerance,
  },
  twilio: {
    title: 'Twilio',
    summary: 'Messages, calls and status callbacks.',
    guide: 'webhooks-twilio.md',
    secrets: 'entered',
    secretLabel: 'Auth token',
    secretHint: 'The auth token of the account.',
    fields: {
      url: {
        kind: 'text',
        label: 'Public URL',
        hint: 'The complete address that is entered at Twilio, which signs it together with the body.',
        example: 'https://events.example.com/v1/hooks/…',
        needed: true,
        maxLength: 2000,
      },
    },
  },
  hmac: {
    title: 'Other HMAC signature',
    summary: 'Any provider that signs the body with a shared secret.',
    guide: 'webhooks-other.md',
    secrets: 'entered',
    secretLabel: 'Secret',
    secretHint: 'The shared secret. Its UTF-8 bytes are the key.',
    fields: {
      header: {
        kind: 'text',
        label: 'Signature header',
        hint: 'The header with the signature.',
        example: 'x-signature',
        needed: true,
        maxLength: 100,
      },
      algorithm: {
        kind: 'choice',
        label: 'Algorithm',
        options: { sha256: 'SHA-256', sha512: 'SHA-512', sha1: 'SHA-1' },
        default: 'sha256',
      },
      encoding: {
        kind: 'choice',
        label: 'Encoding',
        hint: 'How the signature is written.',
        options: { hex: 'hexadecimal', base64: 'base64' },
        default: 'hex',
      },
      prefix: {
        kind: 'text',
        label: 'Prefix',
        hint: 'The text before the signature in the header, such as sha256=.',
        example: 'sha256=',
        empty: 'allowed',
        default: '',
        maxLength: 40,
      },
      template: {
        kind: 'text',
        label: 'Signed text',
        hint: 'What is signed: {body} is the body, {timestamp} the value of the timestamp header.',
        default: '{body}',
        maxLength: 200,
      },
      timestamp_header: {
        kind: 'text',
        label: 'Timestamp header',
        hint: 'The header with the time of the request in seconds or milliseconds. Needed if {timestamp} is signed.',
        example: 'x-timestamp',
        nullable: true,
        maxLength: 100,
      },
      id_header: {
        kind: 'text',
        label: 'Delivery id header',
        hint: 'The header with the id of the delivery: a delivery that is repeated within 24 hours is stored once.',
        example: 'x-delivery-id',
        nullable: true,
        maxLength: 100,
      },
      ...tolerance,
      ...verifyToken,
    },
  },
  secret_url: {
    title: 'Secret URL',
    summary: 'For providers that sign nothing: the address has a token that only the provider knows.',
    guide: 'webhooks-other.md',
    secrets: 'generated',
    secretLabel: 'Token',
    secretHint: 'The daemon makes it and shows it once, in the response to the request that asked for it.',
    fields: verifyToken,
  },
  basic: {
    title: 'User and password',
    summary: 'Providers that sign nothing but send an Authorization: Basic header.',
    guide: 'webhooks-other.md',
    secrets: 'entered',
    secretLabel: 'Password',
    secretHint: 'The password in the address that is entered at the provider.',
    fields: {
      user: {
        kind: 'text',
        label: 'User',
        hint: 'The user name; no colon.',
        needed: true,
        maxLength: 100,
        pattern: '^[^\\u0000-\\u001F\\u007F-\\u009F:]*$',
      },
    },
  },
} as const satisfies Record<string, SourceFacts>

export type SourceType = keyof typeof sourceFacts
export const sourceTypes = Object.keys(sourceFacts).filter(isSourceType)

export function isSourceType(name: string): name is SourceType {
  return Object.hasOwn(sourceFacts, name)
}

export function sourceWords(type: SourceType): SourceFacts {
  return sourceFacts[type]
}

/** The settings of a source with their keys. */
export function sourceFields(type: SourceType): [key: string, field: ConfigField][] {
  return Object.entries(sourceWords(type).fields)
}

/**
 * A source as requests are verified against: every setting with its default, all secrets in the clear. The secrets of
 * `secret_url` are the SHA-256 of its tokens, in hex.
 */
export type OpenedSource = {
  [T in SourceType]: {
    readonly type: T
    readonly settings: ResolvedFields<(typeof sourceFacts)[T]['fields']>
    /** At least one. */
    readonly secrets: readonly string[]
  }
}[SourceType]

/** Why a request of a provider was rejected, by the name in metrics and in the usage of the pipe. */
export const hookRefusals = {
  missing_signature: 'The request has no signature, or no credentials.',
  malformed: 'The signature or the timestamp has not the form that the source requires.',
  wrong_signature: 'The signature does not match the body and any of the secrets.',
  expired_timestamp: 'The timestamp is older or newer than tolerance_seconds allows.',
  wrong_credentials: 'The user or the password is wrong.',
  wrong_token: 'The address has no token, or not the token of the pipe.',
  wrong_verify_token: 'A GET that asked for a challenge did not have the verify token.',
  unreadable_secret: 'The stored secrets cannot be decrypted: enter them again.',
} as const

export type HookRefusal = keyof typeof hookRefusals
export const hookRefusalNames = Object.keys(hookRefusals).filter(isHookRefusal)

export function isHookRefusal(name: string): name is HookRefusal {
  return Object.hasOwn(hookRefusals, name)
}

/** The keys of the record that the request headers and the raw body are written to. */
export const sourceKeys = { headers: 'headers', rawBody: 'raw_body' } as const

/** The name of a header (RFC 9110). */
export const sourceHeaderPattern = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"

/** The limit of `pipe_source_headers`. */
export const maxSourceHeaders = 16

/** Headers with credentials or signatures: they are not written into records. Lower case. */
export const secretHeaders: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'proxy-authorization',
  'webhook-signature',
  'svix-signature',
  'stripe-signature',
  'x-hub-signature',
  'x-hub-signature-256',
  'x-shopify-hmac-sha256',
  'x-slack-signature',
  'x-twilio-signature',
])

/** The number of webhooks that were rejected, by reason. A reason without any is left out. */
export type RejectedHooks = Partial<Record<HookRefusal, number>>

/** Adds the counts to `sum`. `sign` -1 subtracts them. */
export function addRejectedHooks(sum: RejectedHooks, added: RejectedHooks, sign: 1 | -1 = 1): void {
  for (const reason of hookRefusalNames) {
    const count = added[reason]
    if (count !== undefined) sum[reason] = (sum[reason] ?? 0) + sign * count
  }
}
