/**
 * The rules for a destination beyond its shape: rules of its type's descriptor, and rules of its column mappings.
 * Errors carry the paths of the request body (`destination_config.url`, `columns.0.column_name`). Pure, except for
 * `checkTarget`, which asks the egress policy.
 */
import {
  type ColumnMapping,
  configSchema,
  type DestinationType,
  redacted,
  resolveConfig,
} from '../../contract/destination.ts'
import { mapSecrets } from '../../contract/destination-secrets.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { type FieldErrors, shapeFaults } from '../../contract/validate.ts'
import { descriptorOf } from '../../destinations/descriptors.ts'

type Config = Record<string, unknown>
/** Null: may be dialled. Otherwise the key that names the target, and why the egress policy rejects it. */
export type CheckTarget = (type: DestinationType, config: Config) => [key: string, message: string] | null

/** Everything wrong with a whole config: a new one, or one that PATCH made of what is `stored`. */
export function configErrors(
  type: DestinationType,
  config: Config,
  checkTarget: CheckTarget,
  stored?: Config,
): FieldErrors {
  const shape = shapeFaults(configSchema(type), config, 'destination_config')
  if (Object.keys(shape).length > 0) return shape
  const tooLarge = sizeFault(config, stored)
  if (tooLarge !== null) return { destination_config: tooLarge }
  const errors: FieldErrors = {}
  const wrong = (key: string, message: string) => {
    errors[`destination_config.${key}`] ??= message
  }
  mapSecrets(type, config, (value, place, kind) => {
    if (value === redacted || (kind === 'url' && value.includes(redacted)))
      wrong(place, `must contain the secret itself, not ${redacted}`)
    return value
  })
  const before = stored && resolveConfig(type, stored).config
  for (const [key, message] of descriptorOf(type).rules(resolveConfig(type, config).config, before))
    wrong(key, message)
  if (Object.keys(errors).length > 0) return errors
  const fault = checkTarget(type, config)
  if (fault !== null) wrong(...fault)
  return errors
}

/** One that an earlier version took may stay as large as it is. */
function sizeFault(config: Config, stored: Config = {}): string | null {
  const { storedConfigBytes: most } = resourceLimits
  const bytes = jsonBytes(config)
  if (bytes <= most || bytes <= jsonBytes(stored)) return null
  return `must have at most ${most} bytes as JSON, not ${bytes}`
}

function jsonBytes(config: Config): number {
  return Buffer.byteLength(JSON.stringify(config))
}

/** Everything wrong with a destination's mappings; their shape and the config are right already. */
export function columnErrors(
  type: DestinationType,
  columns: readonly ColumnMapping[],
  config: Config,
): FieldErrors {
  const faults = descriptorOf(type).columnFaults?.(columns, resolveConfig(type, config).config) ?? []
  return Object.fromEntries(faults.map(([path, message]) => [`columns${path}`, message]))
}
