/**
 * Determines which server receives a destination's secrets. Secrets are write-only: a user who can change a
 * destination but does not know its secrets must not be able to send them to another server. Therefore a change of
 * the server requires the secrets again. Pure and free of schemas (see `destination-words.ts`).
 */
import { hasSecretPath, mapSecrets } from './destination-secrets.ts'
import { type DestinationType, redacted, secretKeys, secretKind, wordsOf } from './destination-words.ts'
import { hasUrlSecrets, isSamePath } from './secret-url.ts'

type Config = Readonly<Record<string, unknown>>

/**
 * Returns the stored secrets that the change would send to another server: path in the config → a sentence that
 * continues the path. `merged` is the result of `mergedConfig` for the two others.
 */
export function misdirectedSecrets(
  type: DestinationType,
  stored: Config,
  change: Config,
  merged: Config,
): [place: string, message: string][] {
  const isMoved = !isSameServer(type, stored, merged)
  if (!isMoved && !isLessVerified(type, stored, merged)) return revealedPaths(type, stored, change, merged)
  const given = new Set<string>()
  mapSecrets(type, change, (value, place) => {
    if (value !== '' && !value.includes(redacted)) given.add(place)
    return value
  })
  const kept: [string, string][] = []
  const isPathSecret = hasSecretPath(type, stored) || hasSecretPath(type, merged)
  mapSecrets(type, merged, (value, place, kind) => {
    const isSecret = kind === 'url' ? hasUrlSecrets(value, isPathSecret) : value !== ''
    if (isSecret && !given.has(place)) kept.push([place, isMoved ? sendAgain : sendAgainUnverified])
    return value
  })
  return kept
}

/** A path that was secret and would now be shown must be sent again by a caller that knows it. */
function revealedPaths(
  type: DestinationType,
  stored: Config,
  change: Config,
  merged: Config,
): [place: string, message: string][] {
  if (!hasSecretPath(type, stored) || hasSecretPath(type, merged)) return []
  return secretKeys(type).flatMap((key): [string, string][] => {
    if (secretKind(type, key) !== 'url' || change[key] === merged[key]) return []
    const [before, after] = [String(stored[key]), String(merged[key])]
    return hasUrlSecrets(before, true) && isSamePath(before, after) ? [[key, sendAgainShown]] : []
  })
}

const sendAgain =
  'must be sent again with this change: a stored secret is not sent to a server that it was not given for'

const sendAgainUnverified =
  'must be sent again with this change: a stored secret is not sent to a server that is verified less strictly, or by another CA, than before'

const sendAgainShown =
  'must be sent again with this change: its path, which was secret until now, would be shown'

/** True if the change allows another server to impersonate the server, which was not possible before. */
function isLessVerified(type: DestinationType, before: Config, after: Config): boolean {
  const rank = (config: Config) => wordsOf(type).verification?.(config) ?? 0
  return (
    rank(after) < rank(before) || (rank(before) > 0 && (before.tls_ca ?? null) !== (after.tls_ca ?? null))
  )
}

/** True if both configs send their secrets to the same server. */
export function isSameServer(type: DestinationType, one: Config, other: Config): boolean {
  const { server } = wordsOf(type)
  return server(one) === server(other)
}
