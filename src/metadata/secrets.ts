/**
 * Sealing: AES-256-GCM, one value at a time. A sealed value is text:
 *
 *   v1.<key id>.<base64url of 12 bytes nonce, 16 bytes tag, ciphertext>
 *
 * The nonce is random and new for every value. The owner of the value is authenticated with it: a sealed text that is
 * copied to another destination or another key of its config cannot be opened. The key id identifies the sealing key.
 * It is derived from the key but does not reveal it.
 */
import assert from 'node:assert/strict'
import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from 'node:crypto'

const nonceBytes = 12
const tagBytes = 16

export interface Sealer {
  seal(value: string, belongsTo: string): string
  /** Throws UnsealError if the text was sealed with another key or for another position, or was altered. */
  open(sealed: string, belongsTo: string): string
  /** Returns a fingerprint (hex) of text that may hold secrets. It is useless without the sealing key. */
  fingerprint(text: string): string
}

/** Names the owner of the value, but not the value. */
export class UnsealError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'UnsealError'
  }
}

/** `sealingKey`: 32 bytes. */
export function createSealer(sealingKey: Buffer): Sealer {
  assert.equal(sealingKey.length, 32, 'a sealing key has 32 bytes')
  const keyId = createHash('sha256')
    .update('pipectl sealing key id')
    .update(sealingKey)
    .digest('hex')
    .slice(0, 8)
  return {
    seal(value, belongsTo) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', sealingKey, nonce, { authTagLength: tagBytes })
      cipher.setAAD(Buffer.from(belongsTo))
      const ciphertext = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()])
      return `v1.${keyId}.${Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]).toString('base64url')}`
    },
    open(sealed, belongsTo) {
      const [version, madeBy, payload] = sealed.split('.')
      if (version !== 'v1' || payload === undefined) throw new UnsealError(`${belongsTo}: not a sealed value`)
      if (madeBy !== keyId) throw new UnsealError(`${belongsTo}: sealed with another key`)
      const bytes = Buffer.from(payload, 'base64url')
      const nonce = bytes.subarray(0, nonceBytes)
      const tag = bytes.subarray(nonceBytes, nonceBytes + tagBytes)
      try {
        const decipher = createDecipheriv('aes-256-gcm', sealingKey, nonce, { authTagLength: tagBytes })
        decipher.setAAD(Buffer.from(belongsTo))
        decipher.setAuthTag(tag)
        const start = nonceBytes + tagBytes
        return Buffer.concat([decipher.update(bytes.subarray(start)), decipher.final()]).toString('utf8')
      } catch {
        throw new UnsealError(`${belongsTo}: the sealed value was altered or copied from another position`)
      }
    },
    fingerprint: (text) => createHmac('sha256', sealingKey).update('fingerprint').update(text).digest('hex'),
  }
}
