/**
 * The flags of commands and the API fields that they set: one table per resource, used in both directions. A command
 * builds a body from its flags (`fieldsFromFlags`), and the dashboard shows the command for a body (`flagsFor`).
 * Flags of a destination's config are in the table of its type (`contract/destinations/`).
 *
 * Invariants: a flag and a field each occur in one row of their table. `flagsFor` never prints a field without a row.
 */
import { clientIpModes } from '../../contract/client-ip.ts'
import type { OnPermanentError } from '../../contract/delivery-settings.ts'
import { destinationTypes, fieldsOf } from '../../contract/destination-words.ts'
import { mismatchActions } from '../../contract/schema-words.ts'
import { maskSaltPlace } from '../../contract/transform-words.ts'
import { usageFailure } from './failure.ts'

export interface FlagField {
  /** Without the dashes. */
  readonly flag: string
  /** The path in the body: `rate.requests_per_second` is within `rate`. */
  readonly field: string
  /**
   * `switch`: `--flag` and `--no-flag`. `reset`: only `--no-flag`, for null. `steps`: JSON, one flag per element. A
   * list: one of its texts.
   */
  readonly takes:
    | 'text'
    | 'switch'
    | 'reset'
    | 'count'
    | 'wholeNumber'
    | 'number'
    | 'steps'
    | readonly string[]
  /** In the help: `--flag <value>`. */
  readonly value?: string
  readonly help: string
  /** The help of `--no-flag` for a switch. */
  readonly off?: string
  /** The text that means null. */
  readonly none?: string
}

export const pipeFlags = [
  {
    flag: 'description',
    field: 'pipe_description',
    takes: 'text',
    value: 'text',
    help: 'what the pipe is for (at most 500 characters)',
  },
  {
    flag: 'ingest-ts',
    field: 'pipe_add_ingest_ts',
    takes: 'switch',
    help: 'write the time of arrival into each record',
    off: 'do not write it',
  },
  {
    flag: 'ts-field',
    field: 'pipe_ingest_ts_field',
    takes: 'text',
    value: 'key',
    help: 'the key it is written to (default ingest_ts)',
  },
  {
    flag: 'ingest-ip',
    field: 'pipe_add_ingest_ip',
    takes: 'switch',
    help: "write the client's IP address into each record",
    off: 'do not write it',
  },
  {
    flag: 'ip-field',
    field: 'pipe_ingest_ip_field',
    takes: 'text',
    value: 'key',
    help: 'the key it is written to (default ingest_ip)',
  },
  {
    flag: 'client-ip',
    field: 'pipe_client_ip',
    takes: clientIpModes,
    value: 'mode',
    help: 'client addresses in records',
  },
  {
    flag: 'key-required',
    field: 'pipe_api_key_required',
    takes: 'switch',
    help: 'ingest needs an API key',
    off: 'ingest needs no key, but an allowed Origin',
  },
  {
    flag: 'any-origin',
    field: 'pipe_allow_any_browser_origin',
    takes: 'switch',
    help: 'accept browser requests from every origin',
    off: 'only from the allowed origins',
  },
  {
    flag: 'retention-hours',
    field: 'pipe_retention_hours',
    takes: 'count',
    value: 'hours',
    none: 'default',
    help: 'remove messages at this age; `default`: limits of the daemon',
  },
  {
    flag: 'source-raw',
    field: 'pipe_source_raw',
    takes: 'switch',
    help: 'write the body of a webhook, as it was sent, into its record (raw_body)',
    off: 'do not write it',
  },
  {
    flag: 'schema-on-mismatch',
    field: 'pipe_schema_on_mismatch',
    takes: mismatchActions,
    value: 'what',
    help: 'records that do not match the schema: reject the request (default), park them, or tag them with their errors',
  },
  {
    flag: 'schema-tag-field',
    field: 'pipe_schema_tag_field',
    takes: 'text',
    value: 'key',
    help: 'the key of the errors in a tagged record (default schema_errors)',
  },
] as const satisfies FlagField[]

/** The dimensions of `--geo`: the field, and its default key. */
export const geoDimensions = {
  country: ['pipe_ingest_geo_country_field', 'ingest_country_code'],
  region: ['pipe_ingest_geo_region_field', 'ingest_region'],
  city: ['pipe_ingest_geo_city_field', 'ingest_city'],
  postal: ['pipe_ingest_geo_postal_field', 'ingest_postal_code'],
  latitude: ['pipe_ingest_geo_latitude_field', 'ingest_latitude'],
  longitude: ['pipe_ingest_geo_longitude_field', 'ingest_longitude'],
  accuracy: ['pipe_ingest_geo_accuracy_radius_field', 'ingest_geo_accuracy_radius_km'],
} as const

const flush = { takes: 'count', value: 'number' } as const

export const limitFlags = [
  {
    ...flush,
    flag: 'records-per-request',
    field: 'pl_ingest_max_records_per_request',
    help: 'maximum number of records in one ingest request',
  },
  {
    ...flush,
    flag: 'records-per-second',
    field: 'pl_ingest_max_records_per_second',
    help: 'maximum number of records per second',
  },
  {
    ...flush,
    flag: 'records-per-day',
    field: 'pl_ingest_max_records_per_day',
    help: 'maximum number of records per UTC day',
  },
  {
    ...flush,
    flag: 'bytes-per-day',
    field: 'pl_ingest_max_bytes_per_day',
    help: 'maximum number of bytes per UTC day; `none` for no limit',
    none: 'none',
  },
  {
    ...flush,
    flag: 'flush-records',
    field: 'pl_delivery_max_records_per_flush',
    help: 'send a batch at this number of records',
  },
  {
    ...flush,
    flag: 'flush-bytes',
    field: 'pl_delivery_max_bytes_per_flush',
    help: 'send a batch at this number of bytes',
  },
  {
    ...flush,
    flag: 'flush-seconds',
    field: 'pl_delivery_max_seconds_per_flush',
    help: 'send a batch after this time',
  },
] as const satisfies FlagField[]

/** The name and the delivery settings of a destination. */
export const deliveryFlags = [
  {
    flag: 'name',
    field: 'destination_name',
    takes: 'text',
    value: 'name',
    help: 'a name, unique in the pipe: PIPE/NAME; "" for the default, which is the kind (database, database-2, …)',
    none: '',
  },
  {
    flag: 'max-retry-seconds',
    field: 'destination_max_retry_seconds',
    takes: 'wholeNumber',
    value: 'seconds',
    help: 'how long a failing message is retried every 300 s or more often; afterwards every 900 s (default 86400)',
  },
  {
    flag: 'flush-records',
    field: 'flush.max_records',
    takes: 'wholeNumber',
    value: 'number',
    help: 'send a batch at this number of records',
  },
  {
    flag: 'flush-bytes',
    field: 'flush.max_bytes',
    takes: 'wholeNumber',
    value: 'number',
    help: 'send a batch at this number of bytes',
  },
  {
    flag: 'flush-seconds',
    field: 'flush.max_seconds',
    takes: 'wholeNumber',
    value: 'number',
    help: 'send a batch after this time',
  },
  {
    flag: 'flush',
    field: 'flush',
    takes: 'reset',
    help: "remove these three limits: the pipe's limits or the defaults apply",
  },
  {
    flag: 'rate',
    field: 'rate.requests_per_second',
    takes: 'number',
    value: 'number',
    help: 'maximum number of requests (statements, objects) per second; `none` for no limit',
    none: 'none',
  },
  {
    flag: 'concurrency',
    field: 'concurrency',
    takes: 'wholeNumber',
    value: 'number',
    help: 'HTTP and NATS: requests of one batch in parallel (1 to 32; default 1)',
  },
  {
    flag: 'on-permanent-error',
    field: 'on_permanent_error',
    takes: ['block', 'park'] satisfies OnPermanentError[],
    value: 'what',
    help: 'a permanently rejected record blocks the lane (default), or is parked and the lane continues',
  },
] as const satisfies FlagField[]

export const startFromFlag = {
  flag: 'start-from',
  field: 'start_from',
  takes: ['now', 'earliest'],
  value: 'point',
  help: 'where delivery starts: now (default), or the earliest message that is kept, which the dashboard suggests for a first destination',
} as const satisfies FlagField

/** The environment variable of a transform's salt. */
export const saltVariable = 'PIPECTL_DESTINATION_MASK_SALT'

export const transformFlags = [
  {
    flag: 'filter',
    field: 'transform.filter',
    takes: 'text',
    value: 'expression',
    help: 'the records that it receives, in CEL: \'record.status == "paid"\'; "" for all (docs/transform.md)',
  },
  {
    flag: 'map',
    field: 'transform.map',
    takes: 'steps',
    value: 'step',
    help: `a change of each record, as JSON; can be repeated, in order: '{"op":"drop","paths":["user.email"]}'; the salt of mask is read from ${saltVariable}, or with --secret ${maskSaltPlace} from a prompt`,
  },
  {
    flag: 'transform',
    field: 'transform',
    takes: 'reset',
    help: 'remove filter and map: all records as they are',
  },
] as const satisfies FlagField[]

/** The fields that a destination file can have, in addition to `destination_type` and `destination_config`. */
export const destinationSettings = [
  ...new Set(deliveryFlags.map(({ field }) => field.replace(/\..*/, ''))),
  'columns',
  'transform',
  startFromFlag.field,
]

/** The flag of a config key. It is the same for every type that has the key. */
export function configFlag(key: string): string {
  return key.replaceAll('_', '-')
}

/** Key → its flag, for the configs of all types. A key of several types has the texts of the first one. */
export const configFlags = new Map(
  [...destinationTypes]
    .reverse()
    .flatMap((type) =>
      fieldsOf(type).flatMap(([key, { flag }]) => (flag === undefined ? [] : [[key, flag]])),
    ),
)

type Value<F> =
  | (F extends { takes: 'switch' }
      ? boolean
      : F extends { takes: 'count' | 'wholeNumber' | 'number' }
        ? number
        : F extends { takes: 'reset' }
          ? null
          : F extends { takes: 'steps' }
            ? unknown[]
            : F extends { takes: readonly (infer Choice)[] }
              ? Choice
              : string)
  | (F extends { none: string } ? null : never)

/** Fields by their path in the body. */
export type FlagFields<T extends readonly FlagField[]> = { [F in T[number] as F['field']]?: Value<F> }

/** The fields whose flags are given. Throws Failure (usage) for an invalid value. */
export function fieldsFromFlags<T extends readonly FlagField[]>(table: T, options: object): FlagFields<T> {
  const given = table.flatMap((row) => {
    const option: unknown = Reflect.get(options, camelCase(row.flag))
    const value = optionValue(row, option)
    return value === undefined ? [] : [[row.field, value]]
  })
  return Object.fromEntries(given)
}

function optionValue(row: FlagField, option: unknown): unknown {
  const { takes, none } = row
  if (takes === 'switch') return option
  if (takes === 'reset') return option === false ? null : undefined
  if (takes === 'steps')
    return Array.isArray(option) ? option.map((text) => stepFrom(row.flag, text)) : undefined
  if (typeof option !== 'string') return undefined
  if (none !== undefined && option === none) return null
  return typeof takes === 'string' && takes !== 'text' ? numberFrom(row.flag, option, takes) : option
}

const numbers = {
  count: { pattern: /^[1-9]\d{0,15}$/, words: 'is not a whole number of at least 1', example: '1000' },
  wholeNumber: { pattern: /^\d{1,15}$/, words: 'is not a whole number', example: '3600' },
  number: { pattern: /^\d{1,15}(\.\d{1,15})?$/, words: 'is not a number', example: '10' },
} as const

/** Throws Failure (usage). */
export function numberFrom(flag: string, text: string, takes: keyof typeof numbers): number {
  const { pattern, words, example } = numbers[takes]
  if (pattern.test(text) && Number(text) <= Number.MAX_SAFE_INTEGER) return Number(text)
  throw usageFailure(
    `--${flag} ${JSON.stringify(text)} ${words}`,
    `give a plain number, e.g. --${flag} ${example}`,
  )
}

function stepFrom(flag: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw usageFailure(
      `--${flag} ${JSON.stringify(text)} is not JSON`,
      `e.g. --${flag} '{"op":"rename","from":"a","to":"b"}'`,
    )
  }
}

/** The flags that set these fields of a body. Fields without a flag are left out. */
export function flagsFor(table: readonly FlagField[], body: object): string[] {
  return table.flatMap((entry) => {
    const value = valueAt(body, entry.field)
    return value === undefined ? [] : flagFor(entry, value)
  })
}

function flagFor({ flag, takes, none }: FlagField, value: unknown): string[] {
  if (takes === 'switch') return [value === true ? `--${flag}` : `--no-${flag}`]
  if (takes === 'reset') return value === null ? [`--no-${flag}`] : []
  if (takes === 'steps')
    return Array.isArray(value) ? value.flatMap((step) => [`--${flag}`, JSON.stringify(step)]) : []
  const word = value === null ? none : String(value)
  return word === undefined ? [] : [`--${flag}`, word]
}

/** The value at a path. Null if one of its parents is null. */
function valueAt(body: object, path: string): unknown {
  let value: unknown = body
  for (const key of path.split('.')) {
    if (typeof value !== 'object' || value === null) return value
    value = Reflect.get(value, key)
  }
  return value
}

/** The name that commander gives to the option of a flag. */
export function camelCase(flag: string): string {
  return flag.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
}
