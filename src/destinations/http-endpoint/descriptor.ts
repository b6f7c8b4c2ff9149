/** Facts and rules of HTTP endpoints. */
import { type BodyFormat, oneByOneFormats } from '../../contract/destinations/http-endpoint.fields.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { DestinationDescriptor, HttpEndpointSpec } from '../driver.ts'
import { httpUrlFault } from '../url-rules.ts'
import { headerErrors, headerValueError, httpSecrets } from './header-rules.ts'

export const httpEndpoint: DestinationDescriptor<HttpEndpointSpec> = {
  type: 'destination_http_endpoint',
  rules(config) {
    const faults: [string, string][] = []
    const add = (key: string, message: string | null) => {
      if (message !== null) faults.push([key, message])
    }
    add('url', urlFault(config))
    if (config.auth_header !== null) add('auth_header', headerValueError(config.auth_header))
    for (const [name, message] of headerErrors(config.headers)) add(`headers.${name}`, message)
    for (const [name, message] of headerErrors(config.secret_headers)) add(`secret_headers.${name}`, message)
    const open = new Set(Object.keys(config.headers).map((name) => name.toLowerCase()))
    for (const name of Object.keys(config.secret_headers))
      if (open.has(name.toLowerCase())) add(`secret_headers.${name}`, 'is also in headers')
    for (const [name, message] of formatErrors(config)) add(name, message)
    if (config.signing_secret !== null) add('signing_secret', signingSecretsFault(config.signing_secret))
    return faults
  },
  targets: ({ url }) => [{ key: 'url', url }],
  // `timeout_ms` applies to a single request.
  attemptLimitMs: ({ config }, batch) =>
    config.timeout_ms * requestsFor(config.body_format, batch.recordCount - batch.recordOffset),
  requestsPerBatch: ({ body_format }, records) => requestsFor(body_format, records),
  isTransactional: false,
  isExactlyOnce: () => false,
  secrets: httpSecrets,
  load: async () => (await import('./driver.ts')).httpEndpoint,
}

/** The number of requests that `records` records need. */
function requestsFor(format: BodyFormat, records: number): number {
  if (oneByOneFormats.has(format)) return records
  return format === 'es_bulk' ? Math.ceil(records / resourceLimits.bulkRecords) : 1
}

/** Checks fields that belong to one format only. */
function formatErrors({
  body_format,
  labels,
  text_template,
}: HttpEndpointSpec['config']): [string, string][] {
  const faults: [string, string][] = []
  if (Object.keys(labels).length > 0 && body_format !== 'loki')
    faults.push(['labels', 'requires body_format loki'])
  for (const name of Object.keys(labels)) {
    if (name.startsWith('__')) faults.push([`labels.${name}`, 'begins with __, which Loki reserves'])
    if (!/^[a-zA-Z_][a-zA-Z0-9_]{0,99}$/.test(name))
      faults.push([`labels.${name}`, 'is not a label name: use letters, digits and _, and no digit first'])
  }
  if (text_template !== null && body_format !== 'slack')
    faults.push(['text_template', 'requires body_format slack'])
  return faults
}

function urlFault({ url: text, auth_header }: HttpEndpointSpec['config']): string | null {
  const fault = httpUrlFault(text)
  if (fault !== null) return fault
  // Some malformed URLs pass parsers but cannot be redacted: they are rejected.
  if (!/^https?:\/\/[^\s\\]+$/i.test(text)) return 'must be written as https://example.com/path'
  const { username, password } = new URL(text)
  const hasUser = username !== '' || password !== ''
  return hasUser && auth_header !== null
    ? 'must not contain a user name or password together with auth_header'
    : null
}

/** Standard Webhooks: one secret, or two separated by a space during a rotation. */
function signingSecretsFault(secrets: string): string | null {
  const each = secrets.split(' ')
  if (each.length > 2) return 'must be one secret, or two separated by a space'
  return each.map(signingSecretFault).find((fault) => fault !== null) ?? null
}

/** `whsec_` followed by 24 to 64 bytes in base64. */
function signingSecretFault(secret: string): string | null {
  const encoded = secret.startsWith('whsec_') ? secret.slice('whsec_'.length) : null
  const bytes = encoded === null ? null : Buffer.from(encoded, 'base64')
  const isExact =
    bytes !== null && bytes.toString('base64').replace(/=+$/, '') === encoded?.replace(/=+$/, '')
  if (isExact && bytes.length >= 24 && bytes.length <= 64) return null
  return 'must be whsec_ followed by 24 to 64 bytes in base64'
}
