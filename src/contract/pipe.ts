/**
 * A pipe with its limits, allowed browser origins and usage, as clients create, change and read them. Rules:
 * docs/dev/contract.md#pipes, docs/dev/contract.md#pipe-limits, docs/dev/contract.md#allowed-origins,
 * docs/dev/contract.md#request-bodies.
 */
import Type, { type Static } from 'typebox'
import { type ClientIpMode, clientIpModes } from './client-ip.ts'
import { Mismatches, PipeSchema, PipeSchemaOnMismatch, PipeSchemaTagField } from './pipe-schema.ts'
import {
  PipeSource,
  PipeSourceGiven,
  PipeSourceHeaders,
  PipeSourceRaw,
  RejectedHooks,
} from './pipe-source.ts'
import { closed, count, nullable, string, timestamp, uuid } from './schema-parts.ts'
import { usageCountFields } from './usage.ts'
import { withoutControls } from './validate.ts'

const fieldName = (description: string) => Type.String({ minLength: 1, maxLength: 100, description })
const geoField = (what: string) =>
  nullable(Type.String({ maxLength: 100, description: `JSON key for the ${what}; null: off` }))

const pipeNamePattern = '^[A-Za-z0-9_-]+$'
const pipeName = Type.String({
  minLength: 1,
  maxLength: 100,
  pattern: pipeNamePattern,
  description: 'letters, digits, hyphen and underscore only',
})

/** The seven geo targets, in the order of the specification. */
export const geoFieldKeys = [
  'pipe_ingest_geo_country_field',
  'pipe_ingest_geo_region_field',
  'pipe_ingest_geo_city_field',
  'pipe_ingest_geo_postal_field',
  'pipe_ingest_geo_latitude_field',
  'pipe_ingest_geo_longitude_field',
  'pipe_ingest_geo_accuracy_radius_field',
] as const
export type GeoFieldKey = (typeof geoFieldKeys)[number]

/** Trims the geo targets of a body. An empty target means off, like null. Other fields are unchanged. */
export function withTrimmedGeoFields(body: Record<string, unknown>): Record<string, unknown> {
  const trimmed = { ...body }
  for (const key of geoFieldKeys) {
    const value = Object.hasOwn(trimmed, key) ? trimmed[key] : undefined
    if (typeof value === 'string') trimmed[key] = value.trim() || null
  }
  return trimmed
}

const settable = {
  pipe_description: Type.String({ maxLength: 500, pattern: withoutControls }),
  pipe_add_ingest_ts: Type.Boolean(),
  pipe_add_ingest_ip: Type.Boolean(),
  pipe_ingest_ts_field: fieldName('JSON key for the ingest timestamp'),
  pipe_ingest_ip_field: fieldName('JSON key for the client IP'),
  pipe_client_ip: Type.Unsafe<ClientIpMode>(
    Type.Enum([...clientIpModes], {
      description:
        'What is kept of the addresses of clients. `full`: the address. `truncated`: its network, /24 of IPv4 and /48 of IPv6. `none`: no address is written, even with `pipe_add_ingest_ip`. The geolocation of a request is looked up with the whole address, in memory.',
    }),
  ),
  pipe_ingest_geo_country_field: geoField('ISO country code'),
  pipe_ingest_geo_region_field: geoField('region or subdivision'),
  pipe_ingest_geo_city_field: geoField('city name'),
  pipe_ingest_geo_postal_field: geoField('postal code'),
  pipe_ingest_geo_latitude_field: geoField('approximate latitude (number)'),
  pipe_ingest_geo_longitude_field: geoField('approximate longitude (number)'),
  pipe_ingest_geo_accuracy_radius_field: geoField('accuracy radius in km (number)'),
  pipe_api_key_required: Type.Boolean(),
  pipe_allow_any_browser_origin: Type.Boolean(),
  pipe_retention_hours: nullable(
    Type.Integer({
      minimum: 1,
      maximum: 87_600,
      description:
        'Messages that are older are removed from the buffer: delivered ones, and undelivered ones, which lanes count as dropped. At most `buffer.undelivered_hours` of the daemon; null: the limits of the daemon. Not in a cluster.',
    }),
  ),
  pipe_source_headers: PipeSourceHeaders,
  pipe_source_raw: PipeSourceRaw,
  pipe_schema: PipeSchema,
  pipe_schema_on_mismatch: PipeSchemaOnMismatch,
  pipe_schema_tag_field: PipeSchemaTagField,
}
/** `pipe_source` has another shape in responses. */
const given = { ...settable, pipe_source: PipeSourceGiven }
export const pipeStatus = Type.Enum(['active', 'paused'])

/**
 * POST /v1/pipes. `pipe_status` is accepted and ignored: a new pipe is always active
 * (docs/dev/contract.md#request-bodies).
 */
export const PipeCreate = Type.Object(
  {
    pipe_name: pipeName,
    ...Type.Partial(Type.Object(given)).properties,
    pipe_status: Type.Optional(Type.Unknown()),
  },
  closed,
)
/** The fields of a pipe that can be changed. */
export const PipeUpdate = Type.Object(
  { ...Type.Partial(Type.Object(given)).properties, pipe_status: Type.Optional(pipeStatus) },
  closed,
)
const readOnly = () => Type.Optional(string('Cannot be changed, but can be sent back unchanged.'))
const readOnlyFields = {
  pipe_id: readOnly(),
  pipe_name: readOnly(),
  pipe_created_ts: readOnly(),
  pipe_updated_ts: readOnly(),
}
export const readOnlyPipeFields = Object.keys(readOnlyFields) as (keyof typeof readOnlyFields)[]
/** PATCH /v1/pipes/{pipe_id}. */
export const PipePatch = Type.Object({ ...PipeUpdate.properties, ...readOnlyFields }, closed)
export type PipePatch = Static<typeof PipePatch>

/** A stored pipe as responses show it. */
export const Pipe = Type.Object({
  pipe_id: uuid(),
  pipe_name: pipeName,
  pipe_status: pipeStatus,
  ...settable,
  pipe_source: PipeSource,
  pipe_created_ts: timestamp(),
  pipe_updated_ts: timestamp(),
})

export type PipeCreate = Static<typeof PipeCreate>
export type PipeUpdate = Static<typeof PipeUpdate>
export type Pipe = Static<typeof Pipe>

const noHeaders: string[] = []

/**
 * Defaults of a new pipe (docs/dev/contract.md#pipes). A missing `pipe_description` is stored as the empty string.
 */
export const pipeDefaults = {
  pipe_description: '',
  pipe_add_ingest_ts: true,
  pipe_add_ingest_ip: false,
  pipe_ingest_ts_field: 'ingest_ts',
  pipe_ingest_ip_field: 'ingest_ip',
  pipe_client_ip: 'full',
  pipe_ingest_geo_country_field: null,
  pipe_ingest_geo_region_field: null,
  pipe_ingest_geo_city_field: null,
  pipe_ingest_geo_postal_field: null,
  pipe_ingest_geo_latitude_field: null,
  pipe_ingest_geo_longitude_field: null,
  pipe_ingest_geo_accuracy_radius_field: null,
  pipe_api_key_required: true,
  pipe_allow_any_browser_origin: false,
  pipe_retention_hours: null,
  pipe_source: null,
  pipe_source_headers: noHeaders,
  pipe_source_raw: false,
  pipe_schema: null,
  pipe_schema_on_mismatch: 'reject',
  pipe_schema_tag_field: 'schema_errors',
} as const satisfies Partial<Pipe>

const atLeastOne = () => Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })

/**
 * Limits of a pipe. Without stored limits, ingest is not limited and each destination type's default flush plan
 * applies.
 */
export const PipeLimits = Type.Object(
  {
    pl_ingest_max_records_per_request: atLeastOne(),
    pl_ingest_max_records_per_second: atLeastOne(),
    pl_ingest_max_records_per_day: atLeastOne(),
    pl_ingest_max_bytes_per_day: Type.Optional(nullable(atLeastOne())),
    pl_delivery_max_records_per_flush: atLeastOne(),
    pl_delivery_max_bytes_per_flush: atLeastOne(),
    pl_delivery_max_seconds_per_flush: atLeastOne(),
  },
  closed,
)
/** Limits as stored and shown. `pl_ingest_max_bytes_per_day` is null if there is no limit. */
export type PipeLimits = Required<Static<typeof PipeLimits>>

const originPattern = '^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$'

export const OriginCreate = Type.Object(
  {
    origin_domain: Type.String({
      minLength: 1,
      maxLength: 300,
      pattern: originPattern,
      description: 'scheme://host[:port], no path',
    }),
  },
  closed,
)
export type OriginCreate = Static<typeof OriginCreate>

/**
 * Origins are stored and compared in lower case, without the default port of the scheme
 * (docs/dev/contract.md#allowed-origins).
 */
export function normaliseOrigin(origin: string): string {
  const lower = origin.toLowerCase()
  const defaultPort = lower.startsWith('https:') ? ':443' : ':80'
  return lower.endsWith(defaultPort) ? lower.slice(0, -defaultPort.length) : lower
}

/** Normalizes the origin in a body of `OriginCreate`, before validation. */
export function withNormalOrigin(body: Record<string, unknown>): Record<string, unknown> {
  const { origin_domain } = body
  return typeof origin_domain === 'string' ? { ...body, origin_domain: normaliseOrigin(origin_domain) } : body
}

export const AllowedOrigin = Type.Object({
  pipe_allowed_origin_id: uuid(),
  origin_domain: Type.String(),
})
export type AllowedOrigin = Static<typeof AllowedOrigin>

/** Usage: the activity of a pipe in the last 24 hours, and its pending messages. */
export const usageStatsWindowHours = 24

export const PipeUsage = Type.Object({
  ...usageCountFields,
  pending_messages: count(),
  pending_bytes: count(),
  blocked_lanes: count(),
  last_ingest_ts: nullable(timestamp()),
  rejected_hooks: RejectedHooks,
  schema_mismatches: Mismatches,
})
export type PipeUsage = Static<typeof PipeUsage>
