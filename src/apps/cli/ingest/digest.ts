/** The SHA-256 of several texts, of which none can be taken for another: identities and keys. */
import { createHash } from 'node:crypto'

export function digest(parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${part.length}:${part}`)
  return hash.digest('hex')
}
