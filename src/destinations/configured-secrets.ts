/** Every value of a destination's config that a server could send back to us and that must not be stored or shown. */
import { hasSecretPath, mapSecrets } from '../contract/destination-secrets.ts'
import { urlSecrets } from '../contract/secret-url.ts'
import type { DestinationSpec } from './driver.ts'

export function configuredSecrets(spec: DestinationSpec): string[] {
  const values: string[] = []
  const isPathSecret = hasSecretPath({ ...spec.config })
  mapSecrets(spec.type, { ...spec.config }, (value, _, kind) => {
    if (kind === 'url') values.push(...urlSecrets(value, isPathSecret))
    else values.push(value)
    return value
  })
  // Shown in responses of the management API, but it must not be part of an error.
  if (spec.type === 'destination_object_store') values.push(spec.config.access_key ?? '')
  if (spec.type === 'destination_http_endpoint') values.push(...httpSecrets(spec.config))
  if (spec.type === 'destination_nats') values.push(...natsSecrets(spec.config))
  return values.filter((value) => value !== '')
}

/** The parts of a secret by themselves too: the bare token of an Authorization value, each of two signing secrets, its key. */
function httpSecrets(
  config: Extract<DestinationSpec, { type: 'destination_http_endpoint' }>['config'],
): string[] {
  const auth = config.auth_header ?? ''
  const token = auth.slice(auth.indexOf(' ') + 1)
  const signing = config.signing_secret?.split(' ').flatMap((one) => [one, one.replace(/^whsec_/, '')]) ?? []
  const basic = basicAuthorization(config.url)?.split(' ') ?? []
  return [token, ...signing, ...basic, ...Object.values(config.headers)]
}

/** Each line of a credentials file and of a key is a secret too: a server may echo only the JWT. */
function natsSecrets({
  credentials,
  tls_key,
  headers,
}: Extract<DestinationSpec, { type: 'destination_nats' }>['config']): string[] {
  const lines = [credentials, tls_key].flatMap((text) => text?.split(/\s+/) ?? [])
  return [...lines.filter((line) => /^[\w+/=.-]{32,}$/.test(line)), ...Object.values(headers)]
}

/** The Authorization value of a URL with user information. */
export function basicAuthorization(url: string): string | null {
  const { username, password } = new URL(url)
  if (username === '' && password === '') return null
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return `Basic ${Buffer.from(user).toString('base64')}`
}
