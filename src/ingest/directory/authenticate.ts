/**
 * Authenticates `Authorization: Bearer <API_KEY>` for management, pull and ingest. A missing, malformed, unknown,
 * revoked or expired key gives no principal: 401.
 *
 * Only the hash of each header is cached, so that the hot path does not hash. The directory is checked each time, so a
 * revoked key stops working as soon as the directory has removed it.
 */
import { ApiError } from '../../contract/errors.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Directory, KnownKey } from '../../metadata/directory-source.ts'
import { hashApiKey, hasValidChecksum } from '../../metadata/key-tokens.ts'

/** Returns a promise only for a key that the directory has not seen yet. Undefined when the key is not active. */
export type Authenticate = (authorization: string) => Principal | undefined | Promise<Principal | undefined>

const maxRemembered = 10_000
const scheme = /^Bearer +([^\s]+) *$/i

/** `now` is the wall clock in ms. */
export function createAuthenticate(
  directory: Pick<Directory, 'key'>,
  now: () => number = Date.now,
): Authenticate {
  const hashes = new Map<string, string>()

  const remember = (header: string, hash: string) => {
    // Evicts only the oldest: with more active keys than cache entries, most requests still hit the cache.
    if (hashes.size >= maxRemembered) hashes.delete(hashes.keys().next().value!)
    hashes.set(header, hash)
  }

  const valid = (key: KnownKey | undefined): KnownKey | undefined => {
    if (key === undefined) return undefined
    // The clock is read only for keys that expire.
    if (key.expiresMs !== Number.POSITIVE_INFINITY && key.expiresMs <= now()) return undefined
    key.isUsed = true
    return key
  }

  return (authorization) => {
    const known = hashes.get(authorization)
    if (known !== undefined) {
      const key = directory.key(known)
      return key instanceof Promise ? key.then(valid) : valid(key)
    }
    const token = scheme.exec(authorization)?.[1]
    if (token === undefined || !hasValidChecksum(token)) return undefined
    const hash = hashApiKey(token)
    const principal = directory.key(hash)
    // Only existing keys are cached, so that guessed keys cannot evict them.
    if (principal instanceof Promise) {
      return principal.then((found) => {
        if (found !== undefined) remember(authorization, hash)
        return valid(found)
      })
    }
    if (principal !== undefined) remember(authorization, hash)
    return valid(principal)
  }
}

/**
 * Calls `next` for the caller: immediately when the key is known, otherwise after the directory has looked it up. Throws
 * or rejects with `unauthorized`, and with errors of `next`.
 */
export function admit<T>(
  authenticate: Authenticate,
  authorization: string,
  next: (principal: Principal) => T,
): T | Promise<T> {
  const found = authenticate(authorization)
  return found instanceof Promise ? found.then((late) => next(require(late))) : next(require(found))
}

function require(principal: Principal | undefined): Principal {
  if (principal === undefined) throw new ApiError('unauthorized')
  return principal
}
