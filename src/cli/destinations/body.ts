/**
 * The body of a destination from a file, a URL and flags; later ones win. Used by create, update and test.
 */
import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import type { DestinationBody, DestinationPatch } from '../../client/client.ts'
import { exitCodes, Failure } from '../../client/failure.ts'
import { isObject } from '../../client/http.ts'
import type { DestinationType } from '../../contract/destination.ts'
import { columnHelp, parseColumn } from './columns.ts'
import { parseDestinationUrl } from './connection-url.ts'
import { needSecret, secretKeysOf, secretsFromEnvironment } from './secrets.ts'

export interface BodyOptions {
  type?: keyof typeof typeWords
  url?: string
  file?: string
  host?: string
  port?: string
  database?: string
  username?: string
  table?: string
  dialect?: string
  set?: string[]
  column?: string[]
  maxRetrySeconds?: string
  startFrom?: 'now' | 'earliest'
  secret?: string[]
}

export const typeWords = {
  database: 'destination_database',
  'object-store': 'destination_object_store',
  'http-endpoint': 'destination_http_endpoint',
  pull: 'destination_pull',
} as const satisfies Record<string, DestinationType>

const repeated = (value: string, earlier: string[] = []) => [...earlier, value]

export function addBodyOptions(command: Command): void {
  command
    .option(
      '--url <url>',
      'the destination as a URL: postgres://user@host/db?table=events, mysql://…, https://…, s3://bucket',
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
      '--set <key=value>',
      'any other key of the config, may be repeated; headers.NAME=value for a header',
      repeated,
    )
    .option('--column <column>', 'a column mapping (see below), may be repeated', repeated)
    .option('--max-retry-seconds <seconds>', 'how long a failing message is retried eagerly (default 86400)')
    .option('--secret <key>', 'ask for this secret, or read it from its variable; may be repeated', repeated)
    .addHelpText(
      'after',
      `\n${columnHelp}\n\nSecrets come from PIPECTL_DESTINATION_PASSWORD, …_SECRET_KEY, …_SESSION_TOKEN, …_AUTH_HEADER\nand …_SIGNING_SECRET, or are asked for on a terminal.`,
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
  for (const key of options.secret ?? []) config[key] = await needSecret(type, key)
  if (type === 'destination_database') config.password ??= await needSecret(type, 'password')
  const body: DestinationBody = { ...file, destination_type: type, destination_config: config }
  return { ...body, ...sharedFields(options), ...(options.startFrom && { start_from: options.startFrom }) }
}

/** Only what was given, for a change of a stored destination. Secrets only those named with --secret or in the file. */
export async function destinationPatch(
  type: DestinationType,
  options: BodyOptions,
): Promise<DestinationPatch> {
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
  for (const key of options.secret ?? []) config[key] = await needSecret(type, key)
  const patch: DestinationPatch = { ...file, ...sharedFields(options) }
  if (Object.keys(config).length > 0) patch.destination_config = config
  else delete patch.destination_config
  if (Object.keys(patch).length === 0) {
    throw new Failure(exitCodes.usage, 'nothing to change was given', '--help lists what can be changed')
  }
  return patch
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
  const type = asked ?? fromUrl ?? known ?? (flags.host === undefined ? undefined : typeWords.database)
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

/** The config keys among the flags, each with the type its key has. Throws for secrets: they never come from a flag. */
function configFlags(options: BodyOptions): Record<string, unknown> {
  const config: Record<string, unknown> = {}
  for (const key of ['host', 'database', 'username', 'table', 'dialect'] as const) {
    if (options[key] !== undefined) config[key] = options[key]
  }
  if (options.port !== undefined) config.port = wholeNumber('--port', options.port)
  const headers: Record<string, string> = {}
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
    if (Object.values(secretKeysOf).flat().includes(key)) {
      throw new Failure(
        exitCodes.usage,
        `${key} is a secret, and a flag can be seen by others`,
        `use --secret ${key}`,
      )
    }
    if (key.startsWith('headers.')) headers[key.slice('headers.'.length)] = value
    else config[key] = typed(key, value)
  }
  if (Object.keys(headers).length > 0) config.headers = headers
  return config
}

function typed(key: string, value: string): unknown {
  if (value === 'null') return null
  if (key === 'force_path_style') return value === 'true' ? true : value === 'false' ? false : value
  if (['timeout_ms', 'lease_seconds', 'port'].includes(key) && /^\d+$/.test(value)) return Number(value)
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

async function bodyFromFile(name: string): Promise<Partial<DestinationBody>> {
  if (name !== '-' && !existsSync(name)) {
    throw new Failure(exitCodes.usage, `-f ${name}: there is no such file`, 'name a file, or - for stdin')
  }
  const { readYamlFile, refuseUnknownKeys, expand, wrongAt } = await import('../declare/yaml-file.ts')
  const file = readYamlFile(name)
  if (!isObject(file.value))
    throw wrongAt(file.name, 1, 'it holds no destination', 'it must be a mapping with destination_config')
  const known = [
    'destination_type',
    'destination_config',
    'destination_max_retry_seconds',
    'columns',
    'start_from',
  ]
  refuseUnknownKeys(file, [], known, file.value)
  const body: Partial<DestinationBody> = { ...file.value }
  if (!isObject(body.destination_config)) return body
  const config = Object.entries(body.destination_config).map(([key, value]) => [
    key,
    typeof value === 'string' ? expand(file, ['destination_config', key], value, process.env) : value,
  ])
  return { ...body, destination_config: Object.fromEntries(config) }
}
