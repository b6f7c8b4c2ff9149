/**
 * From the body of a request to a destination: a new one, a change of a stored one, or one that is only tried. Throws
 * `validation_error` with the paths of the body.
 */
import { randomUUID } from 'node:crypto'
import { wholeColumn } from '../../contract/column-rules.ts'
import type { GivenDeliverySettings } from '../../contract/delivery-settings.ts'
import {
  type ColumnMapping,
  type DestinationType,
  defaultMaxRetrySeconds,
} from '../../contract/destination.ts'
import {
  type DestinationCreate,
  type DestinationUpdate,
  fieldsOfOtherTypes,
} from '../../contract/destination-requests.ts'
import { mapSecrets, mergedConfig } from '../../contract/destination-secrets.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import { isSameServer, misdirectedSecrets } from '../../contract/secret-server.ts'
import type { Transform } from '../../contract/transform.ts'
import { type FieldErrors, throwIfErrors } from '../../contract/validate.ts'
import type { DestinationChange, NewDestination, StoredDestination } from '../../metadata/destinations.ts'
import { type CheckTarget, columnErrors, configErrors } from './destination-rules.ts'
import { type FilterFault, givenTransform, requireReadableSalt, unreadableText } from './transform-rules.ts'

/**
 * Makes a new destination from a body that matches its schema. Throws `validation_error` with the paths of the body.
 */
export function newDestination(
  given: DestinationCreate,
  checkTarget: CheckTarget,
  filterFault: FilterFault | null,
): Omit<NewDestination, 'startAfterSeq'> & { transform: Transform | null; startFrom: 'now' | 'earliest' } {
  const { destination_type: type, destination_config: config = {} } = given
  throwIfErrors({ ...pullErrors(type, given), ...configErrors(type, config, checkTarget) })
  const transform = givenTransform(given, null, filterFault) ?? null
  const columns = (given.columns ?? []).map(wholeColumn)
  throwIfErrors(columnErrors(type, columns, config))
  return {
    destination_type: type,
    destination_max_retry_seconds: given.destination_max_retry_seconds ?? defaultMaxRetrySeconds,
    destination_config: { ...config },
    columns,
    transform,
    ...deliverySettings(given),
    startFrom: given.start_from ?? 'now',
  }
}

/** Applies a PATCH that matches its schema to the stored destination (docs/dev/contract.md#destinations). */
export function destinationChange(
  current: StoredDestination,
  body: DestinationUpdate,
  checkTarget: CheckTarget,
  filterFault: FilterFault | null,
): DestinationChange {
  const type = current.destination_type
  const errors: FieldErrors = pullErrors(type, body)
  for (const [key, sentence] of Object.entries(fieldsOfOtherTypes(type)))
    if (Object.hasOwn(body, key)) errors[key] = sentence
  const config = changedConfig(current, body.destination_config, checkTarget, errors)
  const transform = givenTransform(body, current.transform, filterFault)
  const columns: ColumnMapping[] | undefined = body.columns?.map(wholeColumn)
  // The mappings are checked again, because the dialect may have changed with the config.
  if (columns || config)
    throwIfErrors(columnErrors(type, columns ?? current.columns, config ?? current.destination_config))
  const { destination_max_retry_seconds } = body
  return {
    ...(destination_max_retry_seconds === undefined ? {} : { destination_max_retry_seconds }),
    ...(config ? { destination_config: config } : {}),
    ...(columns ? { columns } : {}),
    ...(transform === undefined ? {} : { transform }),
    ...deliverySettings(body),
  }
}

/** Throws `errors` together with the errors of the config. */
function changedConfig(
  current: StoredDestination,
  change: DestinationUpdate['destination_config'],
  checkTarget: CheckTarget,
  errors: FieldErrors,
): Record<string, unknown> | undefined {
  const { destination_type: type, destination_config: before } = current
  const config = change && mergedConfig(type, before, change)
  if (!change || !config) {
    throwIfErrors(errors)
    return undefined
  }
  throwIfErrors(stillUnreadable(current, config))
  throwIfErrors({ ...errors, ...configErrors(type, config, checkTarget, before) })
  const misdirected = misdirectedSecrets(type, before, change, config)
  throwIfErrors(Object.fromEntries(misdirected.map(([key, text]) => [`destination_config.${key}`, text])))
  return config
}

/** The settings that were sent. Null resets a setting. */
function deliverySettings(given: GivenDeliverySettings): GivenDeliverySettings {
  const { destination_name, flush, rate, concurrency, on_permanent_error } = given
  return { destination_name, flush, rate, concurrency, on_permanent_error }
}

/** A destination to which a connection is made without a lane. It can be stored or not. */
export type TriedDestination = Pick<
  StoredDestination,
  'destination_id' | 'destination_type' | 'destination_config' | 'columns' | 'transform'
> & { pinnedKey: string | null }

/** A destination that is not stored gets an id for the duration of the test. */
export function unstored(
  destination: Omit<TriedDestination, 'destination_id' | 'pinnedKey'>,
): TriedDestination {
  return { ...destination, destination_id: randomUUID(), pinnedKey: null }
}

/** Returns a stored destination as a PATCH with this body would make it. Nothing is stored. */
export function changed(
  current: StoredDestination,
  body: DestinationUpdate,
  checkTarget: CheckTarget,
  filterFault: FilterFault | null,
): TriedDestination {
  const { destination_config, columns, transform } = destinationChange(
    current,
    body,
    checkTarget,
    filterFault,
  )
  throwIfErrors(stillUnreadable(current, destination_config ?? current.destination_config))
  const used = transform === undefined ? current.transform : transform
  requireReadableSalt(used)
  const { destination_id, destination_type, destination_config: before } = current
  const after = destination_config ?? before
  return {
    destination_id,
    destination_type,
    destination_config: after,
    columns: columns ?? current.columns,
    transform: used,
    pinnedKey: isSameServer(destination_type, before, after) ? (current.tls_pin?.sha256 ?? null) : null,
  }
}

/** A secret that cannot be decrypted cannot be kept: it must be sent again, or removed. */
function stillUnreadable(current: StoredDestination, config: Record<string, unknown>): FieldErrors {
  const errors: FieldErrors = {}
  mapSecrets(current.destination_type, config, (value, place) => {
    if (value === '' && current.unreadable_secrets?.includes(place))
      errors[`destination_config.${place}`] = unreadableText
    return value
  })
  return errors
}

/** Rejects a transform and parking for a pull destination, which delivers nothing itself and so rejects no records. */
function pullErrors(
  type: DestinationType,
  given: Pick<DestinationUpdate, 'transform' | 'on_permanent_error'>,
): FieldErrors {
  const errors: FieldErrors = {}
  if (!wordsOf(type).isPulled) return errors
  if (given.transform !== undefined && given.transform !== null)
    errors.transform = `A ${type} has no transform: its messages are acknowledged as a whole, as they were received.`
  if (given.on_permanent_error === 'park')
    errors.on_permanent_error = `A ${type} rejects no records: its on_permanent_error must be block.`
  return errors
}
