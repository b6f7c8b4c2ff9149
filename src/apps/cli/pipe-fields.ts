/** A pipe's fields as flags, for `pipes create` and `pipes update`: one table, so that both take the same. */
import type { Command } from 'commander'
import type { PipeUpdate } from '../../contract/pipe.ts'
import { exitCodes, Failure } from '../client/failure.ts'

export interface PipeFieldOptions {
  description?: string
  ingestTs?: boolean
  tsField?: string
  ingestIp?: boolean
  ipField?: string
  geo?: string[]
  keyRequired?: boolean
  anyOrigin?: boolean
}

/** The geo dimensions: what `--geo` calls them, the field, and the key that is written unless another is given. */
const geoDimensions = {
  country: ['pipe_ingest_geo_country_field', 'ingest_country_code'],
  region: ['pipe_ingest_geo_region_field', 'ingest_region'],
  city: ['pipe_ingest_geo_city_field', 'ingest_city'],
  postal: ['pipe_ingest_geo_postal_field', 'ingest_postal_code'],
  latitude: ['pipe_ingest_geo_latitude_field', 'ingest_latitude'],
  longitude: ['pipe_ingest_geo_longitude_field', 'ingest_longitude'],
  accuracy: ['pipe_ingest_geo_accuracy_radius_field', 'ingest_geo_accuracy_radius_km'],
} as const
const isDimension = (name: string): name is keyof typeof geoDimensions => Object.hasOwn(geoDimensions, name)

export function addPipeFieldOptions(command: Command): void {
  command
    .option('--description <text>', 'what the pipe is for (at most 500 characters)')
    .option('--ingest-ts', 'write the time of arrival into each record')
    .option('--no-ingest-ts', 'do not')
    .option('--ts-field <key>', 'the key it is written to (default ingest_ts)')
    .option('--ingest-ip', "write the client's IP address into each record")
    .option('--no-ingest-ip', 'do not')
    .option('--ip-field <key>', 'the key it is written to (default ingest_ip)')
    .option(
      '--geo <dimension[=key]>',
      `write a geolocation field, may be repeated: ${Object.keys(geoDimensions).join(', ')}; \`all\`; \`none\`; dimension= turns one off`,
      (value: string, earlier: string[] = []) => [...earlier, ...value.split(',')],
    )
    .option('--key-required', 'ingest needs an API key')
    .option('--no-key-required', 'ingest needs no key, but an allowed Origin')
    .option('--any-origin', 'take browser requests from every origin')
    .option('--no-any-origin', 'only from the allowed origins')
}

/** The fields that were given. Throws Failure (usage) for an unknown geo dimension. */
export function pipeFields(options: PipeFieldOptions): PipeUpdate {
  const fields: PipeUpdate = {}
  if (options.description !== undefined) fields.pipe_description = options.description
  if (options.ingestTs !== undefined) fields.pipe_add_ingest_ts = options.ingestTs
  if (options.tsField !== undefined) fields.pipe_ingest_ts_field = options.tsField
  if (options.ingestIp !== undefined) fields.pipe_add_ingest_ip = options.ingestIp
  if (options.ipField !== undefined) fields.pipe_ingest_ip_field = options.ipField
  if (options.keyRequired !== undefined) fields.pipe_api_key_required = options.keyRequired
  if (options.anyOrigin !== undefined) fields.pipe_allow_any_browser_origin = options.anyOrigin
  for (const given of options.geo ?? []) addGeo(fields, given)
  return fields
}

function addGeo(fields: PipeUpdate, given: string): void {
  if (given === 'all' || given === 'none') {
    for (const [field, key] of Object.values(geoDimensions)) fields[field] = given === 'all' ? key : null
    return
  }
  const [name = '', key] = given.split('=', 2)
  if (!isDimension(name)) {
    throw new Failure(
      exitCodes.usage,
      `--geo ${JSON.stringify(given)}: there is no such dimension`,
      `use ${Object.keys(geoDimensions).join(', ')}, all or none, e.g. --geo country --geo city=town`,
    )
  }
  const [field, usual] = geoDimensions[name]
  fields[field] = key === '' ? null : (key ?? usual)
}
