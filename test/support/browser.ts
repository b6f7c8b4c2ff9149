/** A browser on the dashboard of a daemon: keeps the cookie, sends Origin and the CSRF token as the application does. */
import assert from 'node:assert/strict'
import type { Answer } from './api-client.ts'
import { call } from './daemon.ts'

export const password = 'correct horse battery'

export interface BrowserOptions {
  /** The origin of the page; default: the daemon's own. */
  origin?: string
  /** Sent with every request. */
  headers?: Record<string, string>
}

export class Browser {
  readonly #url: string
  readonly #options: BrowserOptions
  /** The session's, `name=value`; null: none. */
  cookie: string | null = null
  /** That of a browser which has signed in before. */
  browserCookie: string | null = null
  csrfToken = ''

  constructor(url: string, options: BrowserOptions = {}) {
    this.#url = url
    this.#options = options
  }

  /** A request below /dashboard/api as the application makes it; `headers` replace its own, null leaves one out. */
  async api<Body = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string | null> = {},
  ): Promise<Answer<Body>> {
    const own: Record<string, string | null> = {
      ...this.#options.headers,
      cookie: [this.cookie, this.browserCookie].filter((one) => one !== null).join('; ') || null,
      ...(method === 'GET'
        ? {}
        : { origin: this.#options.origin ?? this.#url, 'x-csrf-token': this.csrfToken || null }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    }
    const sent = Object.entries(own).filter((one): one is [string, string] => one[1] !== null)
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
    const url = `${this.#url}/dashboard/api${path}`
    const answer = await call<Body>(method, url, Object.fromEntries(sent), text)
    this.#keepCookie(answer)
    return answer
  }

  /** Throws unless it is answered 204; then the browser has the session's cookie and CSRF token. */
  async signIn(email: string, given = password): Promise<this> {
    const answer = await this.api('POST', '/v1/session', { email, password: given })
    assert.equal(answer.status, 204, answer.text)
    return await this.readSession()
  }

  async readSession(): Promise<this> {
    const session = await this.api<{ csrf_token: string }>('GET', '/v1/session')
    assert.equal(session.status, 200, session.text)
    this.csrfToken = session.body.csrf_token
    return this
  }

  #keepCookie({ headers }: Answer<unknown>): void {
    for (const given of [headers['set-cookie'] ?? []].flat()) {
      const [pair = ''] = given.split(';')
      if (pair.includes('-browser=')) this.browserCookie = pair
      else this.cookie = pair.endsWith('=') ? null : pair
    }
  }
}
