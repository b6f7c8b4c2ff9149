/**
 * Bearer authentication of management and pull (contract "Ids, keys, auth"): missing, malformed, unknown and revoked
 * get the same 401, before anything else of the request is looked at.
 */
import { ApiError } from '../contract/errors.ts'
import type { Authenticate } from '../ingest/bearer.ts'
import type { DirectoryKey } from '../ingest/directory.ts'

/** Throws `unauthorized`. */
export async function requireKey(authenticate: Authenticate, authorization: string): Promise<DirectoryKey> {
  const key = await authenticate(authorization)
  if (key === undefined) throw new ApiError('unauthorized', { headers: { 'WWW-Authenticate': 'Bearer' } })
  return key
}
