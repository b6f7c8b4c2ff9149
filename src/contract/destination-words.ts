/**
 * The destination types: one line each. Free of schemas, because loading those costs a command line more than everything else that it
 * does. The facts about each type are in `destinations/<type>.fields.ts`, what the server does with it in `src/destinations/`.
 */
import type { ConfigField, SecretKind } from './destinations/config-field.ts'
import { database } from './destinations/database.fields.ts'
import { httpEndpoint } from './destinations/http-endpoint.fields.ts'
import { nats } from './destinations/nats.fields.ts'
import { objectStore } from './destinations/object-store.fields.ts'
import { pull } from './destinations/pull.fields.ts'
import type { TypeFacts } from './destinations/type-facts.ts'

export const typeFacts = {
  destination_database: database,
  destination_object_store: objectStore,
  destination_http_endpoint: httpEndpoint,
  destination_nats: nats,
  destination_pull: pull,
} as const satisfies Record<string, TypeFacts>

export type DestinationType = keyof typeof typeFacts
export type { SecretKind }

/** Replaces a secret value in responses; sent back, it keeps the stored value. */
export const redacted = '[redacted]'

export const destinationTypes = Object.keys(typeFacts).filter(isDestinationType)

export function isDestinationType(name: string): name is DestinationType {
  return Object.hasOwn(typeFacts, name)
}

export function wordsOf(type: DestinationType): TypeFacts {
  return typeFacts[type]
}

/** A field of the type's config; undefined: it has no such key. */
export function fieldOf(type: DestinationType, key: string): ConfigField | undefined {
  const { fields } = wordsOf(type)
  return Object.hasOwn(fields, key) ? fields[key] : undefined
}

/** Fields of a config with their keys, without the names that are only accepted for compatibility. */
export function fieldsOf(type: DestinationType): [key: string, field: ConfigField][] {
  return Object.entries(wordsOf(type).fields).filter(([, { aliasOf }]) => aliasOf === undefined)
}

/** The kind of secret that this key of a config holds; undefined: it is none. */
export function secretKind(type: DestinationType, key: string): SecretKind | undefined {
  return fieldOf(type, key)?.secret
}

/** The keys that hold secrets. */
export function secretKeys(type: DestinationType): string[] {
  return fieldsOf(type).flatMap(([key, { secret }]) => (secret === undefined ? [] : [key]))
}

/** Whether an empty text in this key of a config says that there is none. */
export function isEmptyUnset(type: DestinationType, key: string): boolean {
  return fieldOf(type, key)?.empty === 'unset'
}

/** Names of the types with a feature, for messages: `a destination_database and a destination_object_store`. */
export function typesWith(feature: 'hasColumns' | 'hasConcurrency' | 'isDatabase'): string {
  return destinationTypes
    .filter((type) => wordsOf(type)[feature])
    .map((type) => `a ${type}`)
    .join(' and ')
}
