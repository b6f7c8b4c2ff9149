/** A destination's config between what clients send, what is stored and what is shown. Secrets are write-only. Pure. */
import { type ColumnMapping, type DestinationType, redacted, secretKeys } from '../contract/destination.ts'

type Config = Record<string, unknown>

/** A new config: null means not given, and so does an empty secret that may be left out. */
export function givenConfig(type: DestinationType, config: Config): Config {
  const mayBeEmpty = type === 'destination_database'
  return Object.fromEntries(
    Object.entries(config).filter(
      ([key, value]) => value !== null && !(value === '' && !mayBeEmpty && isCredential(type, key)),
    ),
  )
}

/**
 * PATCH: shallow-merged over the stored config (spec rule 1). A secret sent as `""` or `[redacted]` keeps what is
 * stored; null removes a key. The result still has to be checked as a whole.
 */
export function mergedConfig(type: DestinationType, stored: Config, change: Config): Config {
  const merged = new Map(Object.entries(stored))
  for (const [key, value] of Object.entries(change)) {
    if (secretKeys[type].includes(key) && (value === '' || value === redacted)) continue
    if (value === null || (value === '' && isCredential(type, key))) merged.delete(key)
    else merged.set(key, value)
  }
  return Object.fromEntries(merged)
}

/** As responses show it: a secret that is set stays present as `[redacted]`. */
export function redactedConfig(type: DestinationType, config: Config): Config {
  return Object.fromEntries(
    Object.entries(config).map(([key, value]) => [
      key,
      secretKeys[type].includes(key) && value !== null ? redacted : value,
    ]),
  )
}

/** A mapping with every key present, as it is stored. An empty `source_field` is none. */
export function storedColumn(column: {
  column_name: string
  column_type: ColumnMapping['column_type']
  source_field?: string | null
  semantic_role?: ColumnMapping['semantic_role']
  nullable?: boolean
}): ColumnMapping {
  return {
    column_name: column.column_name,
    column_type: column.column_type,
    source_field: column.source_field || null,
    semantic_role: column.semantic_role ?? null,
    nullable: column.nullable ?? true,
  }
}

function isCredential(type: DestinationType, key: string): boolean {
  return secretKeys[type].includes(key) || (type === 'destination_object_store' && key === 'access_key')
}
