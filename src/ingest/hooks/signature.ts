/**
 * The parts that all verifiers share: reading headers and fields of unknown senders, comparing in constant time, timestamps.
 *
 * Nothing here throws, whatever the bytes are. A header is read only up to `hookHeaderCharacters`, at most
 * `hookSignatures` signatures are compared, and an unsigned body is hashed once per secret.
 */

import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { HookRefusal } from '../../contract/source-words.ts'
import { members } from '../../log/record-text.ts'
import type { HookRequest, Refused } from './request.ts'

export function refused(reason: HookRefusal): Refused {
  return { ok: false, reason }
}

/** The value of a header that has to be present; or the reason to reject the request. */
export function required({ headers }: HookRequest, name: string): string | Refused {
  const value = headers(name) ?? ''
  if (value.length > resourceLimits.hookHeaderCharacters) return refused('malformed')
  return value.trim() || refused('missing_signature')
}

export interface Signed {
  algorithm: 'sha1' | 'sha256' | 'sha512'
  encoding: 'hex' | 'base64'
  /** One for each secret, the most likely first. */
  keys: readonly (string | Buffer)[]
  /** The signed text, in order. Strings are UTF-8. */
  parts: readonly (string | Uint8Array)[]
  /** The signatures of the request, without prefix. At least one. */
  signatures: readonly string[]
}

/** Returns null if one of the signatures matches one of the keys, and otherwise the reason to reject the request. */
export function signatureProblem({ algorithm, encoding, keys, parts, signatures }: Signed): Refused | null {
  if (signatures.length === 0 || signatures.length > resourceLimits.hookSignatures)
    return refused('malformed')
  for (const key of keys) {
    // Everyone knows the empty key.
    if (key.length === 0) continue
    const mac = createHmac(algorithm, key)
    for (const part of parts) mac.update(part)
    const expected = mac.digest(encoding)
    if (signatures.some((signature) => isEqual(signature, expected))) return null
  }
  return refused('wrong_signature')
}

/**
 * Compares the texts, not the bytes that they encode: several base64 texts decode to the same bytes. Only the length is
 * revealed, which is public.
 */
function isEqual(given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** For secrets of unknown length, which the comparison must not reveal. */
export function isSameSecret(given: string, expected: string): boolean {
  return timingSafeEqual(sha256(given), sha256(expected))
}

/** `hash` is the SHA-256 of a token in hex. */
export function hasHash(token: string, hash: string): boolean {
  return isEqual(sha256(token).toString('hex'), hash)
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}

/** The time in milliseconds of a Unix time in seconds; null if it is not one. Twelve digits reach the year 33658. */
export function unixTimeMs(text: string): number | null {
  return /^\d{1,12}$/.test(text) ? Number(text) * 1000 : null
}

/** The limit itself is accepted, in both directions: clocks of both sides can differ. */
export function isTimely(timeMs: number, nowMs: number, toleranceSeconds: number): boolean {
  return Math.abs(nowMs - timeMs) <= toleranceSeconds * 1000
}

/** An id of the provider that can be an Idempotency-Key; undefined if it cannot. */
export function deliveryId(id: string | undefined): string | undefined {
  return id !== undefined && /^[\x21-\x7e]{1,255}$/.test(id) ? id : undefined
}

/**
 * A member of the object that is a string without escapes, such as an id or a type; null if there is none. The last of
 * equal keys wins, as in JSON.parse. For any bytes, also if they are not JSON.
 */
export function plainMember(json: Buffer, name: string): string | null {
  const found = rawMember(json, name)?.toString('latin1') ?? ''
  return /^"([\x20\x21\x23-\x5b\x5d-\x7e]*)"$/.exec(found)?.[1] ?? null
}

export function rawMember(json: Buffer, name: string): Buffer | null {
  const literal = Buffer.from(`"${name}"`)
  let found: Buffer | null = null
  for (const { key, value } of members(json)) if (key.equals(literal)) found = value
  return found
}

export function asBuffer({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, length)
}
