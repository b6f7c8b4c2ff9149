/**
 * `pipectl.yaml`: the pipes a workspace should have, in the API's own field names.
 *
 *   pipes:
 *     - pipe_name: orders
 *       pipe_description: orders of the shop
 *       limits: {pl_ingest_max_records_per_request: 1000, …}
 *       allowed_origins: [https://shop.example.com]
 *       destinations:
 *         - destination_name: warehouse
 *           destination_type: destination_database
 *           destination_config: {host: db, database: shop, username: loader, table: orders, password: "${SHOP_DB}"}
 *           columns: [{column_name: id, column_type: number, source_field: id, semantic_role: dedupe_id}]
 *
 * Fields that the file does not mention are left as they are. Every mistake is found here, with its line, before
 * anything changes.
 */
import { type DestinationType, destinationTypes } from '../../../contract/destination.ts'
import { destinationCreateSchema } from '../../../contract/destination-requests.ts'
import { hasSecretPath } from '../../../contract/destination-secrets.ts'
import { redacted, secretKind } from '../../../contract/destination-words.ts'
import { isObject } from '../../../contract/is-object.ts'
import { OriginCreate, PipeCreate, PipeLimits, type PipeUpdate, pipeStatus } from '../../../contract/pipe.ts'
import { hasUrlSecrets, redactedUrl } from '../../../contract/secret-url.ts'
import type { GivenTransform } from '../../../contract/transform.ts'
import { shapeFaults, validate } from '../../../contract/validate.ts'
import type { DestinationBody } from '../../client/client.ts'
import { destinationSettings } from '../../client/flag-fields.ts'
import { splitPlace } from '../destinations/secrets.ts'
import {
  expand,
  referencesIn,
  rejectUnknownKeys,
  wrongAt,
  type YamlFile,
  type YamlPath,
} from './yaml-file.ts'

export interface DeclaredPipe {
  name: string
  /** Only the fields that the file mentions. */
  fields: PipeUpdate
  limits: PipeLimits | null
  /** Lower case; null: not mentioned. */
  origins: string[] | null
  destinations: DeclaredDestination[] | null
}

export interface DeclaredDestination {
  type: DestinationType
  status: 'active' | 'blocked' | null
  maxRetrySeconds: number | null
  /** Expanded, without the secrets; a URL with secret parts as the daemon shows it. */
  config: Record<string, unknown>
  columns: DestinationBody['columns'] | null
  /** Name and delivery settings, those that the file mentions. */
  settings: DeliverySettings
  startFrom: 'now' | 'earliest' | null
  /** Without its salt; undefined: not mentioned. */
  transform: GivenTransform | null | undefined
  hasMaskSalt: boolean
  /** Read now. Throws Failure naming the variable that is not set. */
  maskSalt(): string
  /** Where the file mentions a secret: its key, or `secret_headers.NAME`, or `url`. */
  secretPlaces: string[]
  /** The config with those of these places, read now. Throws Failure naming the variable that is not set. */
  secrets(places: readonly string[]): Record<string, unknown>
}

const settingKeys = ['destination_name', 'flush', 'rate', 'concurrency', 'on_permanent_error'] as const
export type DeliverySettings = Pick<DestinationBody, (typeof settingKeys)[number]>

const pipeKeys = [...Object.keys(PipeCreate.properties), 'limits', 'allowed_origins', 'destinations']
const destinationKeys = [
  'destination_type',
  'destination_config',
  'destination_status',
  ...destinationSettings,
]

/** Throws Failure (usage) with the line of the first mistake. */
export function declaredPipes(file: YamlFile, env: NodeJS.ProcessEnv): DeclaredPipe[] {
  const root = file.value
  if (!isObject(root) || !Array.isArray(root.pipes)) {
    throw wrongAt(
      file.name,
      1,
      'it has no list `pipes`',
      'begin with `pipes:`; `pipectl export` shows the form',
    )
  }
  rejectUnknownKeys(file, [], ['pipes'], root)
  const pipes = root.pipes.map((one: unknown, index) => declaredPipe(file, ['pipes', index], one, env))
  for (const [index, pipe] of pipes.entries()) {
    if (pipes.findIndex((one) => one.name === pipe.name) === index) continue
    throw wrongAt(
      file.name,
      file.lineOf(['pipes', index]),
      `pipe ${pipe.name} occurs twice`,
      'keep one of them',
    )
  }
  return pipes
}

function declaredPipe(file: YamlFile, path: YamlPath, value: unknown, env: NodeJS.ProcessEnv): DeclaredPipe {
  if (!isObject(value))
    throw wrongAt(file.name, file.lineOf(path), 'a pipe must be a mapping', 'e.g. - pipe_name: orders')
  rejectUnknownKeys(file, path, pipeKeys, value)
  const { limits, allowed_origins: origins, destinations, pipe_status: status, ...rest } = value
  reject(file, path, shapeFaults(PipeCreate, rest))
  if (status !== undefined) reject(file, [...path, 'pipe_status'], shapeFaults(pipeStatus, status))
  const { pipe_name: name, ...fields } = rest
  return {
    name: String(name),
    fields:
      status === undefined ? fields : { ...fields, pipe_status: status === 'paused' ? 'paused' : 'active' },
    limits: limits === undefined ? null : declaredLimits(file, [...path, 'limits'], limits),
    origins: origins === undefined ? null : declaredOrigins(file, [...path, 'allowed_origins'], origins),
    destinations:
      destinations === undefined
        ? null
        : declaredDestinations(file, [...path, 'destinations'], destinations, env),
  }
}

function declaredLimits(file: YamlFile, path: YamlPath, value: unknown): PipeLimits {
  reject(file, path, shapeFaults(PipeLimits, value))
  const limits = validate(PipeLimits, value)
  return { ...limits, pl_ingest_max_bytes_per_day: limits.pl_ingest_max_bytes_per_day ?? null }
}

function declaredOrigins(file: YamlFile, path: YamlPath, value: unknown): string[] {
  return listAt(file, path, value).map((one, index) => {
    const origin = typeof one === 'string' ? one.toLowerCase() : one
    const { origin_domain: wrong } = shapeFaults(OriginCreate, { origin_domain: origin })
    if (wrong !== undefined) reject(file, [...path, index], { '': wrong })
    return String(origin)
  })
}

function declaredDestinations(
  file: YamlFile,
  path: YamlPath,
  value: unknown,
  env: NodeJS.ProcessEnv,
): DeclaredDestination[] {
  const all = listAt(file, path, value).map((one, index) =>
    declaredDestination(file, [...path, index], one, env),
  )
  const names = all.map((one) => one.settings.destination_name ?? null)
  for (const [index, name] of names.entries()) {
    if (name === null || names.indexOf(name) === index) continue
    const line = file.lineOf([...path, index, 'destination_name'])
    throw wrongAt(file.name, line, `destination ${name} occurs twice`, 'give one of them another name')
  }
  return all
}

function declaredDestination(
  file: YamlFile,
  path: YamlPath,
  value: unknown,
  env: NodeJS.ProcessEnv,
): DeclaredDestination {
  const line = file.lineOf(path)
  if (!isObject(value))
    throw wrongAt(file.name, line, 'a destination must be a mapping', '`pipectl export` shows the form')
  rejectUnknownKeys(file, path, destinationKeys, value)
  const type = destinationTypes.find((one) => one === value.destination_type)
  if (type === undefined) {
    const at = file.lineOf([...path, 'destination_type'])
    throw wrongAt(
      file.name,
      at,
      'destination_type is missing or not known',
      `use one of ${destinationTypes.join(', ')}`,
    )
  }
  const { destination_status: status, ...body } = value
  if (status !== undefined && status !== 'active' && status !== 'blocked') {
    throw wrongAt(
      file.name,
      file.lineOf([...path, 'destination_status']),
      'destination_status must be active or blocked',
      'correct it',
    )
  }
  const given = body.destination_config ?? {}
  if (!isObject(given)) throw wrongAt(file.name, line, 'destination_config must be a mapping', 'correct it')
  const { transform, salt } = separateSalt(file, path, body.transform)
  const { config, secrets } = separateSecrets(file, [...path, 'destination_config'], type, given, env)
  // For the check of shapes every secret counts as there: its variable is read only when it is needed.
  const shaped = { ...config, ...nested([...secrets.keys()].map((place) => [place, 'set'])) }
  reject(file, path, shapeFaults(destinationCreateSchema(type), { ...body, destination_config: shaped }))
  return {
    type,
    status: status ?? null,
    maxRetrySeconds:
      typeof body.destination_max_retry_seconds === 'number' ? body.destination_max_retry_seconds : null,
    config,
    columns: Array.isArray(body.columns) ? body.columns : null,
    transform,
    hasMaskSalt: salt !== null,
    maskSalt: () => expand(file, [...path, 'transform', 'mask_salt'], salt ?? '', env),
    settings: Object.fromEntries(settingKeys.filter((key) => key in body).map((key) => [key, body[key]])),
    startFrom: body.start_from === 'earliest' || body.start_from === 'now' ? body.start_from : null,
    secretPlaces: [...secrets.keys()],
    secrets: (places) =>
      nested(
        places.map((place) => {
          const at = [...path, 'destination_config', ...pathOf(place)]
          return [place, expand(file, at, secrets.get(place) ?? '', env)]
        }),
      ),
  }
}

/** The salt is a secret: a reference to a variable, read when it is needed. Its shape is checked with the destination's. */
function separateSalt(
  file: YamlFile,
  path: YamlPath,
  given: unknown,
): { transform: GivenTransform | null | undefined; salt: string | null } {
  if (given === null || given === undefined) return { transform: given, salt: null }
  if (!isObject(given) || !('mask_salt' in given)) return { transform: given as GivenTransform, salt: null }
  const { mask_salt: salt, ...transform } = given
  if (typeof salt === 'string' && referencesIn(salt).length > 0) {
    return { transform: transform as GivenTransform, salt }
  }
  throw wrongAt(
    file.name,
    file.lineOf([...path, 'transform', 'mask_salt']),
    'mask_salt must be a reference: secrets do not belong into this file',
    `write e.g. \${MASK_SALT}`,
  )
}

/** The config as the daemon shows it, and its secrets by place: references, or a URL with secret parts. */
function separateSecrets(
  file: YamlFile,
  path: YamlPath,
  type: DestinationType,
  given: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
): { config: Record<string, unknown>; secrets: Map<string, string> } {
  const config: Record<string, unknown> = {}
  const secrets = new Map<string, string>()
  const expanded = (key: string, text: string) => expand(file, [...path, key], text, env)
  const { body_format: format, secret_path } = given
  const isPathSecret = hasSecretPath({
    body_format: typeof format === 'string' ? expanded('body_format', format) : format,
    secret_path,
  })
  const addSecret = (place: string, value: unknown) => {
    if (typeof value === 'string' && referencesIn(value).length > 0) {
      secrets.set(place, value)
      return
    }
    const name = pathOf(place).at(-1) ?? ''
    const variable = `\${${name.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}}`
    throw wrongAt(
      file.name,
      file.lineOf([...path, ...pathOf(place)]),
      `${name} must be a reference: secrets do not belong into this file`,
      `write ${name}: ${variable} and set that variable`,
    )
  }
  for (const [key, value] of Object.entries(given)) {
    const kind = secretKind(type, key)
    if (kind === 'text' && value !== null) addSecret(key, value)
    else if (kind === 'map' && isObject(value)) {
      for (const [name, member] of Object.entries(value)) addSecret(`${key}.${name}`, member)
    } else if (typeof value !== 'string') config[key] = value
    else {
      const known = (text: string) => expanded(key, text)
      config[key] = kind === 'url' ? shownUrl(value, isPathSecret, known) : known(value)
      if (kind === 'url' && hasUrlSecrets(String(config[key]), isPathSecret)) secrets.set(key, value)
    }
  }
  return { config, secrets }
}

/**
 * A URL as the daemon shows it. Only what is outside of its secret parts is read from variables here, unless the parts
 * cannot be known before (`${HOOK_URL}`).
 */
function shownUrl(url: string, isPathSecret: boolean, expanded: (text: string) => string): string {
  const shown = redactedUrl(url, isPathSecret)
  return redactedUrl(expanded(shown === redacted ? url : shown), isPathSecret)
}

function pathOf(place: string): string[] {
  const { key, member } = splitPlace(place)
  return member === null ? [key] : [key, member]
}

function nested(entries: [place: string, value: string][]): Record<string, unknown> {
  const config: Record<string, unknown> = {}
  for (const [place, value] of entries) {
    const { key, member } = splitPlace(place)
    if (member === null) config[key] = value
    else config[key] = { ...(isObject(config[key]) ? config[key] : {}), [member]: value }
  }
  return config
}

function listAt(file: YamlFile, path: YamlPath, value: unknown): unknown[] {
  if (Array.isArray(value)) return value
  throw wrongAt(file.name, file.lineOf(path), `${path.at(-1)} must be a list`, 'correct it')
}

/** Throws for the first error of a dot-joined map, at the line of its path. */
function reject(file: YamlFile, path: YamlPath, errors: Record<string, string>): void {
  const first = Object.entries(errors)[0]
  if (first === undefined) return
  const inner =
    first[0] === '' ? [] : first[0].split('.').map((part) => (/^\d+$/.test(part) ? Number(part) : part))
  const what = inner.length === 0 ? String(path.at(-1)) : first[0]
  throw wrongAt(
    file.name,
    file.lineOf([...path, ...inner]),
    `${what}: ${first[1]}`,
    'correct it; nothing was changed',
  )
}
