/**
 * The config of a destination type as a table of fields. Each type has one table, in `<type>.fields.ts`. It is the source of:
 *
 *   config-schema.ts              the schema of the config and its part of the OpenAPI document
 *   resolvedConfig (below)        the config that a driver receives: every default filled in
 *   destination-secrets.ts        which values are sealed at rest and redacted in responses
 *   apps/cli/destinations         flags, `--set`, environment variables of secrets, `pipectl help destinations TYPE`
 *   apps/client/cli-twin.ts       the command that a form shows
 *   apps/dashboard …/fields.ts    the form
 *   vendor/docs/reference.mjs     the tables in docs/
 *
 * Invariants:
 *   1. The key of an entry is the key in the API. Every interface shows the entries in this order; `advanced` fields come last.
 *   2. A missing field has its `default`, or the result of `resolve`. Without both it is null; a map is {}. `usual` describes
 *      the default in words.
 *   3. `hint` is one text for the API, the form, the command line and the guides: plain sentences without Markdown.
 *   4. A table holds only facts and imports no library, because the command line and the dashboard load all tables.
 *      Rules across fields belong in `rules` of the descriptor, in `src/destinations/<type>/descriptor.ts`.
 */
export type ConfigField = FieldFacts &
  (TextField | ChoiceField | IntegerField | PortField | BooleanField | MapField)

/**
 * The secret part of a value. `text`: the complete value. `map`: every value of an object. `url`: user information
 * and query values, and the path where `hasSecretPath` is true.
 */
export type SecretKind = 'text' | 'map' | 'url'

export type Config = Readonly<Record<string, unknown>>

interface FieldFacts {
  readonly label: string
  readonly hint?: string
  /** Placeholder of an empty form field. Without it, the form shows the default. */
  readonly example?: string
  readonly needed?: true
  /** The API accepts null and treats it like a missing field. */
  readonly nullable?: true
  /** How an empty text is treated. Without this, an empty text is rejected. */
  readonly empty?: 'unset' | 'allowed'
  readonly secret?: SecretKind
  /** If this field has this value, the path of the config's URL is a secret. */
  readonly hidesUrlPath?: string | boolean
  /** Rarely needed. Forms collapse these fields. */
  readonly advanced?: true
  /** The field of which this is an alias, accepted for compatibility and never shown. */
  readonly aliasOf?: string
  /**
   * The dedicated flag of the field, `--key <value>`. Fields without one are set by `--set`. The value `file` names a
   * PEM file to read.
   */
  readonly flag?: { readonly value: string; readonly help: string }
  readonly default?: string | number | boolean
  /** The default in words, where there is no `default` or where it does not explain enough. */
  readonly usual?: string
  /** Computes the driver's value where it depends on other fields or has several notations. */
  resolve?(config: Config): unknown
}

interface TextField {
  readonly kind: 'text'
  readonly maxLength: number
  readonly pattern?: string
  /** A multi-line text. `pem`: certificates or a key. */
  readonly lines?: 'pem' | 'text'
}

interface ChoiceField {
  readonly kind: 'choice'
  /** Each value with its label. Null: the value is accepted but not offered. */
  readonly options: Readonly<Record<string, string | null>>
}

interface IntegerField {
  readonly kind: 'integer'
  readonly minimum: number
  readonly maximum: number
}

/** A number, or a string of its digits. */
interface PortField {
  readonly kind: 'port'
}

interface BooleanField {
  readonly kind: 'boolean'
  readonly options: { readonly true: string; readonly false: string }
}

/** An object with string values. */
interface MapField {
  readonly kind: 'map'
  readonly maxProperties: number
  /** The maximum length of a value. */
  readonly maxLength: number
}

/** Facts of a secret text that is not required: an empty text or null removes it. */
export const optionalSecret = { kind: 'text', secret: 'text', nullable: true, empty: 'unset' } as const
/** Facts of certificates in PEM. */
export const pem = { kind: 'text', lines: 'pem', advanced: true, nullable: true, maxLength: 65_536 } as const

export type ConfigFields = Readonly<Record<string, ConfigField>>

type Given<F> = F extends { kind: 'choice'; options: infer O }
  ? keyof O & string
  : F extends { kind: 'integer' | 'port' }
    ? number
    : F extends { kind: 'boolean' }
      ? boolean
      : F extends { kind: 'map' }
        ? Readonly<Record<string, string>>
        : string

type Resolved<F> = F extends { resolve(config: Config): infer R }
  ? R
  : F extends { needed: true } | { default: unknown } | { kind: 'map' }
    ? Given<F>
    : Given<F> | null

type OwnKeys<T> = { [K in keyof T]: T[K] extends { aliasOf: string } ? never : K }[keyof T]

/** A config with every default filled in. No field is missing; null means "not set". */
export type ResolvedFields<T extends ConfigFields> = { readonly [K in OwnKeys<T>]: Resolved<T[K]> }

/** `config` must match the schema of the fields. It was validated before it was stored. */
export function resolvedConfig<T extends ConfigFields>(fields: T, config: Config): ResolvedFields<T> {
  const entries = Object.entries<ConfigField>(fields).flatMap(([key, field]) =>
    field.aliasOf === undefined ? [[key, resolvedValue(key, field, config)]] : [],
  )
  return Object.fromEntries(entries)
}

function resolvedValue(key: string, field: ConfigField, config: Config): unknown {
  if (field.resolve !== undefined) return field.resolve(config)
  return config[key] ?? field.default ?? (field.kind === 'map' ? {} : null)
}

/** Returns `value` if it is one of `names`, else undefined. */
export function oneOf<T extends string>(value: unknown, names: readonly T[]): T | undefined {
  return names.find((name) => name === value)
}

/** The values of a choice that forms and help texts offer, with their labels. */
export function offeredOptions(field: ConfigField): [value: string, label: string][] {
  if (field.kind !== 'choice') return []
  return Object.entries(field.options).flatMap(([value, label]): [string, string][] =>
    label === null ? [] : [[value, label]],
  )
}

/** The host of a URL with its port, if that is not the default one. Returns an empty text if it cannot be parsed. */
export function hostOf(url: string): string {
  return URL.canParse(url) ? new URL(url).host : ''
}

/** The origin of a URL. Returns the text unchanged if it cannot be parsed; the rules of the config reject it then. */
export function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url
}
