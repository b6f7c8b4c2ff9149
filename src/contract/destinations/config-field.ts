/**
 * The config of a destination type as a table of fields. Each type has one table, in `<type>.fields.ts`. These are derived from it:
 *
 *   config-schema.ts              the schema of the config, and with it the OpenAPI document
 *   resolvedConfig (below)        the config as a driver gets it: every default filled in
 *   destination-secrets.ts        what is sealed at rest and redacted in responses
 *   apps/cli/destinations         flags, `--set`, environment variables of secrets, `pipectl help destinations TYPE`
 *   apps/client/cli-twin.ts       the command that a form shows
 *   apps/dashboard …/fields.ts    the form
 *   vendor/docs/reference.mjs     the tables in docs/
 *
 * Invariants:
 *   1. The key of an entry is the key in the API. The order of the entries is the order on every surface; `advanced` fields come last.
 *   2. A field that is not given has its `default`, or what `resolve` returns; without both it is null, and a map is {}. `usual` puts
 *      that into words.
 *   3. `hint` is one text for the API, the form, the command line and the guides: plain sentences, without Markdown.
 *   4. A table holds facts only and imports no library: the command line and the dashboard load all of them.
 *      Rules across fields belong to `rules` of the descriptor in `src/destinations/<type>/descriptor.ts`.
 */
export type ConfigField = FieldFacts &
  (TextField | ChoiceField | IntegerField | PortField | BooleanField | MapField)

/** `text`: the whole value. `map`: every value of an object. `url`: user information and query values, and where `hasSecretPath` the path. */
export type SecretKind = 'text' | 'map' | 'url'

export type Config = Readonly<Record<string, unknown>>

interface FieldFacts {
  readonly label: string
  readonly hint?: string
  /** Shown by an empty form field; without it, the default is. */
  readonly example?: string
  readonly needed?: true
  /** The API accepts null, which says the same as leaving it out. */
  readonly nullable?: true
  /** The meaning of an empty text; without it an empty text is rejected. */
  readonly empty?: 'unset' | 'allowed'
  readonly secret?: SecretKind
  /** With this value, the path of the config's URL is a secret. */
  readonly hidesUrlPath?: string | boolean
  /** Rarely needed: forms fold it away. */
  readonly advanced?: true
  /** Another name of that field, accepted for compatibility and never offered. */
  readonly aliasOf?: string
  /** The field has a flag of its own, `--key <value>`; any other is set by `--set`. A `file` holds PEM, which is read. */
  readonly flag?: { readonly value: string; readonly help: string }
  readonly default?: string | number | boolean
  /** The default in words: where there is no `default`, or it says too little. */
  readonly usual?: string
  /** The value for the driver where it depends on other fields or is written in several ways. */
  resolve?(config: Config): unknown
}

interface TextField {
  readonly kind: 'text'
  readonly maxLength: number
  readonly pattern?: string
  /** Several lines. `pem`: certificates or a key. */
  readonly lines?: 'pem' | 'text'
}

interface ChoiceField {
  readonly kind: 'choice'
  /** Each value with its label; null: accepted, but not offered. */
  readonly options: Readonly<Record<string, string | null>>
}

interface IntegerField {
  readonly kind: 'integer'
  readonly minimum: number
  readonly maximum: number
}

/** A number, or its digits. */
interface PortField {
  readonly kind: 'port'
}

interface BooleanField {
  readonly kind: 'boolean'
  readonly options: { readonly true: string; readonly false: string }
}

/** An object of texts, by name. */
interface MapField {
  readonly kind: 'map'
  readonly maxProperties: number
  /** The longest value. */
  readonly maxLength: number
}

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

/** A config with every default filled in: no field is missing, and null says "not set". */
export type ResolvedFields<T extends ConfigFields> = { readonly [K in OwnKeys<T>]: Resolved<T[K]> }

/** `config` fits the schema of the fields: it was checked before it was stored. */
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

/** `value`, if it is one of the names. */
export function oneOf<T extends string>(value: unknown, names: readonly T[]): T | undefined {
  return names.find((name) => name === value)
}

/** The values of a choice with their labels, as they are offered. */
export function offeredOptions(field: ConfigField): [value: string, label: string][] {
  if (field.kind !== 'choice') return []
  return Object.entries(field.options).flatMap(([value, label]): [string, string][] =>
    label === null ? [] : [[value, label]],
  )
}

/** The URL itself if it cannot be parsed: the rules of the config reject it. */
export function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url
}
