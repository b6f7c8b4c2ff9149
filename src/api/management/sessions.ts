/**
 * Sign-in and sessions (docs/dev/contract.md#sign-in-for-people). A session is a random token in a cookie of the
 * browser. Metadata stores its hash and is asked on every request, so that a session that another process ended
 * (`pipectl users password`) ends at once.
 *
 *   signIn / setUp ──▶ begun ──authenticate, on each request──▶ ended by: sign-out · 30 min without a request · 12 h ·
 *                                                               a change of password or role · deletion of the user
 */
import { ApiError, validationError } from '../../contract/errors.ts'
import type { Principal } from '../../contract/principal.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { type CurrentSession, PasswordChange, SetUp, SignIn } from '../../contract/session.ts'
import { requireObject, validate } from '../../contract/validate.ts'
import type { Actor } from '../../metadata/audit.ts'
import type { Passwords } from '../../metadata/password-hash.ts'
import {
  csrfTokenOf,
  hashToken,
  isToken,
  knownBrowser,
  mintBrowserToken,
  mintToken,
} from '../../metadata/session-tokens.ts'
import type { StoredSession } from '../../metadata/sessions.ts'
import type { Metadata } from '../../metadata/store.ts'
import type { StoredUser } from '../../metadata/users.ts'
import type { Logger } from '../../platform/log.ts'
import { SignInLimits } from './sign-in-limits.ts'

export interface SessionDeps {
  metadata: Pick<Metadata, 'users' | 'sessions' | 'as'>
  passwords: Passwords
  /** The wall clock, ms. */
  now: () => number
  /** A monotonic clock in ms. */
  monotonicMs?: () => number
  log: Logger
  /**
   * Called with the workspace of users whose sessions have ended. Absent: no other part of the process needs to know.
   */
  usersChanged?: (workspaceId: string) => void
}

/** The cookies that a browser gets. */
export interface SignedIn {
  /** The token of the new session. */
  session: string
  /** Distinguishes later sign-in attempts of this browser from those of unknown clients. */
  browser: string
}

/** The source of an attempt to sign in. */
export interface SignInSource {
  /** The network by which attempts are counted: an IPv4 address or an IPv6 network. */
  network: string
  browserToken: string | null
  /** For the audit log. */
  address?: string | null | undefined
}

/** An attempt to sign in that was counted. */
interface Attempt {
  /** The accounts that the password is compared with. */
  candidates: readonly StoredUser[]
  uncount: () => void
}

const idleMs = resourceLimits.sessionIdleSeconds * 1_000
const longestMs = resourceLimits.sessionSeconds * 1_000
/** The precision with which metadata knows when a session was last used. */
const usedEveryMs = 60_000
const maxRemembered = 10_000

/** The state of a session in use that is kept in memory. Losing it does no harm: metadata has the session. */
interface Use {
  lastMs: number
  storedMs: number
  requestsLeft: number
  refilledMs: number
}

export class Sessions {
  readonly #deps: SessionDeps
  readonly #limits: SignInLimits
  readonly #monotonicMs: () => number
  readonly #uses = new Map<string, Use>()

  constructor(deps: SessionDeps) {
    this.#deps = deps
    this.#monotonicMs = deps.monotonicMs ?? (() => performance.now())
    this.#limits = new SignInLimits(this.#monotonicMs)
  }

  /**
   * An unknown account and a wrong password give the same `sign_in_failed`, after the same time. If accounts in
   * several workspaces have the address, the password decides.
   */
  async signIn(body: unknown, from: SignInSource): Promise<SignedIn> {
    const { email, password } = validate(SignIn, requireObject(body))
    const name = email.trim().toLowerCase()
    const accounts = await this.#deps.metadata.users.accountsOf(name)
    const address = from.address ?? null
    return await this.#begin(
      await this.#verified(password, this.#attempt(name, accounts, from), address),
      address,
    )
  }

  /**
   * Creates a user from a setup link and begins the first session. Throws `setup_link_invalid` before a password is
   * hashed.
   */
  async setUp(body: unknown, address: string | null = null): Promise<SignedIn> {
    const { token, email, password } = validate(SetUp, requireObject(body))
    const actor: Actor = { kind: 'user', id: null, name: email.toLowerCase(), address, operation: 'setUp' }
    const { users } = this.#deps.metadata.as(actor)
    const hash = hashToken(token)
    if (!isToken(token) || !(await users.hasSetupLink(hash))) throw new ApiError('setup_link_invalid')
    const [sameEmail] = await this.#deps.metadata.users.accountsOf(email)
    const passwordHash = await this.#deps.passwords.hash(password, sameEmail?.passwordHash)
    const user = await users.redeemSetupLink(hash, { email, passwordHash })
    if (user === null) throw new ApiError('setup_link_invalid')
    this.#deps.log.info({ user_id: user.user.user_id }, 'user.set_up')
    return await this.#begin(user, address)
  }

  /** Undefined: there is no such session, or it has ended. Throws `too_many_requests`. */
  async authenticate(token: string): Promise<Principal | undefined> {
    if (!isToken(token)) return undefined
    const hash = hashToken(token)
    const session = await this.#deps.metadata.sessions.find(hash)
    if (session === null) {
      this.#uses.delete(hash)
      return undefined
    }
    const use = this.#uses.get(hash) ?? this.#newUse(hash, session)
    const now = this.#deps.now()
    if (now - use.lastMs >= idleMs || now - session.createdMs >= longestMs) {
      await this.#end(hash)
      return undefined
    }
    this.#countRequest(use)
    this.#markUsed(hash, use, now)
    const { user_id: userId, user_role: role } = session.user
    return {
      workspaceId: session.workspaceId,
      by: { kind: 'session', sessionId: hash, userId },
      // Only keys can send and pull records.
      may: { ingest: false, pull: false, read: true, manage: role === 'admin' },
      pipeIds: null,
      expiresMs: Number.POSITIVE_INFINITY,
    }
  }

  async current(token: string): Promise<Omit<CurrentSession, 'data_url'>> {
    const session = await this.#require(token)
    return {
      user: session.user,
      workspace: { workspace_id: session.workspaceId, workspace_name: session.workspaceName },
      csrf_token: csrfTokenOf(token),
      session_expires_ts: new Date(session.createdMs + longestMs).toISOString(),
      session_idle_seconds: resourceLimits.sessionIdleSeconds,
    }
  }

  async signOut(token: string): Promise<void> {
    const hash = hashToken(token)
    const session = await this.#deps.metadata.sessions.find(hash)
    await this.#end(hash)
    if (session !== null) this.#deps.usersChanged?.(session.workspaceId)
  }

  /**
   * Ends every session of the user and begins a new one. Throws `validation_error`, `too_many_attempts`,
   * `sign_in_busy`.
   */
  async changePassword(token: string, body: unknown, address: string | null = null): Promise<SignedIn> {
    const { current_password, password } = validate(PasswordChange, requireObject(body))
    const account = await this.#require(token)
    const { workspaceId, user } = account
    const uncount = this.#limits.begin(user.user_email, { browser: `with a session of ${user.user_id}` })
    try {
      await this.#verified(current_password, { candidates: [account], uncount }, address)
    } catch (error) {
      // The session continues, so the error is not a 401, which would mean that it has ended.
      if (!(error instanceof ApiError && error.code === 'sign_in_failed')) throw error
      throw validationError({ current_password: 'This is not your current password.' })
    }
    const passwordHash = await this.#deps.passwords.hash(password, account.passwordHash)
    const { users } = this.#as(user.user_id, user.user_email, 'changeOwnPassword', address)
    const changed = await users.update({ workspaceId, userId: user.user_id }, { passwordHash })
    if (changed === null) throw new ApiError('session_required')
    this.#deps.usersChanged?.(workspaceId)
    return await this.#begin({ workspaceId, user: changed, passwordHash }, address)
  }

  /**
   * Throws `too_many_attempts`. When unknown clients have no attempts left, a browser that has signed in before still
   * has some, for the account that knows it. Other accounts with the same address are not tried: the owner of one of
   * them could guess their passwords that way.
   */
  #attempt(name: string, accounts: readonly StoredUser[], { network, browserToken }: SignInSource): Attempt {
    try {
      return { candidates: accounts, uncount: this.#limits.begin(name, { address: network }) }
    } catch (error) {
      for (const account of accounts) {
        const browser = knownBrowser(browserToken ?? '', account.passwordHash)
        if (browser !== null) return { candidates: [account], uncount: this.#limits.begin(name, { browser }) }
      }
      throw error
    }
  }

  /** Throws `sign_in_failed`, `sign_in_busy`. */
  async #verified(
    password: string,
    { candidates, uncount }: Attempt,
    address: string | null,
  ): Promise<StoredUser> {
    try {
      const hashes = candidates.map(({ passwordHash }) => passwordHash)
      const user = candidates[await this.#deps.passwords.indexOf(password, hashes)]
      if (user !== undefined) {
        uncount()
        return user
      }
      // With several candidates the failure is not added to an audit log: one workspace would learn of attempts on an
      // account of another.
      const [only] = candidates.length === 1 ? candidates : []
      this.#deps.log.warn({ address, user_id: only?.user.user_id }, 'user.sign_in_failed')
      if (only !== undefined) this.#recordFailure(only, address)
    } catch (error) {
      uncount()
      throw error
    }
    throw new ApiError('sign_in_failed')
  }

  /**
   * The entry is written after the response, which must not take longer for an existing account. An attempt on an
   * unknown account belongs to no workspace and is only logged.
   */
  #recordFailure({ workspaceId, user }: StoredUser, address: string | null): void {
    const { audit } = this.#as(user.user_id, user.user_email, 'signInFailed', address)
    const of = { operation: 'signInFailed', resourceId: user.user_id, pipeId: null }
    const after = { user_email: user.user_email }
    setImmediate(() => {
      audit.record({ workspaceId, ...of, before: null, after }).catch((error) => {
        this.#deps.log.warn({ err: error }, 'audit.not_recorded')
      })
    })
  }

  #as(id: string, name: string, operation: string, address: string | null): Metadata {
    return this.#deps.metadata.as({ kind: 'user', id, name, address, operation })
  }

  async #begin(user: StoredUser, address: string | null): Promise<SignedIn> {
    const { token, hash } = mintToken()
    const { sessions } = this.#as(user.user.user_id, user.user.user_email, 'signIn', address)
    if (!(await sessions.begin(user, hash))) throw new ApiError('sign_in_failed')
    this.#deps.log.info({ user_id: user.user.user_id }, 'user.signed_in')
    return { session: token, browser: mintBrowserToken(user.passwordHash) }
  }

  async #require(token: string): Promise<StoredSession> {
    const session = await this.#deps.metadata.sessions.find(hashToken(token))
    if (session === null) throw new ApiError('session_required')
    return session
  }

  async #end(hash: string): Promise<void> {
    this.#uses.delete(hash)
    await this.#deps.metadata.sessions.end(hash)
  }

  #newUse(hash: string, { lastUsedMs }: StoredSession): Use {
    if (this.#uses.size >= maxRemembered) this.#uses.clear()
    const use = {
      lastMs: lastUsedMs,
      storedMs: lastUsedMs,
      requestsLeft: resourceLimits.sessionRequestsAtOnce,
      refilledMs: this.#monotonicMs(),
    }
    this.#uses.set(hash, use)
    return use
  }

  #countRequest(use: Use): void {
    const { sessionRequestsPerSecond: rate, sessionRequestsAtOnce: most } = resourceLimits
    const now = this.#monotonicMs()
    use.requestsLeft = Math.min(most, use.requestsLeft + ((now - use.refilledMs) / 1_000) * rate)
    use.refilledMs = now
    if (use.requestsLeft < 1) throw new ApiError('too_many_requests', { headers: { 'Retry-After': '1' } })
    use.requestsLeft -= 1
  }

  /**
   * The request does not wait for the write: on a full disk users can still read, as long as this process remembers
   * the session.
   */
  #markUsed(hash: string, use: Use, now: number): void {
    use.lastMs = now
    if (now - use.storedMs < usedEveryMs) return
    use.storedMs = now
    this.#deps.metadata.sessions.used(hash).catch((error) => {
      this.#deps.log.warn({ err: error }, 'session.use_not_stored')
    })
  }
}
