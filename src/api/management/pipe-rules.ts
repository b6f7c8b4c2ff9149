/**
 * The rules for the fields of a pipe beyond their shape (docs/dev/contract.md#pipes,
 * docs/dev/contract.md#geolocation). The functions are pure.
 */
import { geoFieldKeys, type Pipe } from '../../contract/pipe.ts'
import type { FieldErrors } from '../../contract/validate.ts'

type EnrichmentFields = Pick<
  Pipe,
  | 'pipe_add_ingest_ts'
  | 'pipe_add_ingest_ip'
  | 'pipe_ingest_ts_field'
  | 'pipe_ingest_ip_field'
  | (typeof geoFieldKeys)[number]
>

/**
 * Two enrichments with the same key would overwrite each other. The error names the second one. Enrichments that are
 * switched off do not count.
 */
export function collidingTargets(pipe: EnrichmentFields): FieldErrors {
  const targets: [field: string, key: string | null][] = [
    ['pipe_ingest_ts_field', pipe.pipe_add_ingest_ts ? pipe.pipe_ingest_ts_field : null],
    ['pipe_ingest_ip_field', pipe.pipe_add_ingest_ip ? pipe.pipe_ingest_ip_field : null],
    ...geoFieldKeys.map((field): [string, string | null] => [field, pipe[field]]),
  ]
  const errors: FieldErrors = {}
  const taken = new Map<string, string>()
  for (const [field, key] of targets) {
    if (key === null) continue
    const other = taken.get(key)
    if (other === undefined) taken.set(key, field)
    else errors[field] = `must differ from ${other}: both would be written to the key "${key}"`
  }
  return errors
}
