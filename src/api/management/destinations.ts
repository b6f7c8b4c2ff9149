/** Destinations: create, show, change, test and delete (docs/dev/contract.md#destinations). */
import { defaultConcurrency } from '../../contract/delivery-settings.ts'
import { type Destination, type LaneStatus, resolveConfig } from '../../contract/destination.ts'
import { redactedConfig } from '../../contract/destination-secrets.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import { ApiError } from '../../contract/errors.ts'
import { isObject } from '../../contract/is-object.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { shownTransform } from '../../contract/transform.ts'
import type { DestinationTrials, LaneViews } from '../../delivery/delivery.ts'
import type { DestinationSpec } from '../../destinations/driver.ts'
import { descriptorOf } from '../../destinations/drivers.ts'
import type { StoredDestination } from '../../metadata/destinations.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'
import { changed, destinationChange, newDestination, unstored } from './destination-bodies.ts'
import { refOf, requireDestination, requirePipe } from './lookup.ts'
import { filterFaultFor } from './transform-rules.ts'
import { checkedOnSave } from './transform-trials.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'laneViews' | 'trials' | 'headSeq' | 'checkTarget' | 'changes'>

export function destinationUseCases(deps: Deps) {
  const { metadata, laneViews, trials, checkTarget, changes } = deps
  const shown = async (stored: StoredDestination) => {
    const [destination] = await shownDestinations(laneViews, [stored])
    return { destination }
  }
  /** The check comes before anything is locked, because it can take seconds. */
  const transformChecked = async ({ principal, path, body }: Call<'updateDestination'>) => {
    if (!isObject(body.transform)) return undefined
    const current = await requireDestination(metadata, principal.workspaceId, path)
    const { transform } = destinationChange(current, body, checkTarget, await filterFaultFor(body))
    return await checkedOnSave(trials, current.pipe_id, current.transform, transform)
  }
  return {
    createDestination: (call: Call<'createDestination'>) => createDestination(deps, call),

    testDestination: (call: Call<'testDestination'>) => testDestination(deps, call),

    async getDestination({ principal, path }: Call<'getDestination'>) {
      return shown(await requireDestination(metadata, principal.workspaceId, path))
    },

    async updateDestination(call: Call<'updateDestination'>) {
      const { principal, path, query, body } = call
      const transform_check = (query.check_transform ?? true) ? await transformChecked(call) : undefined
      const filterFault = await filterFaultFor(body)
      const updated = await metadata.destinations.update(
        { workspaceId: principal.workspaceId, pipeId: path.pipe_id, destinationId: path.destination_id },
        (current) => destinationChange(current, body, checkTarget, filterFault),
      )
      if (updated === null) throw new ApiError('destination_not_found')
      await changes.publish({ pipeId: updated.pipe_id })
      return { ...(await shown(updated)), ...(transform_check && { transform_check }) }
    },

    async setDestinationStatus({ principal: { workspaceId }, path, body }: Call<'setDestinationStatus'>) {
      const { pipe_id, destination_id } = path
      const updated = await metadata.destinations.update(
        { workspaceId, pipeId: pipe_id, destinationId: destination_id },
        body,
      )
      if (updated === null) throw new ApiError('destination_not_found')
      await changes.publish({ pipeId: pipe_id })
      return { destination_status: updated.destination_status }
    },

    async resetTlsPin({ principal: { workspaceId }, path }: Call<'resetTlsPin'>) {
      let isPinned = false
      const updated = await metadata.destinations.update(
        { workspaceId, pipeId: path.pipe_id, destinationId: path.destination_id },
        ({ tls_pin }) => {
          isPinned = tls_pin !== null
          return isPinned ? { tls_pin: null } : {}
        },
      )
      if (updated === null) throw new ApiError('destination_not_found')
      // The lane closes its connection and immediately tries to deliver its pending messages.
      if (isPinned) await changes.publish({ pipeId: updated.pipe_id })
      return { reset: isPinned, status: isPinned ? 'reset' : 'no_pin' }
    },

    async deleteDestination({ principal: { workspaceId }, path }: Call<'deleteDestination'>): Promise<void> {
      const found = await requireDestination(metadata, workspaceId, path)
      const { pipe_id } = found
      const pipe = await requirePipe(metadata, workspaceId, found)
      if (!(await metadata.destinations.delete(refOf(workspaceId, found))))
        throw new ApiError('destination_not_found')
      await changes.publish({ pipeId: pipe_id })
      forgetDeleted(trials, { workspaceId, pipe }, [found])
    },
  }
}

async function createDestination(
  { metadata, trials, headSeq, checkTarget, changes }: Deps,
  { principal: { workspaceId }, path, query, body }: Call<'createDestination'>,
) {
  // "Now" is when the request arrived: messages accepted while it is being processed are delivered.
  const head = await headSeq()
  const pipe = await requirePipe(metadata, workspaceId, path)
  const { startFrom, ...destination } = newDestination(body, checkTarget, await filterFaultFor(body))
  const isChecked = query.check_transform ?? true
  const transform_check = isChecked
    ? await checkedOnSave(trials, pipe.pipe_id, null, destination.transform)
    : undefined
  const made = await metadata.destinations.create(
    { workspaceId, pipeId: pipe.pipe_id },
    {
      ...destination,
      startAfterSeq: startFrom === 'earliest' ? 0 : head,
    },
  )
  await changes.publish({ pipeId: pipe.pipe_id })
  const { destination_id, destination_name } = made
  return { destination_id, destination_name, ...(transform_check && { transform_check }) }
}

/**
 * The body is a complete destination, or `{destination_id, …changes}`: a stored destination with its secrets, as a
 * PATCH with these changes would make it.
 */
async function testDestination(
  { metadata, trials, checkTarget }: Deps,
  { principal: { workspaceId }, path, query, body }: Call<'testDestination'>,
) {
  const pipe = await requirePipe(metadata, workspaceId, path)
  const filterFault = await filterFaultFor(body)
  const destination =
    'destination_id' in body
      ? changed(
          await requireDestination(metadata, workspaceId, {
            ...path,
            destination_id: body.destination_id.toLowerCase(),
          }),
          body,
          checkTarget,
          filterFault,
        )
      : unstored(newDestination(body, checkTarget, filterFault))
  const { sample = false } = query
  const spec = specOf({ workspaceId, pipe }, destination, destination.pinnedKey)
  const checks = await trials.test(spec, { sample })
  const columns = checks.find((check) => check.tableColumns !== undefined)?.tableColumns
  const writtenBy = checks.find((check) => check.writtenBy !== undefined)?.writtenBy
  return {
    ok: checks.every((check) => check.ok),
    checks: checks.map(({ name, ok, message }) => ({ name, ok, message })),
    ...(columns === undefined ? {} : { table_columns: columns }),
    ...(writtenBy === undefined ? {} : { written_by: writtenBy }),
  }
}

/**
 * Removes the state that deleted destinations left in databases, once nothing delivers to them any more. The request
 * does not wait, because the database can be unreachable.
 */
export function forgetDeleted(
  trials: Pick<DestinationTrials, 'forget'>,
  owner: PipeOfWorkspace,
  deleted: readonly StoredDestination[],
): void {
  for (const destination of deleted) {
    const spec = specOf(owner, destination, destination.tls_pin?.sha256 ?? null)
    if (!descriptorOf(spec.type).isExactlyOnce(spec.config)) continue
    // It rejects while delivery is being restarted. The row then stays, and nothing reads it again.
    trials.forget(spec).catch(() => {})
  }
}

interface PipeOfWorkspace {
  workspaceId: string
  pipe: Pipe
}

/** The spec that a driver needs for a destination without a lane. */
export function specOf(
  { workspaceId, pipe }: PipeOfWorkspace,
  destination: Pick<
    StoredDestination,
    'destination_id' | 'destination_type' | 'destination_config' | 'columns'
  > & { transform?: StoredDestination['transform'] },
  pinnedKey: string | null,
): DestinationSpec {
  return {
    destinationId: destination.destination_id,
    workspaceId,
    pipeId: pipe.pipe_id,
    pipeName: pipe.pipe_name,
    ...resolveConfig(destination.destination_type, destination.destination_config),
    columns: destination.columns,
    transform: destination.transform ?? null,
    timestampField: pipe.pipe_ingest_ts_field,
    pinnedKey,
  }
}

/**
 * The destinations as responses show them, each with its lane. Secrets are redacted. Only database servers have `tls_pin`.
 * `columns` are shown for databases, and for other types that have mappings.
 */
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
      const { isDatabase, hasServerKey, hasConcurrency } = wordsOf(destination.destination_type)
      return {
        ...destination,
        destination_config: redactedConfig(destination.destination_type, destination_config),
        ...(isDatabase || columns.length > 0 ? { columns } : {}),
        ...(hasServerKey ? { tls_pin } : {}),
        ...(hasConcurrency ? { concurrency: concurrency ?? defaultConcurrency } : {}),
        transform: shownTransform(transform),
        lane: lanes[destination.destination_id] ?? initialLaneStatus(destination.destination_status),
      }
    },
  )
}

/** The status of a lane that delivery has not opened yet. */
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
