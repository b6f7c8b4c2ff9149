/**
 * `Authorization: Bearer <API_KEY>` → the Principal whose key it is. Management, pull and ingest share it. Missing,
 * malformed, unknown, revoked and expired are the same: no principal, 401.
 *
 * Only header → hash is remembered, so that the hot path does not hash. The directory is asked each time whether the
 * key is active: a revoked key stops working the moment the directory has removed it.
 */
import { ApiError } from '../../contract/errors.ts'
import type { Principal } from '../../contract/principal.ts'
import type { Directory, KnownKey } from '../../metadata/directory-source.ts'
import { hashApiKey, hasValidChecksum } from '../../metadata/key-tokens.ts'

/** A promise only for a key that the directory has not seen yet. Undefined: not an active key. */
export type Authenticate = (authorization: string) => Principal | undefined | Promise<Principal | undefined>

const maxRemembered = 10_000
const scheme = /^Bearer +([^\s]+) *$/i

/** `now`: the wall clock, ms. */
export function createAuthenticate(
  directory: Pick<Directory, 'key'>,
  now: () => number = Date.now,
): Authenticate {
  const hashes = new Map<string, string>()

  const remember = (header: string, hash: string) => {
    // The oldest one goes, not all: with more keys in use than are remembered, most requests still find theirs.
    if (hashes.size >= maxRemembered) hashes.delete(hashes.keys().next().value!)
    hashes.set(header, hash)
  }

  const valid = (key: KnownKey | undefined): KnownKey | undefined => {
    if (key === undefined) return undefined
    // The clock is asked for keys that expire alone.
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
    // Only keys that exist are remembered: guesses must not push them out.
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
 * Calls `next` for the caller: at once when the key is known, else once the directory has looked for it. Throws or
 * rejects with `unauthorized`, and with what `next` throws.
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
