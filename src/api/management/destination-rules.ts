/**
 * The rules for a destination beyond its shape: those of its type's descriptor and those of its column mappings.
 * Errors carry the paths of the request body (`destination_config.url`, `columns.0.column_name`). The functions are
 * pure, except for `checkTarget`, which asks the egress policy.
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
import { descriptorOf } from '../../destinations/drivers.ts'

type Config = Record<string, unknown>
/** Null: the target is allowed. Otherwise the key that names the target, and the reason of the egress policy. */
export type CheckTarget = (type: DestinationType, config: Config) => [key: string, message: string] | null

/** Returns all faults of a complete config: a new one, or one that a PATCH made of `stored`. */
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

/** A config that an earlier version accepted can keep its size. */
function sizeFault(config: Config, stored: Config = {}): string | null {
  const { storedConfigBytes: most } = resourceLimits
  const bytes = jsonBytes(config)
  if (bytes <= most || bytes <= jsonBytes(stored)) return null
  return `must have at most ${most} bytes as JSON, not ${bytes}`
}

function jsonBytes(config: Config): number {
  return Buffer.byteLength(JSON.stringify(config))
}

/** Returns all faults of a destination's mappings. Their shape and the config are already valid. */
export function columnErrors(
  type: DestinationType,
  columns: readonly ColumnMapping[],
  config: Config,
): FieldErrors {
  const faults = descriptorOf(type).columnFaults?.(columns, resolveConfig(type, config).config) ?? []
  return Object.fromEntries(faults.map(([path, message]) => [`columns${path}`, message]))
}
