/** Destinations: attached, shown, changed, tried (docs/dev/contract.md#destinations). */
import { randomUUID } from 'node:crypto'
import { defaultConcurrency, type GivenDeliverySettings } from '../../contract/delivery-settings.ts'
import {
  type ColumnMapping,
  type Destination,
  type DestinationType,
  defaultMaxRetrySeconds,
  type LaneStatus,
  resolveConfig,
} from '../../contract/destination.ts'
import {
  DestinationStatusBody,
  DestinationTypeOnly,
  DestinationUpdate,
  destinationCreateSchema,
  NewDestinationFields,
} from '../../contract/destination-requests.ts'
import { mapSecrets, mergedConfig, redactedConfig } from '../../contract/destination-secrets.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import { ApiError, validationError } from '../../contract/errors.ts'
import { isObject } from '../../contract/is-object.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { isSameServer, misdirectedSecrets } from '../../contract/secret-server.ts'
import { shownTransform } from '../../contract/transform.ts'
import {
  type FieldErrors,
  requireObject,
  shapeFaults,
  throwIfErrors,
  validate,
} from '../../contract/validate.ts'
import type { DestinationTrials, LaneViews } from '../../delivery/delivery.ts'
import { descriptorOf } from '../../destinations/descriptors.ts'
import type { DestinationSpec } from '../../destinations/driver.ts'
import type { DestinationChange, NewDestination, StoredDestination } from '../../metadata/destinations.ts'
import type { ManagementDeps, PublishChange } from './deps.ts'
import { givenConfig, storedColumn } from './destination-config.ts'
import { type CheckTarget, columnErrors, configErrors } from './destination-rules.ts'
import { requireDestination, requirePipe, resourceId } from './lookup.ts'
import {
  type FilterFault,
  filterFaultFor,
  givenTransform,
  requireReadableSalt,
  unreadableText,
} from './transform-rules.ts'
import { checkedOnSave } from './transform-trials.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'laneViews' | 'trials' | 'headSeq' | 'checkTarget'> & {
  publishChange: PublishChange
}

export function destinationUseCases({
  metadata,
  laneViews,
  trials,
  headSeq,
  checkTarget,
  publishChange,
}: Deps) {
  const shown = async (stored: StoredDestination) => {
    const [destination] = await shownDestinations(laneViews, [stored])
    return { destination }
  }
  /** Before anything is locked: it takes seconds, perhaps. */
  const transformChecked = async (
    workspaceId: string,
    pipeId: string,
    destinationId: string,
    body: Record<string, unknown>,
    filterFault: FilterFault | null,
  ) => {
    if (!isObject(body.transform)) return undefined
    const current = await requireDestination(metadata, workspaceId, pipeId, destinationId)
    const { transform } = destinationChange(current, body, checkTarget, filterFault)
    return await checkedOnSave(trials, current.pipe_id, current.transform, transform)
  }
  return {
    async createDestination(
      workspaceId: string,
      pipeId: string,
      body: unknown,
      checksTransform?: string | null,
    ) {
      // "Now" is when the request came: what is accepted while it is worked on is delivered.
      const head = await headSeq()
      const pipe = await requirePipe(metadata, workspaceId, pipeId)
      const { startFrom, ...destination } = newDestination(
        requireObject(body),
        checkTarget,
        await filterFaultFor(body),
      )
      const isChecked = requireFlag('check_transform', checksTransform, true)
      const transform_check = isChecked
        ? await checkedOnSave(trials, pipe.pipe_id, null, destination.transform)
        : undefined
      const made = await metadata.destinations.create(workspaceId, pipe.pipe_id, {
        ...destination,
        startAfterSeq: startFrom === 'earliest' ? 0 : head,
      })
      await publishChange(pipe.pipe_id)
      const { destination_id, destination_name } = made
      return { destination_id, destination_name, ...(transform_check && { transform_check }) }
    },

    /** A whole destination, or `{destination_id, …changes}`: a stored one with its secrets, as a PATCH would make it. */
    async testDestination(workspaceId: string, pipeId: string, body: unknown, wantsSample?: string | null) {
      const pipe = await requirePipe(metadata, workspaceId, pipeId)
      const { destination_id, ...given } = requireObject(body)
      const sample = requireFlag('sample', wantsSample)
      const filterFault = await filterFaultFor(body)
      const destination =
        destination_id === undefined
          ? {
              ...newDestination(given, checkTarget, filterFault),
              destination_id: randomUUID(),
              pinnedKey: null,
            }
          : changed(
              await requireDestination(metadata, workspaceId, pipe.pipe_id, String(destination_id)),
              given,
              checkTarget,
              filterFault,
            )
      const checks = await trials.test(specOf(pipe, destination, destination.pinnedKey), { sample })
      const columns = checks.find((check) => check.tableColumns !== undefined)?.tableColumns
      return {
        ok: checks.every((check) => check.ok),
        checks: checks.map(({ name, ok, message }) => ({ name, ok, message })),
        ...(columns === undefined ? {} : { table_columns: columns }),
      }
    },

    async getDestination(workspaceId: string, pipeId: string, destinationId: string) {
      return shown(await requireDestination(metadata, workspaceId, pipeId, destinationId))
    },

    async updateDestination(
      workspaceId: string,
      pipeId: string,
      destinationId: string,
      body: unknown,
      checksTransform?: string | null,
    ) {
      const isChecked = requireFlag('check_transform', checksTransform, true)
      const filterFault = await filterFaultFor(body)
      const transform_check = isChecked
        ? await transformChecked(workspaceId, pipeId, destinationId, requireObject(body), filterFault)
        : undefined
      const updated = await metadata.destinations.update(
        workspaceId,
        resourceId(pipeId, 'destination_not_found'),
        resourceId(destinationId, 'destination_not_found'),
        (current) => destinationChange(current, requireObject(body), checkTarget, filterFault),
      )
      if (updated === null) throw new ApiError('destination_not_found')
      await publishChange(updated.pipe_id)
      return { ...(await shown(updated)), ...(transform_check && { transform_check }) }
    },

    async setDestinationStatus(workspaceId: string, pipeId: string, destinationId: string, body: unknown) {
      const { pipe_id, destination_id } = await requireDestination(
        metadata,
        workspaceId,
        pipeId,
        destinationId,
      )
      const { destination_status } = validate(DestinationStatusBody, requireObject(body))
      const change = { destination_status }
      const updated = await metadata.destinations.update(workspaceId, pipe_id, destination_id, change)
      if (updated === null) throw new ApiError('destination_not_found')
      await publishChange(pipe_id)
      return { destination_status: updated.destination_status }
    },

    async resetTlsPin(workspaceId: string, pipeId: string, destinationId: string) {
      let isPinned = false
      const updated = await metadata.destinations.update(
        workspaceId,
        resourceId(pipeId, 'destination_not_found'),
        resourceId(destinationId, 'destination_not_found'),
        ({ tls_pin }) => {
          isPinned = tls_pin !== null
          return isPinned ? { tls_pin: null } : {}
        },
      )
      if (updated === null) throw new ApiError('destination_not_found')
      // The lane drops its connection and tries at once what waits.
      if (isPinned) await publishChange(updated.pipe_id)
      return { reset: isPinned, status: isPinned ? 'reset' : 'no_pin' }
    },

    async deleteDestination(workspaceId: string, pipeId: string, destinationId: string): Promise<void> {
      const found = await requireDestination(metadata, workspaceId, pipeId, destinationId)
      const { pipe_id, destination_id } = found
      const pipe = await requirePipe(metadata, workspaceId, pipe_id)
      if (!(await metadata.destinations.delete(workspaceId, pipe_id, destination_id)))
        throw new ApiError('destination_not_found')
      await publishChange(pipe_id)
      forgetDeleted(trials, pipe, [found])
    },
  }
}

/**
 * Removes the state that deleted destinations left in databases, when nothing delivers to them any more. The request
 * does not wait for it, since the database may be gone itself.
 */
export function forgetDeleted(
  trials: Pick<DestinationTrials, 'forget'>,
  pipe: Pipe,
  deleted: readonly StoredDestination[],
): void {
  for (const destination of deleted) {
    const spec = specOf(pipe, destination, destination.tls_pin?.sha256 ?? null)
    if (!descriptorOf(spec.type).isExactlyOnce(spec.config)) continue
    // It rejects while delivery is being restarted: the row stays, and nothing reads it again.
    trials.forget(spec).catch(() => {})
  }
}

/** The facts that a driver needs about a destination that has no lane. */
export function specOf(
  pipe: Pipe,
  destination: Pick<
    StoredDestination,
    'destination_id' | 'destination_type' | 'destination_config' | 'columns'
  > & { transform?: StoredDestination['transform'] },
  pinnedKey: string | null,
): DestinationSpec {
  return {
    destinationId: destination.destination_id,
    pipeId: pipe.pipe_id,
    pipeName: pipe.pipe_name,
    ...resolveConfig(destination.destination_type, destination.destination_config),
    columns: destination.columns,
    transform: destination.transform ?? null,
    timestampField: pipe.pipe_ingest_ts_field,
    pinnedKey,
  }
}

/** As responses show them: secrets redacted, `tls_pin` on databases alone, `columns` there and where there are any, each with its lane. */
export async function shownDestinations(
  laneViews: Pick<LaneViews, 'lanes'>,
  stored: readonly StoredDestination[],
): Promise<Destination[]> {
  const lanes = await laneViews.lanes(stored.map((destination) => destination.destination_id))
  return stored.map(
    ({
      columns,
      concurrency,
      tls_pin,
      destination_config,
      transform,
      unreadable_secrets: _,
      ...destination
    }) => {
      const { isDatabase, hasConcurrency } = wordsOf(destination.destination_type)
      return {
        ...destination,
        destination_config: redactedConfig(destination.destination_type, destination_config),
        ...(isDatabase || columns.length > 0 ? { columns } : {}),
        ...(isDatabase ? { tls_pin } : {}),
        ...(hasConcurrency ? { concurrency: concurrency ?? defaultConcurrency } : {}),
        transform: shownTransform(transform),
        lane: lanes[destination.destination_id] ?? initialLaneStatus(destination.destination_status),
      }
    },
  )
}

/** The checked body of a create. Throws `validation_error` with the body's own paths. */
export function newDestination(
  body: Record<string, unknown>,
  checkTarget: CheckTarget,
  filterFault: FilterFault | null = null,
): Omit<NewDestination, 'startAfterSeq'> & { startFrom: 'now' | 'earliest' } {
  const type = typeOf(body)
  const config = isObject(body.destination_config)
    ? givenConfig(type, body.destination_config)
    : body.destination_config
  const schema = destinationCreateSchema(type)
  const candidate = { ...body, ...(config === undefined ? {} : { destination_config: config }) }
  const errors = shapeFaults(schema, candidate)
  rejectFieldsOfOtherTypes(type, body, errors)
  if (isObject(config)) addMissing(errors, configErrors(type, config, checkTarget))
  throwIfErrors(errors)
  const given = validate(NewDestinationFields, candidate)
  const transform = givenTransform(body, null, filterFault) ?? null
  const columns = (given.columns ?? []).map(storedColumn)
  throwIfErrors(columnErrors(type, columns, isObject(config) ? config : {}))
  return {
    destination_type: type,
    destination_max_retry_seconds: given.destination_max_retry_seconds ?? defaultMaxRetrySeconds,
    destination_config: { ...given.destination_config },
    columns,
    transform,
    ...deliverySettings(given),
    startFrom: given.start_from ?? 'now',
  }
}

/** The checked body of a PATCH against what is stored (docs/dev/contract.md#destinations). */
function destinationChange(
  current: StoredDestination,
  body: Record<string, unknown>,
  checkTarget: CheckTarget,
  filterFault: FilterFault | null = null,
): DestinationChange {
  const type = current.destination_type
  const errors = shapeFaults(DestinationUpdate, body)
  if (Object.hasOwn(body, 'destination_type')) errors.destination_type = 'destination_type cannot be changed.'
  rejectFieldsOfOtherTypes(type, body, errors)
  const change = isObject(body.destination_config) ? body.destination_config : undefined
  const config = change && mergedConfig(type, current.destination_config, change)
  if (config) throwIfErrors(stillUnreadable(current, config))
  if (config) addMissing(errors, configErrors(type, config, checkTarget, current.destination_config))
  throwIfErrors(errors)
  if (change && config)
    for (const [place, message] of misdirectedSecrets(type, current.destination_config, change, config))
      errors[`destination_config.${place}`] = message
  throwIfErrors(errors)
  const given = validate(DestinationUpdate, body)
  const transform = givenTransform(body, current.transform, filterFault)
  const columns: ColumnMapping[] | undefined = given.columns?.map(storedColumn)
  // Mappings are looked at again when the dialect may have changed under them.
  if (columns || config)
    throwIfErrors(columnErrors(type, columns ?? current.columns, config ?? current.destination_config))
  const { destination_max_retry_seconds } = given
  return {
    ...(destination_max_retry_seconds === undefined ? {} : { destination_max_retry_seconds }),
    ...(config ? { destination_config: config } : {}),
    ...(columns ? { columns } : {}),
    ...(transform === undefined ? {} : { transform }),
    ...deliverySettings(given),
  }
}

/** The settings that were sent; null resets one. */
function deliverySettings(given: GivenDeliverySettings): GivenDeliverySettings {
  const { destination_name, flush, rate, concurrency, on_permanent_error } = given
  return { destination_name, flush, rate, concurrency, on_permanent_error }
}

/** A stored destination as a PATCH with this body would make it; nothing is stored. */
export function changed(
  current: StoredDestination,
  body: Record<string, unknown>,
  checkTarget: CheckTarget,
  filterFault: FilterFault | null = null,
): Pick<
  StoredDestination,
  'destination_id' | 'destination_type' | 'destination_config' | 'columns' | 'transform'
> & {
  pinnedKey: string | null
} {
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

/** A secret that cannot be opened cannot be kept: it must be sent again, or removed. */
function stillUnreadable(current: StoredDestination, config: Record<string, unknown>): FieldErrors {
  const errors: FieldErrors = {}
  mapSecrets(current.destination_type, config, (value, place) => {
    if (value === '' && current.unreadable_secrets?.includes(place))
      errors[`destination_config.${place}`] = unreadableText
    return value
  })
  return errors
}

function requireFlag(name: string, value: string | null | undefined, otherwise = false): boolean {
  if (value === undefined || value === null) return otherwise
  if (value === 'true' || value === 'false') return value === 'true'
  throw validationError({ [name]: 'must be true or false' })
}

function typeOf(body: Record<string, unknown>): DestinationType {
  return validate(DestinationTypeOnly, body).destination_type
}

function rejectFieldsOfOtherTypes(
  type: DestinationType,
  body: Record<string, unknown>,
  errors: FieldErrors,
): void {
  if (!wordsOf(type).hasColumns && Object.hasOwn(body, 'columns'))
    errors.columns = 'Only a destination_database and a destination_object_store have columns.'
  if (!wordsOf(type).hasConcurrency && Object.hasOwn(body, 'concurrency'))
    errors.concurrency = 'Only a destination_http_endpoint and a destination_nats have concurrency.'
  if (type === 'destination_pull' && body.transform !== undefined && body.transform !== null)
    errors.transform =
      'A destination_pull hands out messages as they were received, to be acknowledged whole: it takes no transform.'
  if (type === 'destination_pull' && body.on_permanent_error === 'park')
    errors.on_permanent_error = 'A destination_pull refuses nothing: its on_permanent_error is block.'
}

function addMissing(errors: FieldErrors, more: FieldErrors): void {
  for (const [path, message] of Object.entries(more)) errors[path] ??= message
}

/** A destination whose lane delivery has not opened yet. */
export function initialLaneStatus(status: StoredDestination['destination_status']): LaneStatus {
  return {
    lane_state: status === 'blocked' ? 'blocked' : 'idle',
    cursor_seq: 0,
    head_seq: 0,
    pending_messages: 0,
    pending_bytes: 0,
    oldest_pending_age_seconds: 0,
    blocking_msg_id: null,
    attempts: 0,
    first_failed_ts: null,
    next_attempt_ts: null,
    last_error: null,
    last_delivered_ts: null,
    delivered_records: 0,
    filtered_records: 0,
    skipped_messages: 0,
    dropped_messages: 0,
    parked_records: 0,
    parked_dropped_records: 0,
  }
}
