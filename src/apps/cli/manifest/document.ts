/**
 * `pipectl.yaml`: the pipes that a workspace should have, with the field names of the API.
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
 * Fields that the file does not mention are not changed. All errors are reported here with their line, before anything changes.
 */
import { type DestinationType, destinationTypes } from '../../../contract/destination.ts'
import { destinationCreateSchema } from '../../../contract/destination-requests.ts'
import { hasSecretPath } from '../../../contract/destination-secrets.ts'
import { redacted, secretKind } from '../../../contract/destination-words.ts'
import { isObject } from '../../../contract/is-object.ts'
import { OriginCreate, PipeCreate, PipeLimits, type PipeUpdate, pipeStatus } from '../../../contract/pipe.ts'
import { jsonPointer, verifySchema } from '../../../contract/record-schema.ts'
import { hasUrlSecrets, redactedUrl } from '../../../contract/secret-url.ts'
import type { GivenTransform } from '../../../contract/transform.ts'
import { shapeFaults, validate } from '../../../contract/validate.ts'
import type { DestinationBody } from '../../client/client.ts'
import { destinationSettings } from '../../client/flag-fields.ts'
import { splitPlace } from '../destinations/secrets.ts'
import { type DeclaredSource, declaredSource } from './source.ts'
import { referencesIn, rejectUnknownKeys, type YamlFile, type YamlPath } from './yaml-file.ts'

export interface DeclaredPipe {
  name: string
  /** Only the fields that the file mentions, without the source. */
  fields: PipeUpdate
  /** Null: the pipe has none. Undefined: not mentioned. */
  source: DeclaredSource | null | undefined
  limits: PipeLimits | null
  /** In lower case. Null: not mentioned. */
  origins: string[] | null
  destinations: DeclaredDestination[] | null
}

export interface DeclaredDestination {
  type: DestinationType
  status: 'active' | 'blocked' | null
  maxRetrySeconds: number | null
  /** With variables replaced and without secrets. A URL with secret parts is in the form that the daemon shows. */
  config: Record<string, unknown>
  columns: DestinationBody['columns'] | null
  /** The name and the delivery settings that the file mentions. */
  settings: DeliverySettings
  startFrom: 'now' | 'earliest' | null
  /** Without its salt. Undefined: not mentioned. */
  transform: GivenTransform | null | undefined
  hasMaskSalt: boolean
  /** Reads the variable of the salt. Throws Failure, which names the variable, if it is not set. */
  maskSalt(): string
  /** The secrets that the file mentions: a key, `secret_headers.NAME`, or `url`. */
  secretPlaces: string[]
  /**
   * The config with the secrets of these paths. Reads their variables. Throws Failure, which names the variable, if
   * one is not set.
   */
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

/** Throws Failure (usage) with the line of the first error. */
export function declaredPipes(file: YamlFile): DeclaredPipe[] {
  const root = file.value
  if (!isObject(root) || !Array.isArray(root.pipes)) {
    throw file.fault([], 'it has no list `pipes`', 'begin with `pipes:`; `pipectl export` shows the form')
  }
  rejectUnknownKeys(file, [], ['pipes'], root)
  const pipes = root.pipes.map((one: unknown, index) => declaredPipe(file, ['pipes', index], one))
  for (const [index, pipe] of pipes.entries()) {
    if (pipes.findIndex((one) => one.name === pipe.name) === index) continue
    throw file.fault(['pipes', index], `pipe ${pipe.name} occurs twice`, 'keep one of them')
  }
  return pipes
}

function declaredPipe(file: YamlFile, path: YamlPath, value: unknown): DeclaredPipe {
  if (!isObject(value)) throw file.fault(path, 'a pipe must be a mapping', 'e.g. - pipe_name: orders')
  rejectUnknownKeys(file, path, pipeKeys, value)
  const { limits, allowed_origins: origins, destinations, pipe_status: status, pipe_source, ...rest } = value
  const { source, checked } = declaredSource(file, [...path, 'pipe_source'], pipe_source)
  reject(
    file,
    path,
    shapeFaults(PipeCreate, pipe_source === undefined ? rest : { ...rest, pipe_source: checked }),
  )
  if (status !== undefined) reject(file, [...path, 'pipe_status'], shapeFaults(pipeStatus, status))
  rejectSchema(file, [...path, 'pipe_schema'], rest.pipe_schema)
  const { pipe_name: name, ...given } = rest
  const { pipe_source_headers: headers } = given
  // Stored in lower case.
  const fields = Array.isArray(headers)
    ? { ...given, pipe_source_headers: headers.map((one) => String(one).toLowerCase()) }
    : given
  return {
    name: String(name),
    fields:
      status === undefined ? fields : { ...fields, pipe_status: status === 'paused' ? 'paused' : 'active' },
    source: pipe_source === undefined ? undefined : source,
    limits: limits === undefined ? null : declaredLimits(file, [...path, 'limits'], limits),
    origins: origins === undefined ? null : declaredOrigins(file, [...path, 'allowed_origins'], origins),
    destinations:
      destinations === undefined ? null : declaredDestinations(file, [...path, 'destinations'], destinations),
  }
}

function rejectSchema(file: YamlFile, path: YamlPath, schema: unknown): void {
  const [first] = schema == null ? [] : verifySchema(schema)
  if (first === undefined) return
  // The names of properties can contain dots and digits, so the path is not taken apart again.
  const inner = first.path.map((key) => (/^\d+$/.test(key) ? Number(key) : key))
  throw file.fault(
    [...path, ...inner],
    `pipe_schema: ${jsonPointer(first.path)} ${first.message}`,
    'docs/schemas.md lists the keywords; nothing was changed',
  )
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

function declaredDestinations(file: YamlFile, path: YamlPath, value: unknown): DeclaredDestination[] {
  const all = listAt(file, path, value).map((one, index) => declaredDestination(file, [...path, index], one))
  const names = all.map((one) => one.settings.destination_name ?? null)
  for (const [index, name] of names.entries()) {
    if (name === null || names.indexOf(name) === index) continue
    const at = [...path, index, 'destination_name']
    throw file.fault(at, `destination ${name} occurs twice`, 'give one of them another name')
  }
  return all
}

function declaredDestination(file: YamlFile, path: YamlPath, value: unknown): DeclaredDestination {
  if (!isObject(value))
    throw file.fault(path, 'a destination must be a mapping', '`pipectl export` shows the form')
  rejectUnknownKeys(file, path, destinationKeys, value)
  const { destination_status, ...body } = value
  const type = declaredType(file, path, body.destination_type)
  const status = declaredStatus(file, path, destination_status)
  const given = body.destination_config ?? {}
  if (!isObject(given)) throw file.fault(path, 'destination_config must be a mapping', 'correct it')
  const { transform, salt } = separateSalt(file, path, body.transform)
  const configPath = [...path, 'destination_config']
  const { config, secrets } = separateSecrets(file, configPath, type, given)
  // For validation every secret counts as set, because its variable is read only when it is needed.
  const shaped = { ...config, ...nested([...secrets.keys()].map((place) => [place, 'set'])) }
  reject(file, path, shapeFaults(destinationCreateSchema(type), { ...body, destination_config: shaped }))
  const { destination_max_retry_seconds: retry, columns, start_from: startFrom } = body
  const secret = (place: string) => file.expand([...configPath, ...pathOf(place)], secrets.get(place) ?? '')
  return {
    type,
    status,
    maxRetrySeconds: typeof retry === 'number' ? retry : null,
    config,
    columns: Array.isArray(columns) ? columns : null,
    transform,
    hasMaskSalt: salt !== null,
    maskSalt: () => file.expand([...path, 'transform', 'mask_salt'], salt ?? ''),
    settings: Object.fromEntries(settingKeys.filter((key) => key in body).map((key) => [key, body[key]])),
    startFrom: startFrom === 'earliest' || startFrom === 'now' ? startFrom : null,
    secretPlaces: [...secrets.keys()],
    secrets: (places) => nested(places.map((place) => [place, secret(place)])),
  }
}

function declaredType(file: YamlFile, path: YamlPath, value: unknown): DestinationType {
  const type = destinationTypes.find((one) => one === value)
  if (type !== undefined) return type
  const hint = `use one of ${destinationTypes.join(', ')}`
  throw file.fault([...path, 'destination_type'], 'destination_type is missing or not known', hint)
}

function declaredStatus(file: YamlFile, path: YamlPath, value: unknown): DeclaredDestination['status'] {
  if (value === undefined) return null
  if (value === 'active' || value === 'blocked') return value
  const at = [...path, 'destination_status']
  throw file.fault(at, 'destination_status must be active or blocked', 'correct it')
}

/**
 * The salt is a secret: a reference to a variable, which is read when needed. It is validated with the destination.
 */
function separateSalt(
  file: YamlFile,
  path: YamlPath,
  given: unknown,
): { transform: GivenTransform | null | undefined; salt: string | null } {
  if (given === null || given === undefined) return { transform: given, salt: null }
  if (!isObject(given) || !('mask_salt' in given)) return { transform: given as GivenTransform, salt: null }
  const { mask_salt, ...transform } = given
  const salt = secretReference(file, [...path, 'transform', 'mask_salt'], mask_salt)
  return { transform: transform as GivenTransform, salt }
}

/** Throws Failure if the file contains the secret itself. */
function secretReference(file: YamlFile, path: YamlPath, value: unknown): string {
  if (typeof value === 'string' && referencesIn(value).length > 0) return value
  const name = String(path.at(-1))
  const variable = `\${${name.toUpperCase().replace(/[^A-Z0-9]+/g, '_')}}`
  const what = `${name} must be a reference: this file must not contain secrets`
  throw file.fault(path, what, `write ${name}: ${variable} and set that variable`)
}

/** The config as the daemon shows it, and its secrets by path: references, or a URL with secret parts. */
function separateSecrets(
  file: YamlFile,
  path: YamlPath,
  type: DestinationType,
  given: Record<string, unknown>,
): { config: Record<string, unknown>; secrets: Map<string, string> } {
  const config: Record<string, unknown> = {}
  const secrets = new Map<string, string>()
  const addSecrets = (place: string, value: unknown) => {
    if (isObject(value))
      for (const [name, member] of Object.entries(value)) addSecrets(`${place}.${name}`, member)
    else secrets.set(place, secretReference(file, [...path, ...pathOf(place)], value))
  }
  const fields = withPlainExpanded(file, path, type, given)
  const isPathSecret = hasSecretPath(type, fields)
  for (const [key, value] of Object.entries(fields)) {
    const kind = secretKind(type, key)
    if (kind === 'text' ? value !== null : kind === 'map' && isObject(value)) addSecrets(key, value)
    else if (kind === 'url' && typeof value === 'string') {
      const shown = shownUrl(value, isPathSecret, (text) => file.expand([...path, key], text))
      config[key] = shown
      if (hasUrlSecrets(shown, isPathSecret)) secrets.set(key, value)
    } else config[key] = value
  }
  return { config, secrets }
}

/** The fields in their order. References are replaced in fields that contain no secrets. */
function withPlainExpanded(
  file: YamlFile,
  path: YamlPath,
  type: DestinationType,
  given: Record<string, unknown>,
): Record<string, unknown> {
  const fields = Object.entries(given).map(([key, value]) => {
    const isPlain = secretKind(type, key) === undefined && typeof value === 'string'
    return [key, isPlain ? file.expand([...path, key], value) : value]
  })
  return Object.fromEntries(fields)
}

/**
 * A URL in the form that the daemon shows. Variables are read only outside of its secret parts, unless those parts
 * cannot be determined before (`${HOOK_URL}`).
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
  throw file.fault(path, `${path.at(-1)} must be a list`, 'correct it')
}

/** Throws the first error of a dot-joined map, with the line of its path. */
function reject(file: YamlFile, path: YamlPath, errors: Record<string, string>): void {
  const first = Object.entries(errors)[0]
  if (first === undefined) return
  const inner =
    first[0] === '' ? [] : first[0].split('.').map((part) => (/^\d+$/.test(part) ? Number(part) : part))
  const what = inner.length === 0 ? String(path.at(-1)) : first[0]
  throw file.fault([...path, ...inner], `${what}: ${first[1]}`, 'correct it; nothing was changed')
}
