/** The command that is equivalent to an action in the dashboard, which shows it next to every change. Pure. */
import type { ColumnMapping } from '../../contract/destination.ts'
import { hasSecretPath } from '../../contract/destination-secrets.ts'
import { type DestinationType, fieldOf, redacted } from '../../contract/destination-words.ts'
import { hasUrlSecrets } from '../../contract/secret-url.ts'
import type { GivenTransform, ShownTransform } from '../../contract/transform.ts'
import type { TransformTrialRequest } from '../../contract/transform-trial.ts'
import { maskSaltPlace } from '../../contract/transform-words.ts'
import {
  configFlag,
  configFlags,
  deliveryFlags,
  flagsFor,
  geoDimensions,
  limitFlags,
  pipeFlags,
  startFromFlag,
  transformFlags,
} from './flag-fields.ts'
import { printable } from './printable.ts'

/** Quoted for a POSIX shell if necessary. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** Words that are `null`, `undefined` or `false` are left out. */
export function command(...words: (string | null | undefined | false)[]): string {
  return ['pipectl', ...words.filter((word) => typeof word === 'string').map(quoted)].join(' ')
}

/**
 * Uses the id if the name contains control characters, or if a terminal could not show the difference to other names.
 */
export function destinationName(
  pipeName: string,
  destination: { destination_id: string; destination_name: string },
): string {
  const name = destination.destination_name
  return printable(name) === name ? `${pipeName}/${name}` : destination.destination_id
}

/** Options for `pipes create` and `pipes update`. */
export function pipeOptions(fields: object): string[] {
  const geo = Object.entries(geoDimensions).flatMap(([dimension, [field]]) => {
    const key: unknown = Reflect.get(fields, field)
    return key === undefined ? [] : ['--geo', `${dimension}=${key ?? ''}`]
  })
  return [...flagsFor(pipeFlags, fields), ...geo]
}

interface DestinationFields {
  destination_config?: Readonly<Record<string, unknown>>
  destination_name?: string | null
  destination_max_retry_seconds?: number
  columns?: readonly Partial<ColumnMapping>[]
  flush?: { max_records: number; max_bytes: number; max_seconds: number } | null
  rate?: { requests_per_second: number } | null
  concurrency?: number | null
  on_permanent_error?: string | null
  start_from?: string
  transform?: GivenTransform | null
}

/**
 * Options for `destinations create`, `update` (with the stored config in `stored`) and `test`. They never contain
 * secrets, which the command asks for.
 */
export function destinationOptions(
  type: DestinationType,
  fields: DestinationFields,
  stored: Readonly<Record<string, unknown>> = {},
): string[] {
  const config = fields.destination_config ?? {}
  const isPathSecret = hasSecretPath(type, { ...stored, ...config })
  const options = Object.entries(config).flatMap(([key, value]) =>
    value === null || value === undefined ? [] : configOptions(type, key, value, isPathSecret),
  )
  for (const column of fields.columns ?? []) options.push('--column', columnWord(column))
  if (fields.columns?.length === 0) options.push('--no-columns')
  options.push(...flagsFor([...deliveryFlags, startFromFlag], fields))
  options.push(...transformOptions(fields.transform))
  return options
}

/** The options for one key of a config. */
function configOptions(
  type: DestinationType,
  key: string,
  value: object | string,
  isPathSecret: boolean,
): string[] {
  const field = fieldOf(type, key)
  const kind = field?.secret
  if (kind === 'text') return value === '' || value === redacted ? [] : ['--secret', key]
  if (kind === 'map') return Object.keys(value).flatMap((name) => ['--secret', `${key}.${name}`])
  if (kind === 'url')
    return hasUrlSecrets(String(value), isPathSecret) ? ['--secret', key] : ['--url', String(value)]
  if (typeof value === 'object')
    return Object.entries(value).flatMap(([name, one]) => ['--set', `${key}.${name}=${one}`])
  // The name of the file is not known here, only its content.
  const flag = configFlags.get(key)
  if (flag === undefined || flag.value === 'file') return ['--set', `${key}=${value}`]
  return [`--${configFlag(key)}`, String(value)]
}

function transformOptions(transform: GivenTransform | null | undefined): string[] {
  const shown = transform ? { ...transform, filter: transform.filter ?? '' } : transform
  const salt = transform?.mask_salt ? ['--secret', maskSaltPlace] : []
  return [...flagsFor(transformFlags, { transform: shown }), ...salt]
}

/**
 * The command `destinations try-transform`. `stored` is the destination that the form edits; its salt is kept if none
 * is given. A transform without steps is tried as that of a new destination, because otherwise the stored steps would
 * be used.
 */
export function tryTransformCommand(
  pipeName: string,
  stored: (Parameters<typeof destinationName>[1] & { transform?: ShownTransform | null }) | null,
  transform: GivenTransform,
  { limit, only }: Pick<TransformTrialRequest, 'limit' | 'only'>,
): string {
  const show = [
    ...(limit === undefined ? [] : ['--limit', String(limit)]),
    ...(only === undefined ? [] : ['--only', only]),
  ]
  const commandOf = (reference: string, options: string[]) =>
    command('destinations', 'try-transform', reference, ...options, ...show)
  const { filter = null, map = [], mask_salt: salt } = transform
  const name = stored === null ? null : destinationName(pipeName, stored)
  const before = stored?.transform ?? null
  const isSame = JSON.stringify([filter, map]) === JSON.stringify([before?.filter, before?.map])
  if (name !== null && isSame && !salt) return commandOf(name, [])
  const options = transformOptions(transform)
  // With --filter and --map, an id does not identify a destination.
  const canName = name?.includes('/') === true && (map.length > 0 || !before?.map.length)
  if (name !== null && canName) return commandOf(name, options)
  const needsSalt = !salt && map.some(({ op }) => op === 'mask')
  return commandOf(pipeName, [...options, ...(needsSalt ? ['--secret', maskSaltPlace] : [])])
}

/** `name:type[:role][:source=KEY|:generated][:required]` */
export function columnWord(column: Partial<ColumnMapping>): string {
  const { column_name: name, column_type: type, semantic_role: role, source_field: source } = column
  const isGenerated = role === 'dedupe_id' && !source
  return [
    name,
    type,
    role,
    isGenerated ? 'generated' : source && source !== name ? `source=${source}` : null,
    column.nullable === false ? 'required' : null,
  ]
    .filter(Boolean)
    .join(':')
}

/** Options for `limits set`. */
export function limitWords(limits: object): string[] {
  return flagsFor(limitFlags, limits)
}
