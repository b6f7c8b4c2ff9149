/** Facts and rules of NATS JetStream destinations. */
import type { DestinationDescriptor, NatsSpec } from '../driver.ts'
import { tlsFaults } from '../tls-config.ts'
import { hasControlCharacters } from '../url-rules.ts'
import { connectLimitMs, isUserSeed, parseAddresses, parseCredentials, subjectFault } from './addresses.ts'

type NatsConfig = NatsSpec['config']

export const nats: DestinationDescriptor<NatsSpec> = {
  type: 'destination_nats',
  rules: (config, stored) => [
    ...urlFaults(config),
    ...onlyIf(subjectFault(config.subject), 'subject'),
    ...signInFaults(config),
    ...certificateFaults(config, stored),
    ...headerFaults(config.headers),
  ],
  targets: ({ url }) => url.split(',').map((one) => ({ key: 'url', url: one.trim() })),
  // `timeout_ms` applies to a single record.
  attemptLimitMs: ({ config }, batch) =>
    config.url.split(',').length * connectLimitMs +
    config.timeout_ms * (batch.recordCount - batch.recordOffset),
  requestsPerBatch: (_, records) => records,
  isTransactional: false,
  isExactlyOnce: () => false,
  secrets,
  load: async () => (await import('./driver.ts')).nats,
}

/** Each line of a credentials file and of a key is a separate secret: a server may echo only the JWT. */
function secrets({ credentials, tls_key, headers }: NatsConfig): string[] {
  const lines = [credentials, tls_key].flatMap((text) => text?.split(/\s+/) ?? [])
  return [...lines.filter((line) => /^[\w+/=.-]{32,}$/.test(line)), ...Object.values(headers)]
}

type Fault = [key: string, message: string]

function onlyIf(message: string | null, key: string): Fault[] {
  return message === null ? [] : [[key, message]]
}

function urlFaults({ url }: NatsConfig): Fault[] {
  try {
    parseAddresses(url)
    return []
  } catch (error) {
    if (error instanceof RangeError) return [['url', error.message]]
    throw error
  }
}

function signInFaults(config: NatsConfig): Fault[] {
  const { username, password, token, nkey_seed, credentials } = config
  const faults: Fault[] = []
  const ways = Object.entries({ username, token, nkey_seed, credentials }).filter(
    ([, value]) => value !== null,
  )
  const [first, second] = ways.map(([key]) => key)
  if (first !== undefined && second !== undefined)
    faults.push([second, `cannot be combined with ${first}: use one way to authenticate`])
  if (username !== null && hasControlCharacters(username))
    faults.push(['username', 'must not contain control characters'])
  if (username !== null && password === null) faults.push(['password', 'is required with username'])
  if (username === null && password !== null) faults.push(['username', 'is required with password'])
  if (nkey_seed !== null && !isUserSeed(nkey_seed))
    faults.push(['nkey_seed', "must be a user's seed: SU and 56 capital letters and digits"])
  if (credentials !== null && parseCredentials(credentials) === null)
    faults.push(['credentials', 'must be the content of a .creds file, with the JWT and the seed of a user'])
  return faults
}

function certificateFaults(config: NatsConfig, stored: NatsConfig | undefined): Fault[] {
  const { url, tls_ca, tls_cert, tls_verify } = config
  const faults: Fault[] = tlsFaults(config, stored)
  const isClear = !/^\s*tls:/i.test(url)
  const given = Object.entries({ tls_ca, tls_cert, tls_verify: tls_verify ? null : false })
  for (const [key, value] of given)
    if (isClear && value !== null) faults.push([key, 'requires tls:// addresses'])
  return faults
}

function headerFaults(headers: NatsConfig['headers']): Fault[] {
  return Object.entries(headers).flatMap(([name, value]): Fault[] => {
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]{1,100}$/i.test(name)) return [[`headers.${name}`, 'is not a header name']]
    if (/^nats-/i.test(name)) return [[`headers.${name}`, 'is reserved by the protocol: remove it']]
    return hasControlCharacters(value) ? [[`headers.${name}`, 'must not contain control characters']] : []
  })
}
