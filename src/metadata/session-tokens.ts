/**
 * The random texts with which people prove who they are: 256 bits from the system's random source, base64url. Only their
 * SHA-256 is stored; a text this long cannot be guessed from it.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto'

const shape = /^[A-Za-z0-9_-]{43}$/

export interface MintedToken {
  /** What the client gets. */
  token: string
  /** What is stored. */
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

/** Of a session: known to whoever has its cookie or its page, and of no use for either. Nothing of it is stored. */
export function csrfTokenOf(sessionToken: string): string {
  return createHmac('sha256', sessionToken).update('pipectl csrf').digest('base64url')
}
