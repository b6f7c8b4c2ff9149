/**
 * Enrichment: the members that the pipe adds to every record of a request (docs/dev/contract.md#pipes): timestamp,
 * client IP, seven geo dimensions. All records of one request get the same members, so they are one piece of JSON text.
 */
import type { GeoFieldKey, Pipe } from '../contract/pipe.ts'
import type { DirectoryPipe } from '../metadata/directory-source.ts'
import type { GeoValues } from './geo.ts'

export interface Enrichment {
  /** The keys it sets, without duplicates. */
  keys: readonly string[]
  /** The members as JSON text, comma-separated, without braces: `"ingest_ts":"2026-…","ingest_ip":"192.0.2.1"`. */
  text: string
}

const dimensions: readonly (readonly [GeoFieldKey, keyof GeoValues])[] = [
  ['pipe_ingest_geo_country_field', 'country'],
  ['pipe_ingest_geo_region_field', 'region'],
  ['pipe_ingest_geo_city_field', 'city'],
  ['pipe_ingest_geo_postal_field', 'postal'],
  ['pipe_ingest_geo_latitude_field', 'latitude'],
  ['pipe_ingest_geo_longitude_field', 'longitude'],
  ['pipe_ingest_geo_accuracy_radius_field', 'accuracyRadiusKm'],
]

/** The enrichment of a pipe, prepared once. `members` is called for each request. */
export interface EnrichmentPlan {
  needsClientIp: boolean
  needsGeo: boolean
  /** `clientIp` and `geo` can be null when not needed or unknown. Members without a value are left out. */
  members(receivedMs: number, clientIp: string | null, geo: GeoValues | null): Enrichment
}

export function planEnrichment(pipe: Pipe): EnrichmentPlan {
  const wanted = dimensions.flatMap(([field, dimension]) => {
    const key = pipe[field]?.trim()
    return key ? [{ key, dimension }] : []
  })
  const timestampOnly = pipe.pipe_add_ingest_ts && !pipe.pipe_add_ingest_ip && wanted.length === 0
  if (timestampOnly) return timestampPlan(pipe.pipe_ingest_ts_field)
  return {
    needsClientIp: pipe.pipe_add_ingest_ip || wanted.length > 0,
    needsGeo: wanted.length > 0,
    members: (receivedMs, clientIp, geo) => {
      // A map: if two fields have the same key, the later value is used and the key is written once.
      const values = new Map<string, string | number>()
      if (pipe.pipe_add_ingest_ts) values.set(pipe.pipe_ingest_ts_field, new Date(receivedMs).toISOString())
      if (pipe.pipe_add_ingest_ip && clientIp !== null) values.set(pipe.pipe_ingest_ip_field, clientIp)
      for (const { key, dimension } of wanted) {
        const value = geo?.[dimension]
        if (value !== undefined) values.set(key, value)
      }
      return asEnrichment(values)
    },
  }
}

/** Each pipe's plan, cached by the directory's entry, which is replaced when the pipe changes. */
export function enrichmentPlans(): (entry: DirectoryPipe) => EnrichmentPlan {
  const plans = new WeakMap<DirectoryPipe, EnrichmentPlan>()
  return (entry) => {
    let plan = plans.get(entry)
    if (plan === undefined) {
      plan = planEnrichment(entry.pipe)
      plans.set(entry, plan)
    }
    return plan
  }
}

/** The default pipe, which is on the hot path: only the time changes, so the text is reused within a millisecond. */
function timestampPlan(key: string): EnrichmentPlan {
  const keys = [key]
  const before = `${JSON.stringify(key)}:"`
  let current: Enrichment = { keys, text: '' }
  let currentMs = -1
  return {
    needsClientIp: false,
    needsGeo: false,
    members: (receivedMs) => {
      if (receivedMs !== currentMs) {
        current = { keys, text: `${before}${new Date(receivedMs).toISOString()}"` }
        currentMs = receivedMs
      }
      return current
    },
  }
}

function asEnrichment(values: ReadonlyMap<string, string | number>): Enrichment {
  const members = [...values].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
  return { keys: [...values.keys()], text: members.join(',') }
}
