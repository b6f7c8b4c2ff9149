/** Finds the secret values in a destination's config, from the table of its fields. Pure. */
import {
  type DestinationType,
  fieldsOf,
  isEmptyUnset,
  redacted,
  type SecretKind,
  secretKind,
} from './destination-words.ts'
import { isObject } from './is-object.ts'
import { redactedUrl, restoredUrl } from './secret-url.ts'

type Config = Readonly<Record<string, unknown>>

/**
 * Returns the config with each secret value replaced. `place` is the path of the value within the config, such as
 * `password` or `secret_headers.x-api-key`. Null means "not set" and is kept.
 */
export function mapSecrets(
  type: DestinationType,
  config: Config,
  replace: (value: string, place: string, kind: SecretKind) => string,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => {
      const kind = secretKind(type, key)
      if (kind === undefined) return [key, value]
      if (typeof value === 'string') return [key, replace(value, key, kind)]
      if (kind !== 'map' || typeof value !== 'object' || value === null) return [key, value]
      const members = Object.entries(value).map(([name, member]) => [
        name,
        replace(String(member), `${key}.${name}`, kind),
      ])
      return [key, Object.fromEntries(members)]
    }),
  )
}

/** The config as responses show it. Each secret that is set becomes `[redacted]`. */
export function redactedConfig(
  type: DestinationType,
  config: Config,
  isPathSecret = hasSecretPath(type, config),
): Record<string, unknown> {
  return mapSecrets(type, config, (value, _, kind) =>
    kind === 'url' ? redactedUrl(value, isPathSecret) : redacted,
  )
}

/** True if the path of the URL is a secret. Takes the complete config. */
export function hasSecretPath(type: DestinationType, config: Config): boolean {
  return fieldsOf(type).some(
    ([key, { hidesUrlPath }]) => hidesUrlPath !== undefined && config[key] === hidesUrlPath,
  )
}

/**
 * Merges a PATCH into the stored config, at the top level (docs/dev/contract.md#destinations). Objects of secrets are
 * merged per key. A secret sent as `""` or `[redacted]` keeps the stored value; null removes a key. The caller must
 * validate the merged config.
 */
export function mergedConfig(type: DestinationType, stored: Config, change: Config): Record<string, unknown> {
  const merged = new Map(Object.entries(stored))
  for (const [key, value] of Object.entries(change)) {
    const kind = secretKind(type, key)
    const before = merged.get(key)
    if (kind === 'text' && (value === '' || value === redacted)) continue
    if (value === null || (value === '' && isEmptyUnset(type, key))) merged.delete(key)
    else if (kind === 'map') merged.set(key, mergedMembers(before, value))
    else if (kind === 'url') merged.set(key, mergedUrl(before, value, hasSecretPath(type, stored)))
    else merged.set(key, value)
  }
  return Object.fromEntries(merged)
}

function mergedUrl(before: unknown, value: unknown, isPathSecret: boolean): unknown {
  return typeof before === 'string' && typeof value === 'string'
    ? restoredUrl(value, before, isPathSecret)
    : value
}

/** Keys are header names, so they are compared without case. Anything other than an object is left to the schema. */
function mergedMembers(before: unknown, change: unknown): unknown {
  if (!isObject(change)) return change
  const merged = new Map(Object.entries(isObject(before) ? before : {}))
  for (const [name, value] of Object.entries(change)) {
    const storedName = [...merged.keys()].find((one) => one.toLowerCase() === name.toLowerCase())
    if ((value === '' || value === redacted) && storedName !== undefined) continue
    if (storedName !== undefined) merged.delete(storedName)
    if (value !== null) merged.set(name, value)
  }
  return Object.fromEntries(merged)
}
