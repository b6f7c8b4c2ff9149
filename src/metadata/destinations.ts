/**
 * Destinations with their column mappings. A destination, its columns and its lane row are created in one transaction,
 * so a destination always has a lane row. Secret values of the config are sealed when they are stored and opened when
 * they are read. Each is bound to its destination and its key in the config.
 */

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { DeliverySettings, GivenDeliverySettings } from '../contract/delivery-settings.ts'
import type {
  ColumnMapping,
  Destination,
  DestinationStatus,
  DestinationType,
  TlsPin,
} from '../contract/destination.ts'
import { hasSecretPath, mapSecrets, redactedConfig } from '../contract/destination-secrets.ts'
import { wordsOf } from '../contract/destination-words.ts'
import { ApiError } from '../contract/errors.ts'
import { isSameServer } from '../contract/secret-server.ts'
import { maskSaltPlace, shownTransform, type Transform } from '../contract/transform.ts'
import type { Audited, RecordChange } from './audit.ts'
import { columnsOf, insertColumns } from './columns.ts'
import { decodeDeliverySettings, deliverySettingColumns, noDeliverySettings } from './delivery-settings.ts'
import { readable, sealConfig, sealTransform } from './destination-config.ts'
import { recordBefore } from './lane-history.ts'
import { newLaneState } from './lane-state.ts'
import { encodeLane } from './lane-store.ts'
import { requirePipe } from './pipes.ts'
import { requireRoom, type WorkspaceQuotas } from './quotas.ts'
import { nextNumber } from './rows.ts'
import type { Sealer } from './secrets.ts'
import { type DestinationRef, type DestinationRow, isoTime, normaliseId, type PipeRef } from './tables.ts'
import { type Connection, type Decided, decided, inSnapshot } from './transactions.ts'

/** The destination as responses show it, without its lane, with secrets in the clear and every key present. */
export type StoredDestination = Omit<
  Destination,
  'lane' | 'columns' | 'concurrency' | 'tls_pin' | 'transform'
> &
  Pick<DeliverySettings, 'concurrency'> & {
    columns: ColumnMapping[]
    transform: Transform | null
    /** The pinned key of its database server; null: none is pinned. */
    tls_pin: TlsPin | null
    /** Positions in the config whose stored value cannot be unsealed. The values are empty. */
    unreadable_secrets?: string[]
  }

export interface NewDestination extends GivenDeliverySettings {
  destination_type: DestinationType
  destination_max_retry_seconds: number
  destination_config: Record<string, unknown>
  columns: ColumnMapping[]
  transform?: Transform | null
  /** The cursor at which its lane starts. 0: before the earliest message that is kept. */
  startAfterSeq: number
}

/** An absent field is left unchanged; null resets it. */
export interface DestinationChange extends GivenDeliverySettings {
  destination_max_retry_seconds?: number
  destination_config?: Record<string, unknown>
  columns?: ColumnMapping[]
  transform?: Transform | null
  destination_status?: DestinationStatus
  /** Removes the pin. A change of the server (host, port) removes it as well. */
  tls_pin?: null
}

export interface DestinationStore {
  list(pipe: PipeRef): Promise<StoredDestination[]>
  /** Without a pipe the destination is found by its id only: the paths of pull name no pipe. */
  get(destination: DestinationRef): Promise<StoredDestination | null>
  /**
   * Creates the destination with its columns and its lane. Throws `pipe_not_found` and `duplicate_destination_name`. An
   * empty `source_field` is stored as null.
   */
  create(pipe: PipeRef, destination: NewDestination): Promise<StoredDestination>
  /**
   * `destination_config` and `columns` are replaced as a whole. Null: the pipe has no such destination. Throws
   * `duplicate_destination_name`.
   */
  update(
    destination: DestinationRef,
    change: Decided<StoredDestination, DestinationChange>,
  ): Promise<StoredDestination | null>
  delete(destination: DestinationRef): Promise<boolean>
}

export function destinations(
  db: Connection,
  { sealer, now, quotas }: { sealer: Sealer; now(): number; quotas: WorkspaceQuotas },
  inAudited: Audited,
): DestinationStore {
  return {
    list: (pipe) => inSnapshot(db, (trx) => load(trx, sealer, pipe)),

    get: (destination) => inSnapshot(db, (trx) => loadOne(trx, sealer, destination)),

    create: (pipe, destination) =>
      inAudited(async (trx, record) => {
        const destinationId = randomUUID()
        const { workspaceId } = pipe
        const ownerId = await requirePipe(trx, pipe)
        await requireRoom(trx, normaliseId(workspaceId), 'destinations', quotas)
        const { destination_type, destination_name = null } = destination
        const identity = { destination_id: destinationId, pipe_id: ownerId, destination_type }
        await trx
          .insertInto('destinations')
          .values({
            ...identity,
            destination_name: await freeName(trx, identity, destination_name),
            ...newColumns(destination, destinationId, sealer),
            destination_created_ms: now(),
            destination_updated_ms: now(),
            creation_order: await nextNumber(trx, 'destinations', 'creation_order', { pipe_id: ownerId }),
          })
          .execute()
        await insertColumns(trx, destinationId, destination.columns)
        await insertLane(trx, destinationId, destination.startAfterSeq)
        if (destination.startAfterSeq > 0)
          await recordBefore(trx, destinationId, destination.startAfterSeq, now())
        const made = required(await loadOne(trx, sealer, { workspaceId, destinationId }))
        const after = auditedState(made)
        await record({ ...of(workspaceId, made), operation: 'createDestination', before: null, after })
        return made
      }),

    update: (destination, change) =>
      inAudited(async (trx, record) => {
        const before = await loadOne(trx, sealer, destination)
        if (before === null) return null
        const decision = decided(change, before)
        const values = await changedColumns(trx, sealer, before, decision)
        await updateDestination(trx, before, { values, columns: decision.columns }, now())
        const after = required(await loadOne(trx, sealer, destination))
        const states = {
          before: auditedState(before, after),
          after: { ...auditedState(after, before), ...changedSecrets(before, after) },
        }
        await record({ ...of(destination.workspaceId, before), operation: 'updateDestination', ...states })
        return after
      }),

    delete: (destination) =>
      inAudited(async (trx, record) => {
        const before = await loadOne(trx, sealer, destination)
        if (before === null) return false
        // The foreign keys' cascade deletes its columns and its lane row.
        await trx.deleteFrom('destinations').where('destination_id', '=', before.destination_id).execute()
        const removed = { operation: 'deleteDestination', before: auditedState(before), after: null }
        await record({ ...of(destination.workspaceId, before), ...removed })
        return true
      }),
  }
}

export interface DestinationContext {
  sealer: Sealer
  now(): number
}

interface AppendedColumns {
  workspaceId: string
  columns: readonly ColumnMapping[]
  statements: readonly string[]
  record: RecordChange
}

/** Appends mappings, and records the change like one by a user. `statements` were run on the table. */
export async function appendColumns(
  trx: Connection,
  { sealer, now }: DestinationContext,
  before: StoredDestination,
  { workspaceId, columns, statements, record }: AppendedColumns,
): Promise<void> {
  const all = [...before.columns, ...columns]
  await updateDestination(trx, before, { values: {}, columns: all }, now())
  const after = required(await loadOne(trx, sealer, { workspaceId, destinationId: before.destination_id }))
  await record({
    ...of(workspaceId, before),
    operation: 'updateDestination',
    before: auditedState(before, after),
    after: { ...auditedState(after, before), ddl: [...statements] },
  })
}

function of(workspaceId: string, { destination_id, pipe_id }: StoredDestination) {
  return { workspaceId, resourceId: destination_id, pipeId: pipe_id }
}

/** Leaves out secrets. A path that is secret in the other state of the change is left out here as well. */
function auditedState(
  { unreadable_secrets: _, ...destination }: StoredDestination,
  other: StoredDestination = destination,
): Record<string, unknown> {
  const { destination_type: type, destination_config: config, transform } = destination
  const isPathSecret = hasSecretPath(type, config) || hasSecretPath(type, other.destination_config)
  return {
    ...destination,
    destination_config: redactedConfig(type, config, isPathSecret),
    transform: shownTransform(transform),
  }
}

/** Names the secrets that changed. */
function changedSecrets(before: StoredDestination, after: StoredDestination): { secrets_changed?: string[] } {
  const [was, is] = [secretsOf(before), secretsOf(after)]
  const changed = [...new Set([...was.keys(), ...is.keys()])].filter(
    (place) => was.get(place) !== is.get(place),
  )
  return changed.length === 0 ? {} : { secrets_changed: changed }
}

function secretsOf({
  destination_type: type,
  destination_config: config,
  transform,
}: Pick<StoredDestination, 'destination_type' | 'destination_config' | 'transform'>): Map<string, string> {
  const found = new Map<string, string>()
  if (transform !== null && transform.mask_salt !== null) found.set(maskSaltPlace, transform.mask_salt)
  mapSecrets(type, config, (value, place) => {
    found.set(place, value)
    return value
  })
  return found
}

function rowsOf(db: Connection, wanted: Partial<DestinationRef> & { workspaceId: string }) {
  let query = db
    .selectFrom('destinations')
    .innerJoin('pipes', 'pipes.pipe_id', 'destinations.pipe_id')
    .selectAll('destinations')
    .where('pipes.workspace_id', '=', normaliseId(wanted.workspaceId))
    .orderBy('destinations.creation_order')
    .orderBy('destinations.destination_id')
  if (wanted.pipeId !== undefined)
    query = query.where('destinations.pipe_id', '=', normaliseId(wanted.pipeId))
  if (wanted.destinationId !== undefined) {
    query = query.where('destinations.destination_id', '=', normaliseId(wanted.destinationId))
  }
  return query
}

async function load(
  trx: Connection,
  sealer: Sealer,
  wanted: PipeRef | DestinationRef,
): Promise<StoredDestination[]> {
  const rows = await rowsOf(trx, wanted).execute()
  const columns = await columnsOf(trx, rows)
  return rows.map((row) => {
    const { config, transform, unreadable } = readable(sealer, row)
    return {
      destination_id: row.destination_id,
      pipe_id: row.pipe_id,
      destination_type: row.destination_type,
      destination_status: row.destination_status,
      destination_max_retry_seconds: row.destination_max_retry_seconds,
      destination_config: config,
      ...(unreadable.length > 0 ? { unreadable_secrets: unreadable } : {}),
      columns: columns.get(row.destination_id) ?? [],
      transform,
      destination_name: row.destination_name,
      ...decodeDeliverySettings(row),
      tls_pin: pinOf(row),
      destination_created_ts: isoTime(row.destination_created_ms),
      destination_updated_ts: isoTime(row.destination_updated_ms),
    }
  })
}

function pinOf(row: DestinationRow): StoredDestination['tls_pin'] {
  const { tls_pin_sha256: sha256, tls_pin_first_seen_ms: firstSeenMs } = row
  return sha256 === null ? null : { sha256, first_seen_ts: isoTime(firstSeenMs ?? 0) }
}

export async function loadOne(
  trx: Connection,
  sealer: Sealer,
  wanted: DestinationRef,
): Promise<StoredDestination | null> {
  return (await load(trx, sealer, wanted))[0] ?? null
}

async function insertLane(trx: Connection, destinationId: string, cursorSeq: number): Promise<void> {
  await trx
    .insertInto('lanes')
    .values(encodeLane(newLaneState(destinationId, cursorSeq)))
    .execute()
}

function newColumns(destination: NewDestination, destinationId: string, sealer: Sealer) {
  const { destination_type: type, destination_config: config } = destination
  return {
    destination_status: 'active' as const,
    destination_max_retry_seconds: destination.destination_max_retry_seconds,
    destination_config: sealConfig(sealer, destinationId, type, config),
    tls_pin_sha256: null,
    tls_pin_first_seen_ms: null,
    tls_pin_generation: 0,
    ...noDeliverySettings,
    ...deliverySettingColumns(destination),
    transform: sealTransform(sealer, destinationId, destination.transform ?? null),
  }
}

async function changedColumns(
  trx: Connection,
  sealer: Sealer,
  before: StoredDestination,
  change: DestinationChange,
): Promise<Partial<DestinationRow>> {
  const values: Partial<DestinationRow> = deliverySettingColumns(change)
  if (change.destination_name !== undefined) {
    values.destination_name = await freeName(trx, before, change.destination_name)
  }
  if (change.destination_max_retry_seconds !== undefined) {
    values.destination_max_retry_seconds = change.destination_max_retry_seconds
  }
  if (change.destination_status !== undefined) values.destination_status = change.destination_status
  if (change.destination_config !== undefined) {
    values.destination_config = sealConfig(
      sealer,
      before.destination_id,
      before.destination_type,
      change.destination_config,
    )
  }
  if (change.transform !== undefined) {
    values.transform = sealTransform(sealer, before.destination_id, change.transform)
  }
  if (change.tls_pin === null || changesServer(before, change)) {
    values.tls_pin_sha256 = null
    values.tls_pin_first_seen_ms = null
    values.tls_pin_generation = (await pinGeneration(trx, before.destination_id)) + 1
  }
  return values
}

async function updateDestination(
  trx: Connection,
  before: StoredDestination,
  { values, columns }: { values: Partial<DestinationRow>; columns: ColumnMapping[] | undefined },
  nowMs: number,
): Promise<void> {
  if (columns !== undefined) {
    await trx.deleteFrom('destination_columns').where('destination_id', '=', before.destination_id).execute()
    await insertColumns(trx, before.destination_id, columns)
  }
  if (Object.keys(values).length === 0 && columns === undefined) return
  // Always later than before, even if the clock stood still or went back: clients compare it to notice a change.
  const updatedMs = Math.max(nowMs, Date.parse(before.destination_updated_ts) + 1)
  await trx
    .updateTable('destinations')
    .set({ ...values, destination_updated_ms: updatedMs })
    .where('destination_id', '=', before.destination_id)
    .execute()
}

/** True even if nothing is pinned yet: a connection to the old server must not pin its key for the new one. */
function changesServer(
  before: StoredDestination,
  { destination_config: config }: DestinationChange,
): boolean {
  return config !== undefined && !isSameServer(before.destination_type, before.destination_config, config)
}

async function pinGeneration(trx: Connection, destinationId: string): Promise<number> {
  const { tls_pin_generation } = await trx
    .selectFrom('destinations')
    .select('tls_pin_generation')
    .where('destination_id', '=', destinationId)
    .executeTakeFirstOrThrow()
  return tls_pin_generation
}

/** Asserts that the row exists, because this transaction has just written it. */
function required(destination: StoredDestination | null): StoredDestination {
  assert.ok(destination !== null)
  return destination
}

type Named = Pick<DestinationRow, 'destination_id' | 'pipe_id'> & { destination_type: DestinationType }

/**
 * A name is unique in its pipe, by the index `destinations_name`, and never missing, because people refer to lanes by it.
 * Returns the requested name, or a default for its kind if `wanted` is null: `database`, `database-2`, … Throws
 * `duplicate_destination_name`.
 */
async function freeName(trx: Connection, row: Named, wanted: string | null): Promise<string> {
  const others = await trx
    .selectFrom('destinations')
    .select('destination_name')
    .where('pipe_id', '=', row.pipe_id)
    .where('destination_id', '!=', row.destination_id)
    .execute()
  const taken = new Set(others.map((other) => other.destination_name))
  if (wanted !== null) {
    // The index guarantees unique names. This check gives the caller a clear error.
    if (taken.has(wanted)) throw new ApiError('duplicate_destination_name')
    return wanted
  }
  const { kind } = wordsOf(row.destination_type)
  let name = kind
  for (let number = 2; taken.has(name); number++) name = `${kind}-${number}`
  return name
}
