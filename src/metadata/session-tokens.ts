/**
 * The random texts with which people prove who they are: 256 bits from the system's random source, base64url. Only their
 * SHA-256 is stored; a text this long cannot be guessed from it.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

const shape = /^[A-Za-z0-9_-]{43}$/
const browserShape = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/

export interface MintedToken {
  /** The token that the client gets. */
  token: string
  /** The hash that is stored. */
  hash: string
}

export function mintToken(): MintedToken {
  const token = randomBytes(32).toString('base64url')
  return { token, hash: hashToken(token) }
}

/** SHA-256, hex. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}

/** False for everything that was never one of ours; such a text is rejected without a look-up. */
export function isToken(text: string): boolean {
  return shape.test(text)
}

/**
 * The CSRF token of a session: only a client that has the session's cookie or its page can know it, and it is of no
 * use without the cookie. It is not stored.
 */
export function csrfTokenOf(sessionToken: string): string {
  return createHmac('sha256', sessionToken).update('pipectl csrf').digest('base64url')
}

/**
 * The token that a browser keeps after its user has signed in: `<id>.<signature>`. It gives no access; attempts to
 * sign in from that browser are counted apart from those of unknown clients. The key of the signature is the stored
 * hash of the password, so that it is valid on every node and after a restart, for this account only, and until the
 * password changes.
 */
export function mintBrowserToken(passwordHash: string): string {
  const id = randomBytes(16).toString('base64url')
  return `${id}.${signatureOf(id, passwordHash)}`
}

/** The browser's id; null: the token is no token of this account. */
export function knownBrowser(token: string, passwordHash: string): string | null {
  const [, id = '', signature = ''] = browserShape.exec(token) ?? []
  const expected = Buffer.from(signatureOf(id, passwordHash))
  const given = Buffer.from(signature)
  return given.length === expected.length && timingSafeEqual(given, expected) ? id : null
}

function signatureOf(browserId: string, passwordHash: string): string {
  return createHmac('sha256', passwordHash).update(`pipectl known browser ${browserId}`).digest('base64url')
}
