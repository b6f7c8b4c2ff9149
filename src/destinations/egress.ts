/**
 * The only way to dial: every driver connects through this file, so that the egress policy applies to every connection.
 *
 *   host ──is its spelling allowed?──▶ look-up of all addresses ──▶ the allowed ones ──▶ connect to one of those
 *
 * The dialed address is the one that was checked. There is no second look-up in between, so a name whose result changes
 * (DNS rebinding) gains nothing. Every denial has the same text, whether or not a server listens there. If addresses of
 * the network are denied, a name that resolves to one and a name that does not resolve give the same error, so that
 * users cannot discover internal names.
 */
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import { DeliveryError, type EgressPolicy } from './driver.ts'
import {
  guardSocket,
  isAddressAllowed,
  isDisguised,
  isHostListed,
  isPrivateDenied,
  normaliseHost,
  parseLiteral,
  type ReadLimit,
  untilStopped,
} from './guards.ts'
import { type Endpoint, isNamedOwn, isOwnAddress } from './own-addresses.ts'
import { forget, lookUp } from './resolver.ts'

export interface DialTarget {
  host: string
  port: number
  /** The database, for a database server. */
  database?: string
}
export interface DialOptions {
  signal?: AbortSignal | undefined
  /** For look-up and connection together. Default: 10 s. */
  timeoutMs?: number
  /** Counts the bytes read from the socket, and destroys it when there are too many. */
  reads?: ReadLimit
}

/**
 * Checks a host without resolving it, before a destination is saved. Returns null, or the `egress_denied` error if the
 * spelling is forbidden. UNIX-socket paths are not hosts.
 */
export function checkTargetHost(
  host: string,
  policy: EgressPolicy,
  endpoint: Endpoint = { port: null },
): DeliveryError | null {
  // A driver would take these for the directory or the abstract name of a UNIX socket.
  if (/^[/@]/.test(host) || host.includes('\0')) return egressDenied(policy)
  const name = normaliseHost(host)
  if (name === '' || isHostListed(name, policy.deny)) return egressDenied(policy)
  const literal = parseLiteral(name)
  if (literal !== null && isDisguised(host, literal)) return egressDenied(policy)
  const isLocalhost = name === 'localhost' || name.endsWith('.localhost')
  const address = literal === null ? (isLocalhost ? '127.0.0.1' : null) : name
  if (address !== null && !isAddressAllowed(address, name, policy, endpoint.port)) return egressDenied(policy)
  return isNamedOwn(name, endpoint, policy.own) ? ownAddress() : null
}

/** The same for a URL. Uses the host as written, before the URL parser normalises its spelling. */
export function checkTargetUrl(url: string, policy: EgressPolicy): DeliveryError | null {
  if (!URL.canParse(url)) return egressDenied(policy)
  const authority = /^\s*[a-z][a-z0-9+.-]*:[/\\]*([^/\\?#]*)/i.exec(url)?.[1] ?? ''
  const written = authority.slice(authority.lastIndexOf('@') + 1).replace(/:\d*$/, '')
  const parsed = new URL(url)
  const endpoint = { port: portOf(parsed) }
  return (
    checkTargetHost(decodePercent(written), policy, endpoint) ??
    checkTargetHost(parsed.hostname, policy, endpoint)
  )
}

const defaultPorts: Record<string, number> = { 'http:': 80, 'https:': 443, 'nats:': 4222, 'tls:': 4222 }

/** The port to dial for a URL; null for a scheme without a default. */
export function portOf({ port, protocol }: URL): number | null {
  return port === '' ? (defaultPorts[protocol] ?? null) : Number(port)
}

/**
 * A connected TCP socket to an allowed address of the host. Rejects with the `egress_denied` DeliveryError, which is
 * permanent if the spelling is denied and transient after a look-up. Otherwise rejects with the system error
 * (ECONNREFUSED, ENOTFOUND, ETIMEDOUT, …) or, when aborted, with the signal's reason.
 */
export async function dial(
  target: DialTarget,
  policy: EgressPolicy,
  { signal, timeoutMs = 10_000, reads }: DialOptions = {},
): Promise<net.Socket> {
  const denied = checkTargetHost(target.host, policy, target)
  if (denied) throw denied
  const host = normaliseHost(target.host)
  const deadline = AbortSignal.timeout(timeoutMs)
  const stop = signal ? AbortSignal.any([signal, deadline]) : deadline
  const addresses = await untilStopped(resolve(host, stop), stop).catch((error) => {
    if (error === stop.reason && error?.name === 'TimeoutError') throw timedOut(host)
    throw hidesNames(policy) && isUnresolved(error) ? deniedName(policy, error.message) : error
  })
  const allowed = addresses.filter((address) => isAddressAllowed(address, host, policy, target.port))
  if (allowed.length === 0) throw deniedName(policy, `${host} resolves to ${addresses.join(', ')}`)
  if (await isOwnAddress(allowed, target, policy.own, stop)) throw ownAddress()
  let lastError: unknown
  for (const [index, address] of allowed.entries()) {
    try {
      // An unreachable first address must leave time for the others.
      const socket = await connect(address, target.port, stop, timeoutMs / (allowed.length - index))
      return guardSocket(socket, reads)
    } catch (error) {
      if (stop.aborted) throw signal?.aborted ? signal.reason : timedOut(host)
      lastError = error
    }
  }
  forget(host)
  throw lastError
}

/** Agents for clients built on node:http, such as the AWS SDK. Call `destroy()` on both when done. */
export function egressHttpAgents(
  policy: EgressPolicy,
  reads?: ReadLimit,
  options: http.AgentOptions = {},
): { httpAgent: http.Agent; httpsAgent: https.Agent } {
  const settings = { keepAlive: true, maxSockets: 8, ...options }
  const httpAgent = new http.Agent(settings)
  const httpsAgent = new https.Agent(settings)
  guard(httpAgent, policy, reads, (socket) => socket)
  guard(httpsAgent, policy, reads, (socket, tlsOptions) =>
    guardSocket(tls.connect({ ...tlsOptions, socket }), reads),
  )
  return { httpAgent, httpsAgent }
}

type Callback = (error: Error | null, stream?: Duplex) => void

/** `createConnection` can return nothing and deliver the socket later, through its callback. */
function guard(
  agent: http.Agent,
  policy: EgressPolicy,
  reads: ReadLimit | undefined,
  wrap: (socket: net.Socket, options: tls.ConnectionOptions) => Duplex,
): void {
  const createConnection = (options: tls.ConnectionOptions, callback: Callback): void => {
    dial(
      { host: options.host ?? 'localhost', port: Number(options.port) },
      policy,
      reads ? { reads } : {},
    ).then(
      (socket) => callback(null, wrap(socket, options)),
      (error) => callback(error),
    )
  }
  Object.assign(agent, { createConnection })
}

/** One text for every denial, so that it reveals nothing about the network. */
export function egressDenied(policy: EgressPolicy): DeliveryError {
  return new DeliveryError('permanent', 'egress_denied', denialText(policy))
}

function ownAddress(): DeliveryError {
  return new DeliveryError(
    'permanent',
    'egress_denied',
    'This address belongs to this service or to the servers of its state, so it cannot be a destination.',
  )
}

/** For a denial after a look-up: the name may resolve to another address later. `detail` is for the log. */
function deniedName(policy: EgressPolicy, detail: string): DeliveryError {
  return new DeliveryError('transient', 'egress_denied', denialText(policy), { detail })
}

function denialText(policy: EgressPolicy): string {
  const orElse = hidesNames(policy) ? ', or its name does not resolve' : ''
  return `The egress policy of this server does not allow this destination's address${orElse}. The operator can allow a private address with the setting egress.allow or egress.private.`
}

/** True if an address of the operator's network can be denied. Addresses that are always denied do not count. */
function hidesNames(policy: EgressPolicy): boolean {
  return isPrivateDenied(policy) || policy.deny.length > 0
}

function isUnresolved(error: unknown): error is Error {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return code === 'ENOTFOUND' || code === 'EAI_AGAIN'
}

async function resolve(host: string, stop: AbortSignal): Promise<string[]> {
  return net.isIP(host) ? [host] : await lookUp(host, stop)
}

function connect(address: string, port: number, stop: AbortSignal, timeoutMs: number): Promise<net.Socket> {
  return new Promise((done, fail) => {
    const socket = net.connect({
      host: address,
      port,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: 30_000,
    })
    const settle = (error?: unknown) => {
      stop.removeEventListener('abort', onStop)
      clearTimeout(timer)
      socket.off('error', settle)
      if (error === undefined) return done(socket)
      socket.on('error', () => {})
      socket.destroy()
      fail(error)
    }
    const onStop = () => settle(stop.reason)
    const timer = setTimeout(() => settle(timedOut(address)), timeoutMs)
    stop.addEventListener('abort', onStop, { once: true })
    socket.once('error', settle)
    socket.once('connect', () => settle())
    if (stop.aborted) onStop()
  })
}

function timedOut(host: string): Error {
  return Object.assign(new Error(`connect ETIMEDOUT ${host}`), { code: 'ETIMEDOUT' })
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
