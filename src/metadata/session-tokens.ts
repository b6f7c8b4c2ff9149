/**
 * Random tokens that authenticate people: 256 bits from the system's random source, base64url. Only their SHA-256 is
 * stored; a token this long cannot be guessed from it.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

const shape = /^[A-Za-z0-9_-]{43}$/
const browserShape = /^([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/

export interface MintedToken {
  /** The text that the client receives. */
  token: string
  /** The hash that is stored. */
  hash: string
}

export function mintToken(): MintedToken {
  const token = randomBytes(32).toString('base64url')
  return { token, hash: hashToken(token) }
}

/** Returns the SHA-256 in hex. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}

/** False for any text that pipectl cannot have created: such a text is rejected without a look-up. */
export function isToken(text: string): boolean {
  return shape.test(text)
}

/**
 * Returns the CSRF token of a session. It is derived from the session's cookie and useless without it, so it is not
 * stored.
 */
export function csrfTokenOf(sessionToken: string): string {
  return createHmac('sha256', sessionToken).update('pipectl csrf').digest('base64url')
}

/**
 * Creates the token that a browser keeps after its user has signed in: `<id>.<signature>`. It gives no access. Sign-in
 * attempts from that browser are counted separately from those of unknown clients. The signature's key is the stored
 * password hash, so the token is valid on every node and after a restart, for this account only, and until the password
 * changes.
 */
export function mintBrowserToken(passwordHash: string): string {
  const id = randomBytes(16).toString('base64url')
  return `${id}.${signatureOf(id, passwordHash)}`
}

/** Returns the browser's id; null: the token is not valid for this account. */
export function knownBrowser(token: string, passwordHash: string): string | null {
  const [, id = '', signature = ''] = browserShape.exec(token) ?? []
  const expected = Buffer.from(signatureOf(id, passwordHash))
  const given = Buffer.from(signature)
  return given.length === expected.length && timingSafeEqual(given, expected) ? id : null
}

function signatureOf(browserId: string, passwordHash: string): string {
  return createHmac('sha256', passwordHash).update(`pipectl known browser ${browserId}`).digest('base64url')
}
