/** Rules for the extra headers of an HTTP endpoint (docs/dev/contract.md#destinations). Pure. */
import type { HttpEndpointSpec } from '../driver.ts'

/** `[name, message]` for every header that cannot be sent. */
export function headerErrors(headers: Readonly<Record<string, unknown>>): [string, string][] {
  const errors: [string, string][] = []
  const seen = new Set<string>()
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase()
    const message =
      nameError(lower) ??
      headerValueError(String(value)) ??
      (seen.has(lower) ? 'is given twice: the names differ only in case' : null)
    seen.add(lower)
    if (message !== null) errors.push([name, message])
  }
  return errors
}

/** Allows visible Latin-1, spaces and tabs. A line break would begin another header. */
export function headerValueError(value: string): string | null {
  return /^[\t\x20-\x7e\x80-\xff]*$/.test(value) ? null : 'must not contain line breaks or control characters'
}

/**
 * Headers that pipectl sets, connection headers, and headers that carry a secret. Overriding one would break
 * deliveries.
 */
const reserved = /^(host|connection|transfer-encoding|keep-alive|upgrade|expect|content-.*|webhook-.*)$/

function nameError(lower: string): string | null {
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(lower)) return 'is not a header name'
  if (reserved.test(lower)) return 'is set by pipectl: remove it'
  if (lower === 'authorization') return 'must be set as auth_header, which is stored as a secret'
  return null
}

/** Includes the parts of secrets: the token of an Authorization value, each of two signing secrets, and their keys. */
export function httpSecrets({
  auth_header,
  signing_secret,
  url,
  headers,
}: HttpEndpointSpec['config']): string[] {
  const auth = auth_header ?? ''
  const token = auth.slice(auth.indexOf(' ') + 1)
  const signing = signing_secret?.split(' ').flatMap((one) => [one, one.replace(/^whsec_/, '')]) ?? []
  const basic = basicAuthorization(url)?.split(' ') ?? []
  return [token, ...signing, ...basic, ...Object.values(headers)]
}

/** The Authorization value for the user information in a URL. */
export function basicAuthorization(url: string): string | null {
  const { username, password } = new URL(url)
  if (username === '' && password === '') return null
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return `Basic ${Buffer.from(user).toString('base64')}`
}
