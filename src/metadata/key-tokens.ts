/**
 * API keys (docs/dev/contract.md#ids-and-api-keys):
 *
 *   ppl1_ + 32 base62 characters from the system's random source + 6 base62 characters: CRC-32 of everything before them
 *
 * 32 characters hold 190 bits. The checksum detects a mistyped or invented key without a look-up, and lets secret
 * scanners recognise leaked keys. Only the SHA-256 is stored; a key this long cannot be guessed from it.
 */
import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { fullRights, type KeyRights } from '../contract/api-key.ts'

export interface NewApiKey {
  name: string
  prefix: string
  /** SHA-256 of the whole key, hex. */
  hash: string
  rights: KeyRights
}

const version = 'ppl1_'
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const randomLength = 32
const checksumLength = 6
const prefixLength = 12
const shape = new RegExp(`^${version}[0-9A-Za-z]{${randomLength + checksumLength}}$`)

/** Creates a key. `apiKey` is the full text, shown once; `key` is the part that is stored. */
export function mintApiKey(name: string, rights: KeyRights = fullRights): { apiKey: string; key: NewApiKey } {
  const body = version + randomDigits(randomLength)
  const apiKey = body + checksum(body)
  return { apiKey, key: { name, prefix: apiKey.slice(0, prefixLength), hash: hashApiKey(apiKey), rights } }
}

/** Returns the SHA-256 of the full key in hex, by which metadata and the directory identify it. */
export function hashApiKey(apiKey: string): string {
  return createHash('sha256').update(apiKey).digest('hex')
}

/** False for any text that pipectl cannot have created: such a key is rejected without a look-up. */
export function hasValidChecksum(apiKey: string): boolean {
  if (!shape.test(apiKey)) return false
  const body = apiKey.slice(0, -checksumLength)
  return apiKey.slice(-checksumLength) === checksum(body)
}

/** Six digits hold 62^6 > 2^32 values; the most significant digit first, padded with zeros. */
function checksum(text: string): string {
  let rest = crc32(text)
  let out = ''
  for (let place = 0; place < checksumLength; place += 1) {
    out = digits.charAt(rest % 62) + out
    rest = Math.floor(rest / 62)
  }
  return out
}

/** Bytes from 248 on are discarded: 256 is no multiple of 62, so the first digits would be more frequent. */
function randomDigits(length: number): string {
  let out = ''
  while (out.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < 248 && out.length < length) out += digits.charAt(byte % 62)
    }
  }
  return out
}
