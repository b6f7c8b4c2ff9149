/**
 * `Authorization: Bearer <API_KEY>` → whose key it is. Missing, malformed, unknown and revoked are the same: undefined.
 *
 * What is remembered is only token → hash, so that the hot path does not hash; whether the key is active is asked of the
 * directory each time, and a revoked key stops working the moment the directory has forgotten it.
 */
import { hashApiKey, hasValidChecksum } from '../metadata/key-tokens.ts'
import type { Directory, DirectoryKey } from './directory.ts'

export type Authenticate = (
  authorization: string,
) => DirectoryKey | undefined | Promise<DirectoryKey | undefined>

const maxRemembered = 1000
const scheme = /^Bearer +([^\s]+) *$/i

/** A promise only for a key that the directory has not seen yet. */
export function createAuthenticate(directory: Directory): Authenticate {
  const hashes = new Map<string, string>()

  const remember = (header: string, hash: string) => {
    if (hashes.size >= maxRemembered) hashes.clear()
    hashes.set(header, hash)
  }

  return (authorization) => {
    const known = hashes.get(authorization)
    if (known !== undefined) return directory.key(known)
    const token = scheme.exec(authorization)?.[1]
    if (token === undefined || !hasValidChecksum(token)) return undefined
    const hash = hashApiKey(token)
    const key = directory.key(hash)
    // Only keys that exist are remembered: guesses must not push them out.
    if (key instanceof Promise) {
      return key.then((found) => {
        if (found !== undefined) remember(authorization, hash)
        return found
      })
    }
    if (key !== undefined) remember(authorization, hash)
    return key
  }
}
