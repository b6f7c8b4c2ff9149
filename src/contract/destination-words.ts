/**
 * The destination types, one line each. Free of schemas, because loading schemas takes longer than everything else a
 * CLI command does. Facts about each type are in `destinations/<type>.fields.ts`; server code is in
 * `src/destinations/`.
 */
import type { ConfigField, SecretKind } from './destinations/config-field.ts'
import { database } from './destinations/database.fields.ts'
import { httpEndpoint } from './destinations/http-endpoint.fields.ts'
import { nats } from './destinations/nats.fields.ts'
import { objectStore } from './destinations/object-store.fields.ts'
import { pull } from './destinations/pull.fields.ts'
import { sqlite } from './destinations/sqlite.fields.ts'
import type { TypeFacts } from './destinations/type-facts.ts'

export const typeFacts = {
  destination_database: database,
  destination_sqlite: sqlite,
  destination_object_store: objectStore,
  destination_http_endpoint: httpEndpoint,
  destination_nats: nats,
  destination_pull: pull,
} as const satisfies Record<string, TypeFacts>

export type DestinationType = keyof typeof typeFacts
export type { SecretKind }

/** Replaces a secret value in responses. A client that sends it back keeps the stored value. */
export const redacted = '[redacted]'

export const destinationTypes = Object.keys(typeFacts).filter(isDestinationType)

export function isDestinationType(name: string): name is DestinationType {
  return Object.hasOwn(typeFacts, name)
}

export function wordsOf(type: DestinationType): TypeFacts {
  return typeFacts[type]
}

/** The field of the type's config with this key; undefined if there is none. */
export function fieldOf(type: DestinationType, key: string): ConfigField | undefined {
  const { fields } = wordsOf(type)
  return Object.hasOwn(fields, key) ? fields[key] : undefined
}

/** The fields of a config with their keys, without aliases that are accepted only for compatibility. */
export function fieldsOf(type: DestinationType): [key: string, field: ConfigField][] {
  return Object.entries(wordsOf(type).fields).filter(([, { aliasOf }]) => aliasOf === undefined)
}

/** The kind of secret stored under this key; undefined if it is not a secret. */
export function secretKind(type: DestinationType, key: string): SecretKind | undefined {
  return fieldOf(type, key)?.secret
}

/** The keys of a config that hold secrets. */
export function secretKeys(type: DestinationType): string[] {
  return fieldsOf(type).flatMap(([key, { secret }]) => (secret === undefined ? [] : [key]))
}

/** True if an empty text under this key means "not set". */
export function isEmptyUnset(type: DestinationType, key: string): boolean {
  return fieldOf(type, key)?.empty === 'unset'
}

/** The type names that have a feature, for messages: `a destination_database and a destination_object_store`. */
export function typesWith(feature: 'hasColumns' | 'hasConcurrency' | 'isDatabase'): string {
  return destinationTypes
    .filter((type) => wordsOf(type)[feature])
    .map((type) => `a ${type}`)
    .join(' and ')
}
