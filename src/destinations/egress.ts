/**
 * The one way out: every driver dials through this file, so that the egress policy holds for whatever is dialled.
 *
 *   host ──is its spelling allowed?──▶ look-up of all addresses ──▶ the allowed ones ──▶ connect to one of those
 *
 * The address that was checked is the address that is dialled; there is no second look-up between the two, so a name
 * that changes its answer (DNS rebinding) gains nothing. A refusal has one text, whether or not anything listens.
 */
import { lookup } from 'node:dns/promises'
import http from 'node:http'
import https from 'node:https'
import net from 'node:net'
import type { Duplex } from 'node:stream'
import tls from 'node:tls'
import { buildConnector } from 'undici'
import { DeliveryError, type EgressPolicy } from './driver.ts'
import {
  isAddressAllowed,
  isDisguised,
  isHostListed,
  normaliseHost,
  parseLiteral,
} from './egress-addresses.ts'

export interface DialTarget {
  host: string
  port: number
}
export interface DialOptions {
  signal?: AbortSignal | undefined
  /** For look-up and connection together. Default 10 s. */
  timeoutMs?: number
}

/**
 * What can be said of a host without looking it up: for saving a destination. Null when it may be dialled as far as
 * its spelling tells, else the `egress_denied` error. UNIX-socket paths are no hosts.
 */
export function checkTargetHost(host: string, policy: EgressPolicy): DeliveryError | null {
  // A driver would take these for the directory or the abstract name of a UNIX socket.
  if (/^[/@]/.test(host) || host.includes('\0')) return refusal()
  const name = normaliseHost(host)
  if (name === '' || isHostListed(name, policy.deny)) return refusal()
  const literal = parseLiteral(name)
  if (literal !== null) {
    const isRefused = isDisguised(host, literal) || !isAddressAllowed(name, name, policy)
    return isRefused ? refusal() : null
  }
  const isLocalhost = name === 'localhost' || name.endsWith('.localhost')
  return isLocalhost && !isAddressAllowed('127.0.0.1', name, policy) ? refusal() : null
}

/** The same for a URL. The host is taken as written, before the URL parser straightens out its spelling. */
export function checkTargetUrl(url: string, policy: EgressPolicy): DeliveryError | null {
  if (!URL.canParse(url)) return refusal()
  const authority = /^\s*[a-z][a-z0-9+.-]*:[/\\]*([^/\\?#]*)/i.exec(url)?.[1] ?? ''
  const written = authority.slice(authority.lastIndexOf('@') + 1).replace(/:\d*$/, '')
  return checkTargetHost(decodePercent(written), policy) ?? checkTargetHost(new URL(url).hostname, policy)
}

/**
 * A connected TCP socket to an allowed address of the host. Rejects with the `egress_denied` DeliveryError, or with
 * the system's own error (ECONNREFUSED, ENOTFOUND, ETIMEDOUT, …); when aborted, with the signal's reason.
 */
export async function dial(
  target: DialTarget,
  policy: EgressPolicy,
  { signal, timeoutMs = 10_000 }: DialOptions = {},
): Promise<net.Socket> {
  const refused = checkTargetHost(target.host, policy)
  if (refused) throw refused
  const host = normaliseHost(target.host)
  const deadline = AbortSignal.timeout(timeoutMs)
  const stop = signal ? AbortSignal.any([signal, deadline]) : deadline
  const addresses = await abortable(resolve(host), stop, host)
  const allowed = addresses.filter((address) => isAddressAllowed(address, host, policy))
  if (allowed.length === 0) throw refusal()
  let lastError: unknown
  for (const [index, address] of allowed.entries()) {
    try {
      // A dead first address must leave time for the others.
      return await connect(address, target.port, stop, timeoutMs / (allowed.length - index))
    } catch (error) {
      if (stop.aborted) throw signal?.aborted ? signal.reason : timedOut(host)
      lastError = error
    }
  }
  throw lastError
}

/** A `connect` option for undici. SNI and the Host header keep the name; only the address is ours. */
export function egressConnector(policy: EgressPolicy): buildConnector.connector {
  const secure = buildConnector({ timeout: 10_000 })
  return (options, callback) => {
    const isTls = options.protocol === 'https:'
    const port = Number(options.port) || (isTls ? 443 : 80)
    dial({ host: options.hostname, port }, policy).then(
      (socket) => {
        if (isTls) secure({ ...options, httpSocket: socket }, callback)
        else callback(null, socket)
      },
      (error) => callback(error, null),
    )
  }
}

/** Agents for clients built on node:http, such as the AWS SDK's. `destroy()` both when done. */
export function egressHttpAgents(
  policy: EgressPolicy,
  options: http.AgentOptions = {},
): { httpAgent: http.Agent; httpsAgent: https.Agent } {
  const settings = { keepAlive: true, maxSockets: 8, ...options }
  const httpAgent = new http.Agent(settings)
  const httpsAgent = new https.Agent(settings)
  guard(httpAgent, policy, (socket) => socket)
  guard(httpsAgent, policy, (socket, tlsOptions) => tls.connect({ ...tlsOptions, socket }))
  return { httpAgent, httpsAgent }
}

type Callback = (error: Error | null, stream?: Duplex) => void

/** `createConnection` may answer later, through its callback, when it returns nothing. */
function guard(
  agent: http.Agent,
  policy: EgressPolicy,
  wrap: (socket: net.Socket, options: tls.ConnectionOptions) => Duplex,
): void {
  const createConnection = (options: tls.ConnectionOptions, callback: Callback): void => {
    dial({ host: options.host ?? 'localhost', port: Number(options.port) }, policy).then(
      (socket) => callback(null, wrap(socket, options)),
      (error) => callback(error),
    )
  }
  Object.assign(agent, { createConnection })
}

/** One text for every refusal: what it does not say cannot be used to look around in the network. */
export function refusal(): DeliveryError {
  return new DeliveryError(
    'permanent',
    'egress_denied',
    "The egress policy of this server does not allow this destination's address.",
  )
}

async function resolve(host: string): Promise<string[]> {
  if (net.isIP(host)) return [host]
  return (await lookup(host, { all: true })).map(({ address }) => address)
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

function abortable<T>(work: Promise<T>, stop: AbortSignal, host: string): Promise<T> {
  return new Promise((done, fail) => {
    const onStop = () => fail(stop.reason?.name === 'TimeoutError' ? timedOut(host) : stop.reason)
    stop.addEventListener('abort', onStop, { once: true })
    work.then(done, fail).finally(() => stop.removeEventListener('abort', onStop))
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
