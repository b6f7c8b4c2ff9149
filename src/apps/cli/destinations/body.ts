/**
 * Builds the body of a destination from a file, a URL and flags. Later sources override earlier ones. Used by create,
 * update and test.
 */
import type { Command } from 'commander'
import type { ColumnMapping, Destination } from '../../../contract/destination.ts'
import { hasSecretPath } from '../../../contract/destination-secrets.ts'
import {
  type DestinationType,
  destinationTypes,
  fieldOf,
  secretKind,
  wordsOf,
} from '../../../contract/destination-words.ts'
import type { ConfigField } from '../../../contract/destinations/config-field.ts'
import { isObject } from '../../../contract/is-object.ts'
import { hasUrlSecrets } from '../../../contract/secret-url.ts'
import { maskSaltPlace } from '../../../contract/transform.ts'
import type { DestinationBody, DestinationPatch } from '../../client/client.ts'
import { usageFailure } from '../../client/failure.ts'
import {
  camelCase,
  configFlag,
  configFlags,
  deliveryFlags,
  numberFrom,
  transformFlags,
} from '../../client/flag-fields.ts'
import { addFlagOptions, repeated } from '../flag-options.ts'
import { folded } from '../help.ts'
import { readTextFile } from '../input-file.ts'
import { parseColumn } from './columns.ts'
import { typeNames } from './config-keys.ts'
import { parseDestinationUrl, urlHelp } from './connection-url.ts'
import { deliverySettings } from './delivery-options.ts'
import { bodyFromFile } from './files.ts'
import { needSecret, secretKeysOf, secretPlace, secretsFromEnvironment, splitPlace } from './secrets.ts'
import { type TransformOptions, transformSettings } from './transform-options.ts'

export interface BodyOptions extends TransformOptions {
  type?: string
  url?: string
  file?: string
  set?: string[]
  column?: string[]
  startFrom?: 'now' | 'earliest'
  secret?: string[]
}

/** Options only for changes of a stored destination. */
export interface PatchOptions extends BodyOptions {
  addColumn?: string[]
  removeColumn?: string[]
  /** False for --no-columns. */
  columns?: boolean
}

export function addPatchOptions(command: Command): void {
  addBodyOptions(command)
  command
    .option(
      '--add-column <column>',
      'add a column mapping, or replace the one of this name; can be repeated',
      repeated,
    )
    .option('--remove-column <name>', 'remove the column mapping of this name; can be repeated', repeated)
    .option('--no-columns', "remove all mappings: columns are matched by name with the table's own")
}

export function addBodyOptions(command: Command): void {
  command.option('--url <url>', urlHelp).option(
    '-f, --file <file>',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of the file
    'YAML or JSON with the fields of the API; secrets as ${VARIABLE}; - for stdin',
  )
  folded(command, 'Config:', () => {
    for (const [key, { value, help }] of configFlags) command.option(`--${configFlag(key)} <${value}>`, help)
  })
  command
    .option(
      '--set <key=value>',
      'any other key of the config; can be repeated; headers.NAME=value for a header, labels.NAME=value',
      repeated,
    )
    .option(
      '--column <column>',
      'a column mapping; can be repeated: `pipectl help destinations columns`',
      repeated,
    )
    .option(
      '--secret <key>',
      'read this secret from its variable or a prompt; secret_headers.NAME for a header, transform.mask_salt for the salt; can be repeated',
      repeated,
    )
  folded(command, 'Delivery:', () => addFlagOptions(command, deliveryFlags))
  folded(command, 'Transform:', () => addFlagOptions(command, transformFlags))
  command.addHelpText(
    'after',
    `
The config keys of each type, and more about columns and secrets:
  pipectl help destinations ${[...typeNames.keys()].join(' | ')}
  pipectl help destinations columns | secrets | delivery | transform | infer`,
  )
}

/**
 * A complete body, including secrets. `pipeName`: a SQLite file and its table are named after the pipe, unless the user names them.
 * Throws Failure (usage).
 */
export async function destinationBody(options: BodyOptions, pipeName: string): Promise<DestinationBody> {
  const file = options.file === undefined ? {} : await bodyFromFile(options.file)
  const named = options.url === undefined ? null : parseDestinationUrl(options.url)
  const type = decideType(options, named?.destination_type, file.destination_type)
  const flags = configFromFlags(type, options)
  const fromFile = isObject(file.destination_config) ? file.destination_config : {}
  const config: Record<string, unknown> = {
    ...namesAfterPipe(type, pipeName),
    ...fromFile,
    ...named?.destination_config,
    ...flags,
    ...secretsFromEnvironment(type),
  }
  rejectOpenSecret(type, options.url, config)
  await addSecrets(type, config, options.secret ?? [])
  for (const key of secretKeysOf(type))
    if (fieldOf(type, key)?.needed) config[key] ??= await needSecret(type, key)
  const body: DestinationBody = { ...file, destination_type: type, destination_config: config }
  const settings = {
    ...columnFields(options),
    ...deliverySettings(type, options, null),
    ...(await transformSettings(options, null)),
  }
  return { ...body, ...settings, ...(options.startFrom && { start_from: options.startFrom }) }
}

function namesAfterPipe(type: DestinationType, pipeName: string): { file?: string; table?: string } {
  if (!wordsOf(type).isTableFile) return {}
  const name = pipeName
    .replace(/[^A-Za-z0-9_]+/g, '_')
    .replace(/^_+|_+$/g, '')
    .slice(0, 60)
  return name === '' ? {} : { file: name, table: name }
}

/**
 * Only the given fields, for a change of a stored destination. Contains only secrets from --secret or from the file.
 * Throws Failure (usage).
 */
export async function destinationPatch(
  stored: Pick<Destination, 'destination_type' | 'destination_config' | 'columns' | 'flush' | 'transform'>,
  options: PatchOptions,
): Promise<DestinationPatch> {
  const { destination_type: type } = stored
  const {
    destination_type: _,
    start_from: __,
    ...file
  } = options.file === undefined ? {} : await bodyFromFile(options.file)
  const named = options.url === undefined ? null : parseDestinationUrl(options.url)
  if (named !== null && named.destination_type !== type) {
    throw usageFailure(
      `--url names a ${named.destination_type}, but this is a ${type}`,
      'the type of a destination cannot be changed: create another one',
    )
  }
  const fromFile = isObject(file.destination_config) ? file.destination_config : {}
  const config: Record<string, unknown> = {
    ...fromFile,
    ...named?.destination_config,
    ...configFromFlags(type, options),
  }
  rejectOpenSecret(type, options.url, { ...stored.destination_config, ...config })
  await addSecrets(type, config, options.secret ?? [])
  const patch: DestinationPatch = {
    ...file,
    ...columnFields(options),
    ...changedColumns(stored.columns ?? [], options),
    ...deliverySettings(type, options, stored.flush),
    ...(await transformSettings(options, stored.transform)),
  }
  if (Object.keys(config).length > 0) patch.destination_config = config
  else delete patch.destination_config
  if (Object.keys(patch).length === 0) {
    throw usageFailure('nothing to change was given', '--help lists what can be changed')
  }
  return patch
}

/** True if any option describes a change. */
export function hasChanges(options: PatchOptions): boolean {
  const notChanges = ['type', 'yes', 'output', 'sample', 'server', 'profile', 'apiKeyFile', 'apiKeyStdin']
  return Object.entries(options).some(
    ([key, value]) => !notChanges.includes(key) && value !== undefined && value !== true,
  )
}

/**
 * `--column` replaces all columns, `--no-columns` removes all. `--add-column` adds a column or replaces the one of
 * its name.
 */
function changedColumns(
  stored: readonly ColumnMapping[],
  options: PatchOptions,
): Pick<DestinationPatch, 'columns'> {
  const { column, addColumn, removeColumn } = options
  const changes = addColumn !== undefined || removeColumn !== undefined
  const ways = [column !== undefined, changes, options.columns === false]
  if (ways.filter((isUsed) => isUsed).length > 1) {
    throw usageFailure(
      '--column, --no-columns, and --add-column with --remove-column cannot be used together',
      '--column replaces all columns, --add-column and --remove-column change some, --no-columns removes them',
    )
  }
  if (options.columns === false) return { columns: [] }
  if (!changes) return {}
  const added = (addColumn ?? []).map(parseColumn)
  const removed = removeColumn ?? []
  for (const name of removed) requireColumn(stored, name)
  const kept = stored.filter(
    ({ column_name }) =>
      !removed.includes(column_name) && !added.some((other) => other.column_name === column_name),
  )
  if (kept.length + added.length > 0) return { columns: [...kept, ...added] }
  throw usageFailure(
    'that would remove the last column mapping',
    "--no-columns does: columns are then matched by name with the table's own",
  )
}

function requireColumn(stored: readonly ColumnMapping[], name: string): void {
  if (stored.some(({ column_name }) => column_name === name)) return
  const names = stored.map(({ column_name }) => column_name)
  throw usageFailure(
    `--remove-column ${JSON.stringify(name)}: no mapping has this name`,
    names.length === 0 ? 'the destination has no column mappings' : `it has ${names.join(', ')}`,
  )
}

/**
 * Adds the secrets that the options name. A secret header is sent without the stored ones, which the daemon keeps.
 */
async function addSecrets(
  type: DestinationType,
  config: Record<string, unknown>,
  places: readonly string[],
): Promise<void> {
  for (const place of places) {
    // Not part of the config: `transformSettings` sets it.
    if (place === maskSaltPlace) continue
    const { key, member } = splitPlace(place)
    const value = await needSecret(type, place)
    if (member === null) config[key] = value
    else config[key] = { ...(isObject(config[key]) ? config[key] : {}), [member]: value }
  }
}

function columnFields({ column }: BodyOptions): Pick<DestinationBody, 'columns'> {
  return column === undefined ? {} : { columns: column.map(parseColumn) }
}

function decideType(
  options: BodyOptions,
  fromUrl: DestinationType | undefined,
  fromFile: unknown,
): DestinationType {
  const asked = options.type === undefined ? undefined : typeNames.get(options.type)
  const known = destinationTypes.find((one) => one === fromFile)
  if (fromFile !== undefined && known === undefined) {
    throw usageFailure(
      `${options.file}: destination_type ${JSON.stringify(fromFile)} is not known`,
      `use one of ${destinationTypes.join(', ')}`,
    )
  }
  const type = asked ?? fromUrl ?? known ?? typeOfFlags(options)
  if (type === undefined) {
    throw usageFailure('the kind of destination is missing', 'give --url, -f FILE, --host …, or --type pull')
  }
  if (asked !== undefined && fromUrl !== undefined && asked !== fromUrl) {
    throw usageFailure(`--type ${options.type} and --url cannot be used together`, 'omit --type')
  }
  return type
}

/** True if the options can describe a new destination. */
export function namesType(options: BodyOptions): boolean {
  const { url, file, type } = options
  return url !== undefined || file !== undefined || type !== undefined || typeOfFlags(options) !== undefined
}

/** The only type that has every key among the flags. Undefined: several types match, or there is no such flag. */
function typeOfFlags(options: BodyOptions): DestinationType | undefined {
  const keys = givenFlags(options).map(([key]) => key)
  const types = destinationTypes.filter((type) => keys.every((key) => fieldOf(type, key) !== undefined))
  return keys.length > 0 && types.length === 1 ? types[0] : undefined
}

/** The config keys with dedicated flags and their values, if given. */
function givenFlags(options: object): [key: string, value: string][] {
  return [...configFlags.keys()].flatMap((key): [string, string][] => {
    const value: unknown = Reflect.get(options, camelCase(configFlag(key)))
    return typeof value === 'string' ? [[key, value]] : []
  })
}

function rejectOpenSecret(
  type: DestinationType,
  url: string | undefined,
  config: Record<string, unknown>,
): void {
  if (url === undefined || !hasSecretPath(type, config) || !hasUrlSecrets(url, true)) return
  throw usageFailure(
    '--url: its path is a secret with body_format slack or secret_path, and everyone on this machine can see it',
    'give --secret url, which asks for it or reads PIPECTL_DESTINATION_URL',
  )
}

/**
 * The config keys among the flags, converted to the type of each key. Throws for secrets, which never come from a
 * flag.
 */
function configFromFlags(type: DestinationType, options: BodyOptions): Record<string, unknown> {
  const config: Record<string, unknown> = {}
  for (const [key, value] of givenFlags(options)) config[key] = flagValue(type, key, value)
  for (const pair of options.set ?? []) {
    const [key, value] = splitPair(pair)
    rejectSecret(key)
    const { key: map, member } = splitPlace(key)
    if (member === null || fieldOf(type, map)?.kind !== 'map') config[key] = typed(type, key, value)
    else config[map] = { ...(isObject(config[map]) ? config[map] : {}), [member]: value }
  }
  return config
}

function splitPair(pair: string): [key: string, value: string] {
  const at = pair.indexOf('=')
  if (at > 0) return [pair.slice(0, at), pair.slice(at + 1)]
  throw usageFailure(`--set ${JSON.stringify(pair)} is not key=value`, 'e.g. --set compression=gzip')
}

/** Checks the secrets of every type: the value may be meant for another type, and other users can already see it. */
function rejectSecret(place: string): void {
  const { key } = splitPlace(place)
  const type = destinationTypes.find((one) => ['text', 'map'].includes(secretKind(one, key) ?? ''))
  if (type === undefined) return
  throw usageFailure(
    `${place} is a secret, and other users can see the value of a flag`,
    `use --secret ${key === place ? secretPlace(type, key) : place}`,
  )
}

function flagValue(type: DestinationType, key: string, value: string): unknown {
  const flag = configFlag(key)
  if (configFlags.get(key)?.value === 'file') return readPem(`--${flag}`, value)
  return isNumber(fieldOf(type, key)) ? numberFrom(flag, value, 'wholeNumber') : typed(type, key, value)
}

/** The name of the file can be visible to others, its content is not. */
function readPem(flag: string, file: string): string {
  const text = readTextFile(file, { name: `${flag} ${file}`, hint: 'name a PEM file' })
  if (text.includes('-----BEGIN ')) return text
  throw usageFailure(`${flag} ${file}: is not a PEM file`, 'it has a line -----BEGIN …-----')
}

/** An invalid value is passed on unchanged, because the daemon describes the error. */
function typed(type: DestinationType, key: string, value: string): unknown {
  if (value === 'null') return null
  const field = fieldOf(type, key)
  if (field?.kind === 'boolean' && /^(true|false)$/.test(value)) return value === 'true'
  return isNumber(field) && /^\d+$/.test(value) ? Number(value) : value
}

function isNumber(field: ConfigField | undefined): boolean {
  return field?.kind === 'integer' || field?.kind === 'port'
}
