/**
 * The body of a destination from a file, a URL and flags; later ones win. Used by create, update and test.
 */
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import type { ColumnMapping, Destination } from '../../../contract/destination.ts'
import { hasSecretPath } from '../../../contract/destination-secrets.ts'
import { type DestinationType, destinationTypes, wordsOf } from '../../../contract/destination-words.ts'
import { isObject } from '../../../contract/is-object.ts'
import { hasUrlSecrets } from '../../../contract/secret-url.ts'
import { maskSaltPlace } from '../../../contract/transform.ts'
import { errorCode } from '../../../platform/error-code.ts'
import type { DestinationBody, DestinationPatch } from '../../client/client.ts'
import { exitCodes, Failure } from '../../client/failure.ts'
import { columnHelp, parseColumn } from './columns.ts'
import { configKeysHelp } from './config-keys.ts'
import { parseDestinationUrl } from './connection-url.ts'
import { addDeliveryOptions, type DeliveryOptions, deliverySettings, flushHelp } from './delivery-options.ts'
import { bodyFromFile } from './file.ts'
import { needSecret, secretKeysOf, secretsFromEnvironment, splitPlace } from './secrets.ts'
import { addTransformOptions, type TransformOptions, transformSettings } from './transform-options.ts'

export interface BodyOptions extends DeliveryOptions, TransformOptions {
  type?: string
  url?: string
  file?: string
  host?: string
  port?: string
  database?: string
  username?: string
  table?: string
  dialect?: string
  tlsVerify?: string
  tlsCa?: string
  tlsCert?: string
  tlsKey?: string
  set?: string[]
  column?: string[]
  maxRetrySeconds?: string
  startFrom?: 'now' | 'earliest'
  secret?: string[]
}

/** The options that only a change of a stored destination takes. */
export interface PatchOptions extends BodyOptions {
  addColumn?: string[]
  removeColumn?: string[]
  /** False: --no-columns. */
  columns?: boolean
}

export function addPatchOptions(command: Command): void {
  addBodyOptions(command)
  command
    .option(
      '--add-column <column>',
      'add a column mapping, or replace that of its name; may be repeated',
      repeated,
    )
    .option('--remove-column <name>', 'remove the column mapping of this name; may be repeated', repeated)
    .option('--no-columns', "remove all mappings: columns are matched by name with the table's own")
}

/** --type → destination_type. */
export const typeWords: Readonly<Record<string, DestinationType>> = Object.fromEntries(
  destinationTypes.map((type) => [wordsOf(type).kind, type]),
)

const repeated = (value: string, earlier: string[] = []) => [...earlier, value]

export function addBodyOptions(command: Command): void {
  command
    .option(
      '--url <url>',
      'the destination as a URL: postgres://user@host/db?table=events, mysql://…, https://…, nats://host?subject=events, s3://bucket',
    )
    .option(
      '-f, --file <file>',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of the file
      'YAML or JSON with the fields of the API; secrets as ${VARIABLE}; - for stdin',
    )
    .option('--host <host>', 'database host')
    .option('--port <port>', 'database port')
    .option('--database <name>', 'database')
    .option('--username <name>', 'database user')
    .option('--table <table>', 'table or schema.table')
    .option('--dialect <dialect>', 'postgresql, mysql or mariadb')
    .option(
      '--tls-verify <how>',
      "what the server's certificate must be: none, ca or full; of NATS true or false",
    )
    .option('--tls-ca <file>', 'PEM file with the CA of that certificate')
    .option('--tls-cert <file>', 'PEM file with the certificate that the server is shown')
    .option('--tls-key <file>', 'PEM file with its private key')
    .option(
      '--set <key=value>',
      'any other key of the config, may be repeated; headers.NAME=value for a header, labels.NAME=value',
      repeated,
    )
    .option('--column <column>', 'a column mapping (see below), may be repeated', repeated)
    .option('--max-retry-seconds <seconds>', 'how long a failing message is retried eagerly (default 86400)')
    .option(
      '--secret <key>',
      'ask for this secret, or read it from its variable; secret_headers.NAME for a header, transform.mask_salt for the salt; may be repeated',
      repeated,
    )
  addDeliveryOptions(command)
  addTransformOptions(command)
  command.addHelpText(
    'after',
    `\n${columnHelp}\n\n${flushHelp()}\n\nConfig keys by type, for --set and -f (* needed):\n${configKeysHelp}\n\nSecrets come from PIPECTL_DESTINATION_PASSWORD, …_SECRET_KEY, …_SESSION_TOKEN, …_AUTH_HEADER,\n…_SIGNING_SECRET, …_TOKEN, …_NKEY_SEED, …_CREDENTIALS, …_TLS_KEY; with --secret …_SECRET_HEADERS_NAME and …_URL too; or they are asked for on a terminal.`,
  )
}

/** A whole body, secrets included. Throws Failure (usage). */
export async function destinationBody(options: BodyOptions): Promise<DestinationBody> {
  const file = options.file === undefined ? {} : await bodyFromFile(options.file)
  const named = options.url === undefined ? null : parseDestinationUrl(options.url)
  const flags = configFlags(options)
  const type = decideType(options, named?.destination_type, file.destination_type, flags)
  const fromFile = isObject(file.destination_config) ? file.destination_config : {}
  const config = { ...fromFile, ...named?.destination_config, ...flags, ...secretsFromEnvironment(type) }
  rejectOpenSecret(options.url, config)
  await addSecrets(type, config, options.secret ?? [])
  if (type === 'destination_database') config.password ??= await needSecret(type, 'password')
  const body: DestinationBody = { ...file, destination_type: type, destination_config: config }
  const settings = {
    ...sharedFields(options),
    ...deliverySettings(type, options, null),
    ...(await transformSettings(options, null)),
  }
  return { ...body, ...settings, ...(options.startFrom && { start_from: options.startFrom }) }
}

/** Only what was given, for a change of a stored destination. Secrets only those named with --secret or in the file. */
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
    throw new Failure(
      exitCodes.usage,
      `--url names a ${named.destination_type}, but this is a ${type}`,
      'the type of a destination cannot be changed: create another one',
    )
  }
  const fromFile = isObject(file.destination_config) ? file.destination_config : {}
  const config: Record<string, unknown> = {
    ...fromFile,
    ...named?.destination_config,
    ...configFlags(options),
  }
  rejectOpenSecret(options.url, { ...stored.destination_config, ...config })
  await addSecrets(type, config, options.secret ?? [])
  const patch: DestinationPatch = {
    ...file,
    ...sharedFields(options),
    ...changedColumns(stored.columns ?? [], options),
    ...deliverySettings(type, options, stored.flush),
    ...(await transformSettings(options, stored.transform)),
  }
  if (Object.keys(config).length > 0) patch.destination_config = config
  else delete patch.destination_config
  if (Object.keys(patch).length === 0) {
    throw new Failure(exitCodes.usage, 'nothing to change was given', '--help lists what can be changed')
  }
  return patch
}

/** Whether anything of a destination was given. */
export function hasChanges(options: PatchOptions): boolean {
  const notChanges = ['type', 'yes', 'output', 'sample', 'server', 'profile', 'apiKeyFile', 'apiKeyStdin']
  return Object.entries(options).some(
    ([key, value]) => !notChanges.includes(key) && value !== undefined && value !== true,
  )
}

/** `--column` replaces all, `--no-columns` removes all; `--add-column` adds one or replaces that of its name. */
function changedColumns(
  stored: readonly ColumnMapping[],
  options: PatchOptions,
): Pick<DestinationPatch, 'columns'> {
  const { column, addColumn, removeColumn } = options
  const changes = addColumn !== undefined || removeColumn !== undefined
  const ways = [column !== undefined, changes, options.columns === false]
  if (ways.filter((isUsed) => isUsed).length > 1) {
    throw new Failure(
      exitCodes.usage,
      '--column, --no-columns, and --add-column with --remove-column contradict each other',
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
  throw new Failure(
    exitCodes.usage,
    'that would remove the last column mapping',
    "--no-columns does: columns are then matched by name with the table's own",
  )
}

function requireColumn(stored: readonly ColumnMapping[], name: string): void {
  if (stored.some(({ column_name }) => column_name === name)) return
  const names = stored.map(({ column_name }) => column_name)
  throw new Failure(
    exitCodes.usage,
    `--remove-column ${JSON.stringify(name)}: no mapping has this name`,
    names.length === 0 ? 'the destination has no column mappings' : `it has ${names.join(', ')}`,
  )
}

/** The secrets that were asked for. A secret header is sent without the stored ones: the daemon keeps those. */
async function addSecrets(
  type: DestinationType,
  config: Record<string, unknown>,
  places: readonly string[],
): Promise<void> {
  for (const place of places) {
    // No part of the config: `transformSettings` sets it.
    if (place === maskSaltPlace) continue
    const { key, member } = splitPlace(place)
    const value = await needSecret(type, place)
    if (member === null) config[key] = value
    else config[key] = { ...(isObject(config[key]) ? config[key] : {}), [member]: value }
  }
}

function sharedFields(
  options: BodyOptions,
): Pick<DestinationBody, 'columns' | 'destination_max_retry_seconds'> {
  const shared: Pick<DestinationBody, 'columns' | 'destination_max_retry_seconds'> = {}
  if (options.column !== undefined) shared.columns = options.column.map(parseColumn)
  if (options.maxRetrySeconds !== undefined) {
    shared.destination_max_retry_seconds = wholeNumber('--max-retry-seconds', options.maxRetrySeconds)
  }
  return shared
}

function decideType(
  options: BodyOptions,
  fromUrl: DestinationType | undefined,
  fromFile: unknown,
  flags: Record<string, unknown>,
): DestinationType {
  const asked = options.type === undefined ? undefined : typeWords[options.type]
  const known = Object.values(typeWords).find((one) => one === fromFile)
  if (fromFile !== undefined && known === undefined) {
    throw new Failure(
      exitCodes.usage,
      `${options.file}: destination_type ${JSON.stringify(fromFile)} is not known`,
      `use one of ${Object.values(typeWords).join(', ')}`,
    )
  }
  const type = asked ?? fromUrl ?? known ?? (flags.host === undefined ? undefined : 'destination_database')
  if (type === undefined) {
    throw new Failure(
      exitCodes.usage,
      'what kind of destination it is was not said',
      'give --url, -f FILE, --host …, or --type pull',
    )
  }
  if (asked !== undefined && fromUrl !== undefined && asked !== fromUrl) {
    throw new Failure(
      exitCodes.usage,
      `--type ${options.type} and --url contradict each other`,
      'leave --type out',
    )
  }
  return type
}

function rejectOpenSecret(url: string | undefined, config: Record<string, unknown>): void {
  if (url === undefined || !hasSecretPath(config) || !hasUrlSecrets(url, true)) return
  throw new Failure(
    exitCodes.usage,
    '--url: its path is a secret with body_format slack or secret_path, and everyone on this machine can see it',
    'give --secret url, which asks for it or reads PIPECTL_DESTINATION_URL',
  )
}

/** The config keys among the flags, each with the type its key has. Throws for secrets: they never come from a flag. */
function configFlags(options: BodyOptions): Record<string, unknown> {
  const config: Record<string, unknown> = {}
  for (const key of ['host', 'database', 'username', 'table', 'dialect'] as const) {
    if (options[key] !== undefined) config[key] = options[key]
  }
  if (options.tlsVerify !== undefined) config.tls_verify = typed('tls_verify', options.tlsVerify)
  for (const [key, flag, file] of pemFlags(options)) {
    if (file !== undefined) config[key] = readPem(flag, file)
  }
  if (options.port !== undefined) config.port = wholeNumber('--port', options.port)
  const headers: Record<string, string> = {}
  const labels: Record<string, string> = {}
  for (const pair of options.set ?? []) {
    const at = pair.indexOf('=')
    const key = pair.slice(0, at)
    if (at < 1) {
      throw new Failure(
        exitCodes.usage,
        `--set ${JSON.stringify(pair)} is not key=value`,
        'e.g. --set compression=gzip',
      )
    }
    const value = pair.slice(at + 1)
    if (destinationTypes.flatMap(secretKeysOf).includes(key) || /^secret_headers(\.|$)/.test(key)) {
      throw new Failure(
        exitCodes.usage,
        `${key} is a secret, and a flag can be seen by others`,
        `use --secret ${key === 'secret_headers' ? 'secret_headers.NAME' : key}`,
      )
    }
    if (key.startsWith('headers.')) headers[key.slice('headers.'.length)] = value
    else if (key.startsWith('labels.')) labels[key.slice('labels.'.length)] = value
    else config[key] = typed(key, value)
  }
  if (Object.keys(headers).length > 0) config.headers = headers
  if (Object.keys(labels).length > 0) config.labels = labels
  return config
}

function pemFlags({ tlsCa, tlsCert, tlsKey }: BodyOptions) {
  return [
    ['tls_ca', '--tls-ca', tlsCa],
    ['tls_cert', '--tls-cert', tlsCert],
    ['tls_key', '--tls-key', tlsKey],
  ] as const
}

/** The file's name may be seen by others; what is in it is not. */
function readPem(flag: string, file: string): string {
  try {
    const text = readFileSync(file, 'utf8')
    if (text.includes('-----BEGIN ')) return text
  } catch (error) {
    throw new Failure(
      exitCodes.usage,
      `${flag} ${file}: cannot be read (${errorCode(error) ?? 'unknown error'})`,
      'name a PEM file',
    )
  }
  throw new Failure(exitCodes.usage, `${flag} ${file}: is not a PEM file`, 'it has a line -----BEGIN …-----')
}

function typed(key: string, value: string): unknown {
  if (value === 'null') return null
  const all = destinationTypes.map(wordsOf)
  if (all.some(({ booleans }) => booleans.includes(key)) && /^(true|false)$/.test(value))
    return value === 'true'
  if (all.some(({ numbers }) => numbers.includes(key)) && /^\d+$/.test(value)) return Number(value)
  return value
}

function wholeNumber(flag: string, value: string): number {
  if (/^\d{1,15}$/.test(value)) return Number(value)
  throw new Failure(
    exitCodes.usage,
    `${flag} ${JSON.stringify(value)} is not a whole number`,
    `e.g. ${flag} 3600`,
  )
}
