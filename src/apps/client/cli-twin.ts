/** The command that does what the page does: every change shows it. Pure. */
import type { ColumnMapping } from '../../contract/destination.ts'
import { hasSecretPath } from '../../contract/destination-secrets.ts'
import { type DestinationType, redacted, wordsOf } from '../../contract/destination-words.ts'
import { hasUrlSecrets } from '../../contract/secret-url.ts'
import type { GivenTransform, ShownTransform } from '../../contract/transform.ts'
import type { TransformTrialRequest } from '../../contract/transform-trial.ts'
import { maskSaltPlace } from '../../contract/transform-words.ts'
import { printable } from './printable.ts'

/** Quoted for a POSIX shell where it has to be. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/** `null`, `undefined` and `false` are left out. */
export function command(...words: (string | null | undefined | false)[]): string {
  return ['pipectl', ...words.filter((word) => typeof word === 'string').map(quoted)].join(' ')
}

/** By its id where the name has characters that would act on the terminal, or could not be told from others there. */
export function destinationName(
  pipeName: string,
  destination: { destination_id: string; destination_name: string },
): string {
  const name = destination.destination_name
  return printable(name) === name ? `${pipeName}/${name}` : destination.destination_id
}

const geoNames: Record<string, string> = {
  pipe_ingest_geo_country_field: 'country',
  pipe_ingest_geo_region_field: 'region',
  pipe_ingest_geo_city_field: 'city',
  pipe_ingest_geo_postal_field: 'postal',
  pipe_ingest_geo_latitude_field: 'latitude',
  pipe_ingest_geo_longitude_field: 'longitude',
  pipe_ingest_geo_accuracy_radius_field: 'accuracy',
}
const switches: Record<string, string> = {
  pipe_add_ingest_ts: 'ingest-ts',
  pipe_add_ingest_ip: 'ingest-ip',
  pipe_api_key_required: 'key-required',
  pipe_allow_any_browser_origin: 'any-origin',
}
const texts: Record<string, string> = {
  pipe_description: '--description',
  pipe_ingest_ts_field: '--ts-field',
  pipe_ingest_ip_field: '--ip-field',
}

/** Options for `pipes create` and `pipes update`. */
export function pipeOptions(fields: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(fields).flatMap(([key, value]) => {
    const name = switches[key]
    if (name !== undefined) return [value === true ? `--${name}` : `--no-${name}`]
    const option = texts[key]
    if (option !== undefined) return [option, String(value)]
    const dimension = geoNames[key]
    return dimension === undefined ? [] : ['--geo', `${dimension}=${value ?? ''}`]
  })
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
 * Options for `destinations create`, `update` (of a destination with the config `stored`) and `test`. The command
 * asks for secrets: none is ever part of it.
 */
export function destinationOptions(
  type: DestinationType,
  fields: DestinationFields,
  stored: Readonly<Record<string, unknown>> = {},
): string[] {
  const { secrets } = wordsOf(type)
  const options: string[] = []
  const isPathSecret = hasSecretPath({ ...stored, ...fields.destination_config })
  for (const [key, value] of Object.entries(fields.destination_config ?? {})) {
    if (value === null || value === undefined) continue
    const kind = secrets[key]
    if (kind === 'text') {
      if (value !== '' && value !== redacted) options.push('--secret', key)
    } else if (kind === 'map') {
      for (const name of Object.keys(value)) options.push('--secret', `${key}.${name}`)
    } else if (typeof value === 'object') {
      for (const [name, one] of Object.entries(value)) options.push('--set', `${key}.${name}=${one}`)
    } else if (databaseOptions.has(key)) options.push(`--${key}`, String(value))
    else if (kind === 'url')
      options.push(
        ...(hasUrlSecrets(String(value), isPathSecret) ? ['--secret', key] : ['--url', String(value)]),
      )
    else options.push('--set', `${key}=${value}`)
  }
  for (const column of fields.columns ?? []) options.push('--column', columnWord(column))
  if (fields.columns?.length === 0) options.push('--no-columns')
  if (fields.destination_max_retry_seconds !== undefined) {
    options.push('--max-retry-seconds', String(fields.destination_max_retry_seconds))
  }
  if (fields.destination_name !== undefined) options.push('--name', fields.destination_name ?? '')
  const { flush, rate, concurrency, on_permanent_error: onError, start_from: startFrom } = fields
  if (flush === null) options.push('--no-flush')
  else if (flush !== undefined) {
    options.push('--flush-records', String(flush.max_records), '--flush-bytes', String(flush.max_bytes))
    options.push('--flush-seconds', String(flush.max_seconds))
  }
  if (rate !== undefined) options.push('--rate', rate === null ? 'none' : String(rate.requests_per_second))
  if (typeof concurrency === 'number') options.push('--concurrency', String(concurrency))
  if (typeof onError === 'string') options.push('--on-permanent-error', onError)
  if (startFrom === 'earliest') options.push('--start-from', startFrom)
  options.push(...transformOptions(fields.transform))
  return options
}

function transformOptions(transform: GivenTransform | null | undefined): string[] {
  if (transform === undefined) return []
  if (transform === null) return ['--no-transform']
  const { filter, map = [], mask_salt: salt } = transform
  return [
    ...['--filter', filter ?? ''],
    ...map.flatMap((step) => ['--map', JSON.stringify(step)]),
    ...(salt ? ['--secret', maskSaltPlace] : []),
  ]
}

/**
 * The command `destinations try-transform`. `stored` is the destination that the form edits; its salt stays if none
 * is given. Without steps the transform is tried as a new one, because under the destination's name the stored steps
 * would stay.
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
  // An id names no destination beside --filter and --map.
  const canName = name?.includes('/') === true && (map.length > 0 || !before?.map.length)
  if (name !== null && canName) return commandOf(name, options)
  const needsSalt = !salt && map.some(({ op }) => op === 'mask')
  return commandOf(pipeName, [...options, ...(needsSalt ? ['--secret', maskSaltPlace] : [])])
}

const databaseOptions = new Set(['host', 'port', 'database', 'username', 'table', 'dialect'])

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

const limitOptions: Record<string, string> = {
  pl_ingest_max_records_per_request: '--records-per-request',
  pl_ingest_max_records_per_second: '--records-per-second',
  pl_ingest_max_records_per_day: '--records-per-day',
  pl_ingest_max_bytes_per_day: '--bytes-per-day',
  pl_delivery_max_records_per_flush: '--flush-records',
  pl_delivery_max_bytes_per_flush: '--flush-bytes',
  pl_delivery_max_seconds_per_flush: '--flush-seconds',
}

/** Options for `limits set`. */
export function limitWords(limits: Readonly<Record<string, number | null>>): string[] {
  return Object.entries(limits).flatMap(([key, value]) => {
    const option = limitOptions[key]
    return option === undefined ? [] : [option, value === null ? 'none' : String(value)]
  })
}
