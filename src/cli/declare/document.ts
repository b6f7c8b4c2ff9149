/**
 * `pipectl.yaml`: the pipes a workspace should have, in the API's own field names.
 *
 *   pipes:
 *     - pipe_name: orders
 *       pipe_description: orders of the shop
 *       limits: {pl_ingest_max_records_per_request: 1000, …}
 *       allowed_origins: [https://shop.example.com]
 *       destinations:
 *         - destination_type: destination_database
 *           destination_config: {host: db, database: shop, username: loader, table: orders, password: "${SHOP_DB}"}
 *           columns: [{column_name: id, column_type: number, source_field: id, semantic_role: dedupe_id}]
 *
 * What the file does not mention is left as it is. Every mistake is found here, with its line, before anything changes.
 */

import type { DestinationBody } from '../../client/client.ts'
import { type DestinationType, destinationTypes, secretKeys } from '../../contract/destination.ts'
import { destinationCreateSchemas } from '../../contract/destination-requests.ts'
import { PipeLimits } from '../../contract/limits.ts'
import { OriginCreate } from '../../contract/origin.ts'
import { PipeCreate, type PipeUpdate, pipeStatus } from '../../contract/pipe.ts'
import { explain, isObject, validate } from '../../contract/validate.ts'
import {
  expand,
  referencesIn,
  refuseUnknownKeys,
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
  /** Expanded, without the secrets. */
  config: Record<string, unknown>
  columns: DestinationBody['columns'] | null
  startFrom: 'now' | 'earliest' | null
  /** Keys of the secrets that the file mentions. */
  secretNames: string[]
  /** Their values, read now. Throws Failure naming the variable that is not set. */
  secrets(): Record<string, string>
}

const pipeKeys = [...Object.keys(PipeCreate.properties), 'limits', 'allowed_origins', 'destinations']
const destinationKeys = [
  'destination_type',
  'destination_config',
  'destination_status',
  'destination_max_retry_seconds',
  'columns',
  'start_from',
]

/** Throws Failure (usage) with the line of the first mistake. */
export function declaredPipes(file: YamlFile, env: NodeJS.ProcessEnv): DeclaredPipe[] {
  const root = file.value
  if (!isObject(root) || !Array.isArray(root.pipes)) {
    throw wrongAt(
      file.name,
      1,
      'it holds no list `pipes`',
      'begin with `pipes:`; `pipectl export` shows the form',
    )
  }
  refuseUnknownKeys(file, [], ['pipes'], root)
  const pipes = root.pipes.map((one: unknown, index) => declaredPipe(file, ['pipes', index], one, env))
  for (const [index, pipe] of pipes.entries()) {
    if (pipes.findIndex((one) => one.name === pipe.name) === index) continue
    throw wrongAt(
      file.name,
      file.lineOf(['pipes', index]),
      `pipe ${pipe.name} is there twice`,
      'keep one of them',
    )
  }
  return pipes
}

function declaredPipe(file: YamlFile, path: YamlPath, value: unknown, env: NodeJS.ProcessEnv): DeclaredPipe {
  if (!isObject(value))
    throw wrongAt(file.name, file.lineOf(path), 'a pipe must be a mapping', 'e.g. - pipe_name: orders')
  refuseUnknownKeys(file, path, pipeKeys, value)
  const { limits, allowed_origins: origins, destinations, pipe_status: status, ...rest } = value
  refuse(file, path, explain(PipeCreate, rest))
  if (status !== undefined) refuse(file, [...path, 'pipe_status'], explain(pipeStatus, status))
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
        : listAt(file, [...path, 'destinations'], destinations).map((one, index) =>
            declaredDestination(file, [...path, 'destinations', index], one, env),
          ),
  }
}

function declaredLimits(file: YamlFile, path: YamlPath, value: unknown): PipeLimits {
  refuse(file, path, explain(PipeLimits, value))
  const limits = validate(PipeLimits, value)
  return { ...limits, pl_ingest_max_bytes_per_day: limits.pl_ingest_max_bytes_per_day ?? null }
}

function declaredOrigins(file: YamlFile, path: YamlPath, value: unknown): string[] {
  return listAt(file, path, value).map((one, index) => {
    const origin = typeof one === 'string' ? one.toLowerCase() : one
    const { origin_domain: wrong } = explain(OriginCreate, { origin_domain: origin })
    if (wrong !== undefined) refuse(file, [...path, index], { '': wrong })
    return String(origin)
  })
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
  refuseUnknownKeys(file, path, destinationKeys, value)
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
  const { config, secrets } = separateSecrets(file, [...path, 'destination_config'], type, given, env)
  // For the check of shapes every secret counts as there: its variable is read only when it is needed.
  const shaped = { ...config, ...Object.fromEntries(Object.keys(secrets).map((key) => [key, 'set'])) }
  refuse(file, path, explain(destinationCreateSchemas[type], { ...body, destination_config: shaped }))
  return {
    type,
    status: status ?? null,
    maxRetrySeconds:
      typeof body.destination_max_retry_seconds === 'number' ? body.destination_max_retry_seconds : null,
    config,
    columns: Array.isArray(body.columns) ? body.columns : null,
    startFrom: body.start_from === 'earliest' || body.start_from === 'now' ? body.start_from : null,
    secretNames: Object.keys(secrets),
    secrets: () =>
      Object.fromEntries(
        Object.entries(secrets).map(([key, text]) => [
          key,
          expand(file, [...path, 'destination_config', key], text, env),
        ]),
      ),
  }
}

function separateSecrets(
  file: YamlFile,
  path: YamlPath,
  type: DestinationType,
  given: Record<string, unknown>,
  env: NodeJS.ProcessEnv,
): { config: Record<string, unknown>; secrets: Record<string, string> } {
  const config: Record<string, unknown> = {}
  const secrets: Record<string, string> = {}
  for (const [key, value] of Object.entries(given)) {
    if (!secretKeys[type].includes(key) || value === null) {
      config[key] = typeof value === 'string' ? expand(file, [...path, key], value, env) : value
    } else if (typeof value === 'string' && referencesIn(value).length > 0) secrets[key] = value
    else {
      const variable = `\${${key.toUpperCase()}}`
      throw wrongAt(
        file.name,
        file.lineOf([...path, key]),
        `${key} must be a reference: secrets do not belong into this file`,
        `write ${key}: ${variable} and set that variable`,
      )
    }
  }
  return { config, secrets }
}

function listAt(file: YamlFile, path: YamlPath, value: unknown): unknown[] {
  if (Array.isArray(value)) return value
  throw wrongAt(file.name, file.lineOf(path), `${path.at(-1)} must be a list`, 'correct it')
}

/** Throws for the first error of a dot-joined map, at the line of its path. */
function refuse(file: YamlFile, path: YamlPath, errors: Record<string, string>): void {
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
