/**
 * Which server gets the secrets of a destination. Secrets are write-only: who may change a destination but does not know
 * its secrets must not be able to have them sent to a server of their own. So a change of the server needs them again.
 * Pure, and free of schemas (see `destination-words.ts`).
 */
import { hasSecretPath, mapSecrets } from './destination-secrets.ts'
import { type DestinationType, redacted } from './destination-words.ts'
import { hasUrlSecrets, isSamePath } from './secret-url.ts'

type Config = Readonly<Record<string, unknown>>

/**
 * For each stored secret that the change would send to another server: its place in the config, and a sentence that goes
 * after the place's name. `merged` is what `mergedConfig` makes of the two others.
 */
export function misdirectedSecrets(
  type: DestinationType,
  stored: Config,
  change: Config,
  merged: Config,
): [place: string, message: string][] {
  const isMoved = !isSameServer(type, stored, merged)
  if (!isMoved && !isLessVerified(type, stored, merged)) return revealedPath(stored, change, merged)
  const given = new Set<string>()
  mapSecrets(type, change, (value, place) => {
    if (value !== '' && !value.includes(redacted)) given.add(place)
    return value
  })
  const kept: [string, string][] = []
  const isPathSecret = hasSecretPath(stored) || hasSecretPath(merged)
  mapSecrets(type, merged, (value, place, kind) => {
    const isSecret = kind === 'url' ? hasUrlSecrets(value, isPathSecret) : value !== ''
    if (isSecret && !given.has(place)) kept.push([place, isMoved ? sendAgain : sendAgainUnverified])
    return value
  })
  return kept
}

/** A path that was a secret and would be shown from now on: only to who knows it. */
function revealedPath(stored: Config, change: Config, merged: Config): [place: string, message: string][] {
  if (!hasSecretPath(stored) || hasSecretPath(merged)) return []
  const [before, after] = [String(stored.url), String(merged.url)]
  if (!hasUrlSecrets(before, true) || !isSamePath(before, after) || change.url === after) return []
  return [['url', sendAgainShown]]
}

const sendAgain =
  'must be sent again with this change: a stored secret is not sent to a server that it was not given for'

const sendAgainUnverified =
  'must be sent again with this change: a stored secret is not sent to a server that is verified less strictly, or by another CA, than before'

const sendAgainShown =
  'must be sent again with this change: its path, which was secret until now, would be shown'

/** Whether another server can now take the server's place that could not before. */
function isLessVerified(type: DestinationType, before: Config, after: Config): boolean {
  const rank = (config: Config) => verificationRank(type, config)
  return (
    rank(after) < rank(before) || (rank(before) > 0 && (before.tls_ca ?? null) !== (after.tls_ca ?? null))
  )
}

/** 0: any server that responds gets the secrets. Only for types whose verification can be set. */
function verificationRank(type: DestinationType, { tls_verify: verify, tls_ca: ca }: Config): number {
  if (type === 'destination_nats') return verify === false ? 0 : 1
  if (type !== 'destination_database') return 0
  return ['none', 'ca', 'full'].indexOf(String(verify ?? (ca ? 'full' : 'none')))
}

/** Whether both configs have their secrets sent to one server. */
export function isSameServer(type: DestinationType, one: Config, other: Config): boolean {
  return serverOf(type, one) === serverOf(type, other)
}

/** Compared, never shown. Whether there is TLS follows from it: the scheme of a URL, the host of a database. */
function serverOf(type: DestinationType, config: Config): string | null {
  switch (type) {
    case 'destination_database': {
      const isMysql = ['mysql', 'mariadb'].includes(String(config.dialect ?? config.sql_dialect ?? ''))
      const port = Number(config.port ?? (isMysql ? 3306 : 5432))
      return `${String(config.host).toLowerCase()} ${port}`
    }
    case 'destination_object_store':
      // Without an endpoint, AWS.
      return typeof config.endpoint === 'string' ? originOf(config.endpoint) : null
    case 'destination_http_endpoint':
      return originOf(String(config.url))
    case 'destination_nats':
      return String(config.url).toLowerCase()
    case 'destination_pull':
      return null
  }
}

/** The text itself where it is no URL: rejected as a config by its own rules. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url
}
