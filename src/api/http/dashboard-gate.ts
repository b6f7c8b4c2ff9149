/**
 * Checks every request below /dashboard: browsers attach the session cookie no matter which site triggered the
 * request.
 *
 *   1. the host name of the request is one of ours                       else 421   (DNS rebinding)
 *   2. a request that changes something comes from one of our pages      else 403   (forged requests)
 *   3. the cookie is a valid session                                     else 401
 *   4. a request that changes something carries that session's token     else 403   (forged requests, a second check)
 *
 * A request counts as secure (TLS) in three cases: it arrives on a listener with a certificate, its host is that of a
 * `public_url` with https, or a proxy of `trusted_proxies` sends `X-Forwarded-Proto: https`. The cookie of a secure
 * request is `__Host-pipectl`, which browsers accept only over TLS and only for this host. Otherwise it is `pipectl`,
 * without Secure. Only the cookie that matches the request's security is ever read.
 */
import { timingSafeEqual } from 'node:crypto'
import { isIP } from 'node:net'
import { ApiError } from '../../contract/errors.ts'
import type { Principal } from '../../contract/principal.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { type ClientIp, networkOf } from '../../ingest/client-ip.ts'
import { csrfTokenOf } from '../../metadata/session-tokens.ts'
import type { Sessions } from '../management/sessions.ts'
import type { Header } from './response.ts'
import type { Route, Visit } from './route.ts'

export interface DashboardGateOptions {
  /** The setting `public_url`. */
  publicUrl: string | null
  /** The host that management listens on. */
  listenHost: string
  /** Whether the listener of management uses TLS itself. */
  hasTls?: boolean
  clientIp: ClientIp
  sessions: Pick<Sessions, 'authenticate'>
}

type Headers = Record<string, string>

export class DashboardGate {
  readonly #options: DashboardGateOptions
  readonly #public: URL | null

  constructor(options: DashboardGateOptions) {
    this.#options = options
    this.#public = options.publicUrl === null ? null : new URL(options.publicUrl)
  }

  /**
   * Steps 1 and 2. Throws `host_not_allowed`, `origin_mismatch`. `peer`: the address of the socket's peer, 4 or 16
   * bytes.
   */
  visit({ auth }: Route, method: string, headers: Headers, peer: Uint8Array): Visit {
    const host = this.#requireOwnHost(headers.host)
    const isSecure = this.isSecure(headers, peer)
    if (auth !== 'page' && changesSomething(method)) this.#requireOwnPage(host, isSecure, headers)
    const address = this.#options.clientIp.of(peer, () => headers['x-forwarded-for'] ?? '')
    return {
      address: networkOf(address ?? ''),
      isSecure,
      sessionToken: cookieValue(headers.cookie ?? '', cookieName(isSecure)),
      browserToken: cookieValue(headers.cookie ?? '', browserCookieName(isSecure)),
    }
  }

  /** Steps 3 and 4. Throws `session_required`, `csrf_token_invalid`, `too_many_requests`. */
  async admit(visit: Visit, method: string, headers: Headers): Promise<Principal> {
    const { sessionToken: token } = visit
    const principal = token === null ? undefined : await this.#options.sessions.authenticate(token)
    if (token === null || principal === undefined) throw new ApiError('session_required')
    if (changesSomething(method) && !isSame(headers['x-csrf-token'] ?? '', csrfTokenOf(token))) {
      throw new ApiError('csrf_token_invalid')
    }
    return principal
  }

  isSecure(headers: Headers, peer: Uint8Array): boolean {
    if (this.#options.hasTls === true) return true
    const host = withoutDefaultPort(headers.host ?? '')
    if (this.#public?.protocol === 'https:' && host === this.#public.host) return true
    // The right-most entry is what the proxy itself saw.
    const scheme = headers['x-forwarded-proto']?.split(',').at(-1)?.trim().toLowerCase()
    return scheme === 'https' && this.#options.clientIp.isTrusted(peer)
  }

  /** DNS rebinding: a web page can let its own host name resolve to our address. Its requests then carry that name. */
  #requireOwnHost(given: string | undefined): string {
    const host = withoutDefaultPort(given ?? '')
    if (host !== '' && host === this.#public?.host) return host
    const name = host.replace(/:\d{1,5}$/, '').replace(/^\[(.*)\]$/, '$1')
    const isLoopback = name === 'localhost' || name === '::1' || (name.startsWith('127.') && isIP(name) === 4)
    if (isLoopback || (isIP(name) !== 0 && name === this.#options.listenHost)) return host
    throw new ApiError('host_not_allowed')
  }

  /** Browsers send at least one of these two headers with every request except GET, and no page can change them. */
  #requireOwnPage(host: string, isSecure: boolean, headers: Headers): void {
    const { origin } = headers
    const site = headers['sec-fetch-site']
    const own = [`${isSecure ? 'https' : 'http'}://${host}`, this.#public?.origin]
    const isOwnOrigin = origin === undefined ? site !== undefined : own.includes(origin.toLowerCase())
    if (!isOwnOrigin || (site !== undefined && site !== 'same-origin')) throw new ApiError('origin_mismatch')
  }
}

/** Headers of every response below /dashboard. The application has no inline script or style. */
export function dashboardHeaders(isSecure: boolean): Header[] {
  return [
    [
      'Content-Security-Policy',
      "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ],
    ['X-Content-Type-Options', 'nosniff'],
    ['X-Frame-Options', 'DENY'],
    ['Referrer-Policy', 'no-referrer'],
    ['Cross-Origin-Opener-Policy', 'same-origin'],
    ['Cross-Origin-Resource-Policy', 'same-origin'],
    ...(isSecure ? [['Strict-Transport-Security', 'max-age=31536000'] satisfies Header] : []),
  ]
}

/** `token`: null makes the browser delete the cookie. */
export function sessionCookie(token: string | null, isSecure: boolean): Header {
  const attributes = `Path=/; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
  const value = token === null ? '; Max-Age=0' : token
  return ['Set-Cookie', `${cookieName(isSecure)}=${value}; ${attributes}`]
}

/** The cookie outlives the session and a sign-out: it shows only that a user has signed in from this browser before. */
export function browserCookie(token: string, isSecure: boolean): Header {
  const maxAge = resourceLimits.knownBrowserSeconds
  const attributes = `Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
  return ['Set-Cookie', `${browserCookieName(isSecure)}=${token}; ${attributes}`]
}

function cookieName(isSecure: boolean): string {
  return isSecure ? '__Host-pipectl' : 'pipectl'
}

function browserCookieName(isSecure: boolean): string {
  return `${cookieName(isSecure)}-browser`
}

/** The cookie's value. Null if there is none, or if there are two: another site has then set one of them. */
function cookieValue(header: string, name: string): string | null {
  const found = header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
  return found.length === 1 ? found[0]!.slice(name.length + 1) : null
}

function changesSomething(method: string): boolean {
  return method !== 'GET' && method !== 'HEAD'
}

function isSame(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Normalizes a host as `URL` does: lower case, without a default port. */
function withoutDefaultPort(host: string): string {
  return host.toLowerCase().replace(/:(80|443)$/, '')
}
