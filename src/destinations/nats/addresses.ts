/** Parses the texts of a NATS destination's config: servers, subject, credentials. Pure. */
import { DeliveryError, type NatsSpec } from '../driver.ts'

export interface NatsAddress {
  host: string
  port: number
  isTls: boolean
  /** The URL as written. */
  url: string
}

/** For look-up, connection, TLS and log-in together, per server. */
export const connectLimitMs = 10_000
const defaultPort = 4222
const maxAddresses = 8

/** Throws a RangeError whose message follows the key's name. */
export function parseAddresses(urls: string): NatsAddress[] {
  const addresses = urls.split(',').map((url) => parseAddress(url.trim()))
  if (addresses.length > maxAddresses) throw new RangeError(`must have at most ${maxAddresses} servers`)
  if (new Set(addresses.map(({ isTls }) => isTls)).size > 1)
    throw new RangeError('must use either nats:// or tls:// for all servers')
  return addresses
}

function parseAddress(url: string): NatsAddress {
  const found = /^(nats|tls):\/\/(\[[0-9a-f:.]+\]|[^\s:/?#@[\]\\]+)(?::(\d{1,5}))?\/?$/i.exec(url)
  if (found === null) {
    const hasUser = /^[a-z]+:\/\/[^/]*@/i.test(url)
    throw new RangeError(
      hasUser
        ? 'must not contain a user name or password: set username and password'
        : 'must be nats://host:4222 or tls://host:4222; separate the servers of one cluster with commas',
    )
  }
  const [, scheme = '', host = '', port] = found
  const number = port === undefined ? defaultPort : Number(port)
  if (number < 1 || number > 65_535) throw new RangeError('must have a port from 1 to 65535')
  return { host: host.replace(/^\[|\]$/g, ''), port: number, isTls: scheme.toLowerCase() === 'tls', url }
}

const subjectTokens = ['pipe_name', 'pipe_id', 'destination_id'] as const

/** Returns null if messages can be published to the subject, otherwise a sentence that follows the key's name. */
export function subjectFault(template: string): string | null {
  const unknown = [...template.matchAll(/\{([^{}]*)\}/g)].find(([, name]) => !isSubjectToken(name ?? ''))
  if (unknown !== undefined)
    return `has the unknown placeholder ${unknown[0]}: use ${subjectTokens.map((one) => `{${one}}`).join(', ')}`
  const plain = template.replace(/\{[^{}]*\}/g, 'x')
  if (/[^\x21-\x7e]|[{}*>]/.test(plain)) return 'must be visible ASCII without spaces, *, > and single braces'
  if (plain.split('.').includes('')) return 'must not have an empty part between its dots'
  // `$JS.API.…` and `$SYS.…` are commands to the servers, `_INBOX.…` carries replies to clients.
  if (/^[$_]/.test(plain)) return 'must not begin with $ or _: those subjects are reserved by the servers'
  return isOfClusters(template)
    ? `must not begin with ${clusterPrefix}: those subjects are reserved for buffers of pipectl`
    : null
}

/** Subjects that pipectl clusters use: a message there would become a record of some pipe. */
const clusterPrefix = 'pipectl.'

export function isOfClusters(subject: string): boolean {
  return subject.startsWith(clusterPrefix)
}

function isSubjectToken(name: string): name is (typeof subjectTokens)[number] {
  return subjectTokens.some((one) => one === name)
}

/** Throws a DeliveryError if the pipe's name completes the subject to one of a cluster. */
export function subjectOf({ config, pipeName, pipeId, destinationId }: NatsSpec): string {
  const values = { pipe_name: pipeName, pipe_id: pipeId, destination_id: destinationId }
  const subject = config.subject.replace(/\{([^{}]*)\}/g, (whole, name) =>
    isSubjectToken(name) ? values[name] : whole,
  )
  if (!isOfClusters(subject)) return subject
  throw new DeliveryError(
    'permanent',
    'invalid_subject',
    `The subject ${subject} is reserved for clusters of pipectl: use another one.`,
    {
      fault: 'destination',
    },
  )
}

/** The parts of a credentials file, even if its line breaks were changed; null if the text is not one. */
export function parseCredentials(text: string): { jwt: string; seed: string } | null {
  const jwt = /-----BEGIN NATS USER JWT-----\s*([\w-]+\.[\w-]+\.[\w-]+)\s*-+END NATS USER JWT-+/.exec(text)
  const seed = /-----BEGIN USER NKEY SEED-----\s*(SU[A-Z2-7]{56})\s*-+END USER NKEY SEED-+/.exec(text)
  return jwt?.[1] === undefined || seed?.[1] === undefined ? null : { jwt: jwt[1], seed: seed[1] }
}

export function isUserSeed(text: string): boolean {
  return /^SU[A-Z2-7]{56}$/.test(text)
}
