/**
 * From `pipe_source` in a request to the source that is stored (docs/dev/contract.md#webhooks). Throws
 * `validation_error` with the paths of the body.
 */
import { randomBytes } from 'node:crypto'
import { addressHeaders } from '../../contract/client-ip.ts'
import { redacted } from '../../contract/destination-words.ts'
import { isObject } from '../../contract/is-object.ts'
import type { Pipe } from '../../contract/pipe.ts'
import type { PipeSource, PipeSourceGiven } from '../../contract/pipe-source.ts'
import { secretHeaders, sourceFields, sourceWords } from '../../contract/source-words.ts'
import { type FieldErrors, requireDistinct, throwIfErrors } from '../../contract/validate.ts'
import type { SourceChange } from '../../metadata/pipe-source.ts'

/** A source to store, with the token that was made for it. */
export interface NewSource {
  source: SourceChange
  /** Null: none was made. */
  token: string | null
}

/** The number of random bytes of a token. */
const tokenBytes = 32

/** `current`: the stored source of the pipe; null: it has none. */
export function newSource(given: PipeSourceGiven, current: PipeSource | null): NewSource {
  const { type } = given
  const stored = current?.type === type ? current : null
  const settings = mergedSettings(given, stored)
  throwIfErrors(settingErrors(type, settings))
  const generated = sourceWords(type).secrets === 'generated'
  const token = generated ? randomBytes(tokenBytes).toString('base64url') : null
  const secrets = newSecrets(given, stored, token)
  const isTokenUsed = token !== null && secrets.some((one) => 'value' in one)
  return { source: { type, settings, secrets }, token: isTokenUsed ? token : null }
}

/** `pipe_source_headers` in lower case. Throws for headers with credentials or signatures. */
export function sourceHeaders(given: readonly string[]): string[] {
  const names = given.map((name) => name.toLowerCase())
  requireDistinct('pipe_source_headers', names)
  const errors: FieldErrors = {}
  for (const [index, name] of names.entries())
    if (secretHeaders.has(name))
      errors[`pipe_source_headers.${index}`] = `must not be ${name}: its value is a credential or a signature`
  throwIfErrors(errors)
  return names
}

/** The signature is not written into records either. `header`: the setting of the source with this name. */
export function requireNoSignature(headers: readonly string[], header: unknown): void {
  const name = typeof header === 'string' ? header.toLowerCase() : ''
  const index = headers.indexOf(name)
  if (index >= 0)
    throwIfErrors({
      [`pipe_source_headers.${index}`]: `must not be ${name}: it is the signature of the source`,
    })
}

/** A pipe that does not keep whole addresses cannot write the headers in which proxies pass them on. */
export function requireNoAddress(pipe: Pick<Pipe, 'pipe_client_ip' | 'pipe_source_headers'>): void {
  if (pipe.pipe_client_ip === 'full') return
  const errors: FieldErrors = {}
  for (const [index, name] of pipe.pipe_source_headers.entries())
    if (addressHeaders.has(name))
      errors[`pipe_source_headers.${index}`] =
        `must not be ${name} while pipe_client_ip is ${pipe.pipe_client_ip}: it has the address of the client`
  throwIfErrors(errors)
}

/** Settings that are left out keep their value; null resets one. */
function mergedSettings({ type, secrets: _, ...given }: PipeSourceGiven, stored: PipeSource | null) {
  const merged = new Map<string, unknown>()
  for (const [key, { secret, nullable, empty }] of sourceFields(type)) {
    const before = stored?.[key]
    const value = Object.hasOwn(given, key) ? given[key] : undefined
    const isKept = value === undefined || (secret !== undefined && (value === redacted || value === ''))
    if (isKept) {
      if (before !== undefined) merged.set(key, before)
    } else if (value !== null && !(value === '' && nullable && empty === 'unset')) merged.set(key, value)
  }
  return Object.fromEntries(merged)
}

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/

function settingErrors(type: PipeSource['type'], settings: Readonly<Record<string, unknown>>): FieldErrors {
  const errors: FieldErrors = {}
  for (const [key, { needed }] of sourceFields(type))
    if (needed && settings[key] === undefined) errors[`pipe_source.${key}`] = 'is required'
  for (const key of ['header', 'timestamp_header', 'id_header']) {
    const name = settings[key]
    if (typeof name === 'string' && !headerName.test(name))
      errors[`pipe_source.${key}`] = 'must be the name of a header'
  }
  return { ...errors, ...templateErrors(settings), ...urlErrors(settings) }
}

function templateErrors(settings: Readonly<Record<string, unknown>>): FieldErrors {
  const { template, timestamp_header: timestampHeader } = settings
  if (typeof template !== 'string') return {}
  // Each one is hashed, before the sender is known.
  if (template.split('{body}').length !== 2) return { 'pipe_source.template': 'must contain {body} once' }
  const lacksHeader = template.includes('{timestamp}') && timestampHeader === undefined
  return lacksHeader ? { 'pipe_source.timestamp_header': 'is required, because {timestamp} is signed' } : {}
}

function urlErrors({ url }: Readonly<Record<string, unknown>>): FieldErrors {
  const isUrl = typeof url !== 'string' || (URL.canParse(url) && /^https?:/.test(url))
  return isUrl ? {} : { 'pipe_source.url': 'must be a URL that begins with https:// or http://' }
}

function newSecrets(
  { secrets: given }: PipeSourceGiven,
  stored: PipeSource | null,
  token: string | null,
): SourceChange['secrets'] {
  if (given === undefined) {
    if (stored !== null && stored.secrets.length > 0)
      return stored.secrets.map(({ secret_id }) => ({ secretId: secret_id }))
    if (token !== null) return [{ value: token }]
    throwIfErrors({ 'pipe_source.secrets': 'is required' })
  }
  const list = given ?? []
  const kept = list.flatMap((one) => (isObject(one) && 'secret_id' in one ? [one.secret_id] : []))
  requireDistinct('pipe_source.secrets', kept)
  const errors: FieldErrors = {}
  let generated = 0
  const secrets = list.map((one, index): SourceChange['secrets'][number] => {
    if (typeof one === 'string') return { value: one }
    if ('secret_id' in one) {
      if (!stored?.secrets.some(({ secret_id }) => secret_id === one.secret_id))
        errors[`pipe_source.secrets.${index}`] = 'is not a secret of the stored source'
      return { secretId: one.secret_id }
    }
    generated += 1
    if (generated > 1) errors[`pipe_source.secrets.${index}`] = 'only one token can be made in a request'
    return { value: token ?? '' }
  })
  throwIfErrors(errors)
  return secrets
}
