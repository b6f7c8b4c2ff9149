/**
 * Password hashes: scrypt (N = 2^17, r = 8, p = 1; docs/dev/contract.md#sign-in-for-people). One hash takes 128 MiB and
 * about half a second of a core, on libuv's thread pool.
 *
 *   scrypt$17$8$1$<salt, 16 bytes>$<hash, 32 bytes>     log2 of N, r, p; base64url
 *
 * One hash is computed at a time. A second would take another 128 MiB, which a machine of 1 GiB does not have beside
 * ingest. It would also take another of the pool's four threads, which decompress bodies as well. Few people sign in at
 * the same moment.
 */
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { ApiError } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { SerialQueue } from '../platform/serial-queue.ts'

interface Cost {
  logN: number
  r: number
  p: number
}
const cost: Cost = { logN: 17, r: 8, p: 1 }
const saltBytes = 16
const hashBytes = 32
const MiB = 1024 * 1024

/** An unknown account is compared with this hash, so that the response takes as long as for a known one. */
const unknownAccountHash = encode(cost, Buffer.alloc(saltBytes), Buffer.alloc(hashBytes))

export class Passwords {
  readonly #queue = new SerialQueue()

  /**
   * Hashes a password for storage. `sameAddressHash`: the stored hash of another account with the same address, if any.
   * Both share the salt, so that one computation compares a password with all accounts of an address. Throws
   * `sign_in_busy`.
   */
  async hash(password: string, sameAddressHash: string | null = null): Promise<string> {
    const {
      salt,
      hash: _,
      ...params
    } = sameAddressHash === null
      ? { salt: randomBytes(saltBytes), hash: null, ...cost }
      : decode(sameAddressHash)
    return encode(params, salt, await this.#derive(password, salt, params))
  }

  /**
   * Returns the index of the first stored hash that matches the password; -1: none matches. It takes as long without
   * any account as with one, or with several that share a salt. Throws `sign_in_busy`.
   */
  async indexOf(password: string, stored: readonly string[]): Promise<number> {
    const computed = new Map<string, Buffer>()
    for (const one of stored.length === 0 ? [unknownAccountHash] : stored) {
      const { salt, hash: _, ...params } = decode(one)
      const inputs = encode(params, salt, Buffer.alloc(0))
      if (!computed.has(inputs)) computed.set(inputs, await this.#derive(password, salt, params))
    }
    return stored.findIndex((one) => {
      const { salt, hash, ...params } = decode(one)
      return timingSafeEqual(computed.get(encode(params, salt, Buffer.alloc(0)))!, hash)
    })
  }

  /** Computes one hash at a time, and rejects the request if too many are waiting. */
  async #derive(password: string, salt: Buffer, params: Cost): Promise<Buffer> {
    if (this.#queue.size >= resourceLimits.waitingPasswords) {
      throw new ApiError('sign_in_busy', { headers: { 'Retry-After': '2' } })
    }
    return await this.#queue.run(() => derive(password, salt, params))
  }
}

/** Normalises to NFKC, because keyboards produce different code points for the same letters. */
function derive(password: string, salt: Buffer, { logN, r, p }: Cost): Promise<Buffer> {
  const N = 2 ** logN
  const maxmem = 128 * N * r + 16 * MiB
  return new Promise((resolve, reject) => {
    scrypt(password.normalize('NFKC'), salt, hashBytes, { N, r, p, maxmem }, (error, derived) => {
      if (error === null) resolve(derived)
      else reject(error)
    })
  })
}

function encode({ logN, r, p }: Cost, salt: Buffer, hash: Buffer): string {
  return ['scrypt', logN, r, p, salt.toString('base64url'), hash.toString('base64url')].join('$')
}

function decode(stored: string): Cost & { salt: Buffer; hash: Buffer } {
  const [, logN, r, p, salt = '', hash = ''] = stored.split('$')
  return {
    logN: Number(logN),
    r: Number(r),
    p: Number(p),
    salt: Buffer.from(salt, 'base64url'),
    hash: Buffer.from(hash, 'base64url'),
  }
}
