/**
 * Cleans texts from outside before they are stored, logged or shown. Removes control characters, characters that change
 * the writing direction, line breaks, and our secrets if a server echoes them; limits the length. Pure.
 */
import { resourceLimits } from '../contract/resource-limits.ts'

/** Cuts a text to a number of bytes of UTF-8; a longer text ends with an ellipsis. Idempotent. */
export function cleanText(text: string, maxBytes: number = resourceLimits.errorMessageBytes): string {
  // Cut roughly first: a server may have sent megabytes.
  const near = text.slice(0, maxBytes * 2)
  const clean = near.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ')
  if (near.length === text.length && Buffer.byteLength(clean) <= maxBytes) return inMemoryOfItsOwn(clean)
  return inMemoryOfItsOwn(`${cutToBytes(clean, maxBytes - ellipsisBytes)}${ellipsis}`)
}

/** Cuts a text to a number of characters, including the ellipsis of a longer text. */
export function cutToCharacters(text: string, most: number): string {
  // A character takes at most two UTF-16 units, so everything that is cut off here is beyond the limit.
  const characters = [...text.slice(0, most * 2 + 1)]
  return characters.length <= most
    ? inMemoryOfItsOwn(text)
    : inMemoryOfItsOwn(`${characters.slice(0, most - 1).join('')}${ellipsis}`)
}

/**
 * Copies a text. V8 stores a substring as a reference to the original: 1 KiB of a kept error would retain its 10 MB.
 */
function inMemoryOfItsOwn(text: string): string {
  return Buffer.from(text).toString()
}

/** `http_422`, an SQLSTATE, the store's own code: one word. */
export function cleanCode(code: string): string {
  const { errorCodeCharacters } = resourceLimits
  return cleanText(code, errorCodeCharacters).replaceAll(' ', '_') || 'unknown'
}

/**
 * Removes the secrets. If the text was cut, the beginning of a secret before the ellipsis is removed too. Secrets of
 * fewer than four characters are ignored: they would match everywhere.
 */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secretRemover(secrets)(text)
}

/** `withoutSecrets` for many texts: the secrets are prepared once. */
export function secretRemover(secrets: readonly string[]): (text: string) => string {
  const all = forms(secrets)
  return (text) => {
    let scrubbed = text
    for (const secret of all) scrubbed = scrubbed.replaceAll(secret, mark)
    const parts = scrubbed.split(ellipsis)
    const last = parts.pop() ?? ''
    return [...parts.map((part) => withoutBegunSecret(part, all)), last].join(ellipsis)
  }
}

const mark = '[redacted]'
/** Marks the end of a text that was cut. */
export const ellipsis = '…'
const ellipsisBytes = Buffer.byteLength(ellipsis)
const minSecretCharacters = 4

/** The secrets as configured and as `cleanText` leaves them, longest first, since one may be part of another. */
function forms(secrets: readonly string[]): string[] {
  const all = secrets.flatMap((secret) => [secret, secret.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, ' ')])
  return [...new Set(all)]
    .filter((secret) => secret.length >= minSecretCharacters)
    .sort((one, other) => other.length - one.length)
}

/** The text before an ellipsis, without a partial secret at its end. */
function withoutBegunSecret(text: string, secrets: readonly string[]): string {
  const begun = Math.max(0, ...secrets.map((secret) => begunAtEnd(text, secret)))
  return begun === 0 ? text : `${text.slice(0, text.length - begun)}${mark}`
}

/** Number of characters at the end of the text that are the beginning of the secret. */
function begunAtEnd(text: string, secret: string): number {
  for (let length = Math.min(secret.length - 1, text.length); length >= minSecretCharacters; length--)
    if (text.endsWith(secret.slice(0, length))) return length
  return 0
}

function cutToBytes(text: string, maxBytes: number): string {
  let bytes = 0
  let end = 0
  for (const character of text) {
    bytes += Buffer.byteLength(character)
    if (bytes > maxBytes) break
    end += character.length
  }
  return text.slice(0, end)
}
