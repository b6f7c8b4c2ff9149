/** Destinations: attached, shown, changed, tried (spec "Destination", rules 1 and 2; contract "Management bodies"). */
import { randomUUID } from 'node:crypto'
import {
  type ColumnMapping,
  type Destination,
  type DestinationType,
  defaultMaxRetrySeconds,
  type Lane,
} from '../contract/destination.ts'
import {
  DestinationStatusBody,
  DestinationTypeOnly,
  DestinationUpdate,
  destinationCreateSchemas,
} from '../contract/destination-requests.ts'
import { ApiError } from '../contract/errors.ts'
import {
  explain,
  type FieldErrors,
  isObject,
  refuseAny,
  requireObject,
  validate,
} from '../contract/validate.ts'
import type { Delivery } from '../delivery/delivery.ts'
import type { DestinationChange, NewDestination, StoredDestination } from '../metadata/store.ts'
import type { ManagementDeps } from './deps.ts'
import { givenConfig, mergedConfig, redactedConfig, storedColumn } from './destination-config.ts'
import { type CheckTarget, columnErrors, configErrors } from './destination-rules.ts'
import { requireDestination, requirePipe } from './lookup.ts'
import { oneAtATime } from './one-at-a-time.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'delivery' | 'headSeq' | 'checkTarget'> & {
  announce: (pipeId: string) => Promise<void>
}

export function destinationUseCases({ metadata, delivery, headSeq, checkTarget, announce }: Deps) {
  const changes = oneAtATime()
  const shown = async (stored: StoredDestination) => {
    const [destination] = await shownDestinations(delivery, [stored])
    return { destination }
  }
  return {
    async createDestination(workspaceId: string, pipeId: string, body: unknown) {
      // "Now" is when the request came: what is accepted while it is worked on is delivered.
      const head = headSeq()
      const pipe = await requirePipe(metadata, workspaceId, pipeId)
      const { startFrom, ...destination } = newDestination(requireObject(body), checkTarget)
      const { destination_id } = await metadata.destinations.create(workspaceId, pipe.pipe_id, {
        ...destination,
        startAfterSeq: startFrom === 'earliest' ? 0 : head,
      })
      await announce(pipe.pipe_id)
      return { destination_id }
    },

    async testDestination(workspaceId: string, pipeId: string, body: unknown) {
      const pipe = await requirePipe(metadata, workspaceId, pipeId)
      const destination = newDestination(requireObject(body), checkTarget)
      const checks = await delivery.test({
        destinationId: randomUUID(),
        pipeId: pipe.pipe_id,
        pipeName: pipe.pipe_name,
        type: destination.destination_type,
        config: destination.destination_config,
        columns: destination.columns,
        timestampField: pipe.pipe_ingest_ts_field,
      })
      return { ok: checks.every((check) => check.ok), checks }
    },

    async getDestination(workspaceId: string, pipeId: string, destinationId: string) {
      return shown(await requireDestination(metadata, workspaceId, pipeId, destinationId))
    },

    updateDestination(workspaceId: string, pipeId: string, destinationId: string, body: unknown) {
      return changes.run(destinationId.toLowerCase(), async () => {
        const current = await requireDestination(metadata, workspaceId, pipeId, destinationId)
        const change = destinationChange(current, requireObject(body), checkTarget)
        const { pipe_id, destination_id } = current
        const updated = await metadata.destinations.update(workspaceId, pipe_id, destination_id, change)
        if (updated === null) throw new ApiError('destination_not_found')
        await announce(pipe_id)
        return shown(updated)
      })
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
      await announce(pipe_id)
      return { destination_status: updated.destination_status }
    },

    async deleteDestination(workspaceId: string, pipeId: string, destinationId: string): Promise<void> {
      const found = await requireDestination(metadata, workspaceId, pipeId, destinationId)
      const { pipe_id, destination_id } = found
      if (!(await metadata.destinations.delete(workspaceId, pipe_id, destination_id)))
        throw new ApiError('destination_not_found')
      await announce(pipe_id)
    },
  }
}

/** As responses show them: secrets redacted, `columns` on database destinations alone, each with its lane. */
export async function shownDestinations(
  delivery: Delivery,
  stored: readonly StoredDestination[],
): Promise<Destination[]> {
  const lanes = await delivery.lanes(stored.map((destination) => destination.destination_id))
  return stored.map(({ columns, destination_config, ...destination }) => ({
    ...destination,
    destination_config: redactedConfig(destination.destination_type, destination_config),
    ...(destination.destination_type === 'destination_database' ? { columns } : {}),
    lane: lanes[destination.destination_id] ?? laneToCome(destination.destination_status),
  }))
}

/** The checked body of a create. Throws `validation_error` with the body's own paths. */
function newDestination(
  body: Record<string, unknown>,
  checkTarget: CheckTarget,
): Omit<NewDestination, 'startAfterSeq'> & { startFrom: 'now' | 'earliest' } {
  const type = typeOf(body)
  const config = isObject(body.destination_config)
    ? givenConfig(type, body.destination_config)
    : (body.destination_config ?? (type === 'destination_pull' ? {} : undefined))
  const schema = destinationCreateSchemas[type]
  const candidate = { ...body, ...(config === undefined ? {} : { destination_config: config }) }
  const errors = explain(schema, candidate)
  refuseColumnsOnOtherTypes(type, body, errors)
  if (isObject(config)) addMissing(errors, configErrors(type, config, checkTarget))
  refuseAny(errors)
  const given = validate(schema, candidate)
  const columns = 'columns' in given ? (given.columns ?? []).map(storedColumn) : []
  refuseAny(columnErrors(columns, given.destination_config ?? {}))
  return {
    destination_type: type,
    destination_max_retry_seconds: given.destination_max_retry_seconds ?? defaultMaxRetrySeconds,
    destination_config: { ...given.destination_config },
    columns,
    startFrom: given.start_from ?? 'now',
  }
}

/** The checked body of a PATCH against what is stored (spec rules 1 and 2). */
function destinationChange(
  current: StoredDestination,
  body: Record<string, unknown>,
  checkTarget: CheckTarget,
): DestinationChange {
  const type = current.destination_type
  const errors = explain(DestinationUpdate, body)
  if (Object.hasOwn(body, 'destination_type')) errors.destination_type = 'destination_type cannot be changed.'
  refuseColumnsOnOtherTypes(type, body, errors)
  const config = isObject(body.destination_config)
    ? mergedConfig(type, current.destination_config, body.destination_config)
    : undefined
  if (config) addMissing(errors, configErrors(type, config, checkTarget))
  refuseAny(errors)
  const given = validate(DestinationUpdate, body)
  const columns: ColumnMapping[] | undefined = given.columns?.map(storedColumn)
  // Mappings are looked at again when the dialect may have changed under them.
  if (columns || config)
    refuseAny(columnErrors(columns ?? current.columns, config ?? current.destination_config))
  const { destination_max_retry_seconds } = given
  return {
    ...(destination_max_retry_seconds === undefined ? {} : { destination_max_retry_seconds }),
    ...(config ? { destination_config: config } : {}),
    ...(columns ? { columns } : {}),
  }
}

function typeOf(body: Record<string, unknown>): DestinationType {
  return validate(DestinationTypeOnly, body).destination_type
}

function refuseColumnsOnOtherTypes(
  type: DestinationType,
  body: Record<string, unknown>,
  errors: FieldErrors,
): void {
  if (type !== 'destination_database' && Object.hasOwn(body, 'columns'))
    errors.columns = 'Only a destination_database has columns.'
}

function addMissing(errors: FieldErrors, more: FieldErrors): void {
  for (const [path, message] of Object.entries(more)) errors[path] ??= message
}

/** A destination whose lane delivery has not opened yet. */
function laneToCome(status: StoredDestination['destination_status']): Lane {
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
    skipped_messages: 0,
    dropped_messages: 0,
  }
}
