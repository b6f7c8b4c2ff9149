/** The fields of a pipe that its create and update forms share: enrichment of records, and allowed senders. */
import type { ClientIpMode } from '../../../../contract/client-ip.ts'
import type { GeoFieldKey, Pipe } from '../../../../contract/pipe.ts'
import { formStyles } from '../../ui/controls.tsx'
import type { FieldErrors } from '../../ui/failure.tsx'
import { Check, Choice, TextField } from '../../ui/fields.tsx'
import { Section, Soft } from '../../ui/layout.tsx'

/** Each with the key that is suggested (docs/dev/contract.md#pipes). */
const geoFields: readonly (readonly [GeoFieldKey, string, string])[] = [
  ['pipe_ingest_geo_country_field', 'Country code', 'ingest_country_code'],
  ['pipe_ingest_geo_region_field', 'Region', 'ingest_region'],
  ['pipe_ingest_geo_city_field', 'City', 'ingest_city'],
  ['pipe_ingest_geo_postal_field', 'Postal code', 'ingest_postal_code'],
  ['pipe_ingest_geo_latitude_field', 'Latitude', 'ingest_latitude'],
  ['pipe_ingest_geo_longitude_field', 'Longitude', 'ingest_longitude'],
  ['pipe_ingest_geo_accuracy_radius_field', 'Accuracy radius (km)', 'ingest_geo_accuracy_radius_km'],
]

const clientIpOptions: readonly (readonly [ClientIpMode, string])[] = [
  ['full', 'Whole address'],
  ['truncated', 'Truncated to /24 (IPv4) or /48 (IPv6)'],
  ['none', 'No address is written'],
]

export type PipeFields = Omit<
  Pipe,
  | ('pipe_id' | 'pipe_name' | 'pipe_description' | 'pipe_status' | 'pipe_created_ts' | 'pipe_updated_ts')
  | ('pipe_source' | 'pipe_source_headers' | 'pipe_source_raw')
  | ('pipe_schema' | 'pipe_schema_on_mismatch' | 'pipe_schema_tag_field')
>

/** The contract's `pipeDefaults` of the same fields; a test compares both (that module brings its schemas along). */
export const senderDefaults: PipeFields = {
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
}
export const pipeFieldNames = Object.keys(senderDefaults) as (keyof PipeFields)[]

export function EnrichmentFields({
  fields,
  errors,
  onChange,
}: {
  fields: PipeFields
  errors: FieldErrors
  onChange: (next: Partial<PipeFields>) => void
}) {
  return (
    <>
      <Section title="Who can send">
        <Check
          label="Require an API key"
          hint="If not required, only browsers on an allowed origin can send."
          checked={fields.pipe_api_key_required}
          onValue={(pipe_api_key_required) => onChange({ pipe_api_key_required })}
          error={errors.pipe_api_key_required}
        />
        <Check
          label="Allow browsers of any origin"
          hint="Otherwise, only browsers on the allowed origins."
          checked={fields.pipe_allow_any_browser_origin}
          onValue={(pipe_allow_any_browser_origin) => onChange({ pipe_allow_any_browser_origin })}
          error={errors.pipe_allow_any_browser_origin}
        />
      </Section>
      <Section title="Retention">
        <TextField
          label="Keep messages for at most (hours)"
          optional
          inputMode="numeric"
          hint="Older messages are removed, delivered or not; lanes count those that were not as dropped. Empty: the limits of the service. Not in a cluster."
          value={String(fields.pipe_retention_hours ?? '')}
          onValue={(text) => onChange({ pipe_retention_hours: hoursOf(text) })}
          error={errors.pipe_retention_hours}
        />
      </Section>
      <Section title="Added to each record">
        <KeyedSwitch
          label="Time of arrival"
          isOn={fields.pipe_add_ingest_ts}
          name={fields.pipe_ingest_ts_field}
          error={errors.pipe_ingest_ts_field ?? errors.pipe_add_ingest_ts}
          onSwitch={(pipe_add_ingest_ts) => onChange({ pipe_add_ingest_ts })}
          onName={(pipe_ingest_ts_field) => onChange({ pipe_ingest_ts_field })}
        />
        <KeyedSwitch
          label="IP address of the sender"
          isOn={fields.pipe_add_ingest_ip}
          name={fields.pipe_ingest_ip_field}
          error={errors.pipe_ingest_ip_field ?? errors.pipe_add_ingest_ip}
          onSwitch={(pipe_add_ingest_ip) => onChange({ pipe_add_ingest_ip })}
          onName={(pipe_ingest_ip_field) => onChange({ pipe_ingest_ip_field })}
        />
        <Choice
          label="Client addresses"
          hint="Locations are looked up with the whole address, in memory."
          value={fields.pipe_client_ip}
          options={clientIpOptions}
          onValue={(pipe_client_ip) => onChange({ pipe_client_ip })}
          error={errors.pipe_client_ip}
        />
        {geoFields.map(([key, label, suggested]) => (
          <KeyedSwitch
            key={key}
            label={label}
            isOn={fields[key] !== null}
            name={fields[key] ?? suggested}
            error={errors[key]}
            onSwitch={(isOn) => onChange({ [key]: isOn ? suggested : null })}
            onName={(name) => onChange({ [key]: name })}
          />
        ))}
        <Soft>
          Locations come from the geolocation file of the service. Without that file these keys are not added.
        </Soft>
      </Section>
    </>
  )
}

/** Null for an empty text. */
function hoursOf(text: string): number | null {
  const digits = text.replaceAll(/\D/g, '').slice(0, 6)
  return digits === '' ? null : Number(digits)
}

function KeyedSwitch({
  label,
  isOn,
  name,
  error,
  onSwitch,
  onName,
}: {
  label: string
  isOn: boolean
  name: string
  error: string | undefined
  onSwitch: (isOn: boolean) => void
  onName: (name: string) => void
}) {
  return (
    <div className={formStyles.pair}>
      <Check label={label} checked={isOn} onValue={onSwitch} error={isOn ? undefined : error} />
      {isOn ? <TextField mono label={`Key (${label})`} value={name} onValue={onName} error={error} /> : null}
    </div>
  )
}
