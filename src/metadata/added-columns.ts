/**
 * The columns that `auto_add_columns` has planned and added, for the owner of the lane (`delivery/column-adder.ts` has the
 * order of the steps and what a crash between two of them leaves).
 *
 *   (none) ──plan──▶ planned ──complete──▶ added
 *
 * A planned column counts towards the limits from then on, and can be mapped when it exists. An added one is never added or
 * mapped again: a user who removes it from the mapping keeps it removed. The rows belong to one table: another table in
 * the config begins with none. Every write holds the lane, so a previous owner writes nothing.
 */
import type { ColumnMapping } from '../contract/destination.ts'
import { wordsOf } from '../contract/destination-words.ts'
import { mappingHash } from '../contract/mapping-hash.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { dayMs } from '../platform/quantities.ts'
import type { Audited } from './audit.ts'
import { appendColumns, type DestinationContext, loadOne } from './destinations.ts'
import { holdLane } from './lane-fence.ts'
import type { LaneOwner } from './lane-ownership.ts'
import { type AddedColumnRow, normaliseId } from './tables.ts'
import { type Connection, inWriteTransaction } from './transactions.ts'

/** A table whose columns are added: its destination, and what the change is based on. */
export interface ColumnTarget {
  owner: LaneOwner
  workspaceId: string
  pipeId: string
  /** Identifies the server and the table. */
  tableKey: string
  /** Identifies the column mapping, or null: columns are matched by name. */
  mappingHash: string | null
  timestampField: string
}

export interface PlannedColumns {
  names: string[]
  /** Why others were left out: the limit of 24 hours, or that of the destination. */
  limit: 'day' | 'total' | null
}

export interface AddedColumnStore {
  /** The columns of this table that an earlier try planned, and those that were added. */
  known(target: ColumnTarget): Promise<{ planned: string[]; added: string[] }>
  /**
   * Plans new columns within the limits. Durable when it resolves. Rejects with LaneOwnershipLostError if there has been a
   * newer owner.
   */
  plan(target: ColumnTarget, names: readonly string[]): Promise<PlannedColumns>
  /**
   * Maps columns that the table has, and records the change. False: the destination was changed or deleted meanwhile, and
   * nothing was stored. Rejects as `plan`.
   */
  complete(
    target: ColumnTarget,
    columns: readonly ColumnMapping[],
    statements: readonly string[],
  ): Promise<boolean>
}

export function tableKey(type: Parameters<typeof wordsOf>[0], config: object): string {
  return JSON.stringify(wordsOf(type).targetKey({ ...config }))
}

export function addedColumnStore(
  db: Connection,
  context: DestinationContext,
  inAudited: Audited,
): AddedColumnStore {
  const { now } = context
  return {
    async known(target) {
      const rows = await rowsOf(db, target)
      const names = (isAdded: number) =>
        rows.filter(({ is_added }) => is_added === isAdded).map(({ column_name }) => column_name)
      return { planned: names(0), added: names(1) }
    },

    plan: (target, names) =>
      inWriteTransaction(db, async (trx) => {
        if (!(await holdLane(trx, target.owner))) return { names: [], limit: null }
        const destinationId = normaliseId(target.owner.destinationId)
        await trx
          .deleteFrom('added_columns')
          .where('destination_id', '=', destinationId)
          .where('table_key', '!=', target.tableKey)
          .execute()
        const rows = await rowsOf(trx, target)
        const { known, fresh, limit } = withinLimits(rows, names, now())
        for (const column_name of fresh)
          await trx
            .insertInto('added_columns')
            .values({
              destination_id: destinationId,
              column_name,
              table_key: target.tableKey,
              planned_ms: now(),
              is_added: 0,
            })
            .execute()
        return { names: [...known, ...fresh], limit }
      }),

    complete: (target, columns, statements) =>
      inAudited(async (trx, record) => {
        if (!(await holdLane(trx, target.owner))) return false
        const { workspaceId, pipeId, owner } = target
        const before = await loadOne(trx, context.sealer, {
          workspaceId,
          destinationId: owner.destinationId,
        })
        if (before === null || !isSame(before, target)) return false
        for (const { column_name } of columns)
          await trx
            .updateTable('added_columns')
            .set({ is_added: 1 })
            .where('destination_id', '=', before.destination_id)
            .where('column_name', '=', column_name)
            .execute()
        if (target.mappingHash !== null)
          await appendColumns(trx, context, before, { workspaceId, columns, statements, record })
        else
          await record({
            ...{ workspaceId, pipeId, resourceId: before.destination_id, operation: 'updateDestination' },
            before: null,
            after: { added_columns: columns.map(({ column_name }) => column_name), ddl: [...statements] },
          })
        return true
      }),
  }
}

function rowsOf(db: Connection, { owner, tableKey: hash }: ColumnTarget): Promise<AddedColumnRow[]> {
  return db
    .selectFrom('added_columns')
    .selectAll()
    .where('destination_id', '=', normaliseId(owner.destinationId))
    .where('table_key', '=', hash)
    .execute()
}

/** `known`: planned before, so they are not counted again. */
function withinLimits(
  rows: readonly AddedColumnRow[],
  names: readonly string[],
  nowMs: number,
): { known: string[]; fresh: string[]; limit: PlannedColumns['limit'] } {
  const { autoAddedColumns, autoAddedColumnsPerDay } = resourceLimits
  const byName = new Map(rows.map((row) => [row.column_name, row]))
  const known = names.filter((name) => byName.get(name)?.is_added === 0)
  const wanted = names.filter((name) => !byName.has(name))
  const recent = rows.filter(({ planned_ms }) => Math.abs(nowMs - planned_ms) < dayMs).length
  const leftToday = Math.max(0, autoAddedColumnsPerDay - recent)
  const left = Math.max(0, autoAddedColumns - rows.length)
  const fresh = wanted.slice(0, Math.min(leftToday, left))
  const limit = fresh.length === wanted.length ? null : left < leftToday ? 'total' : 'day'
  return { known, fresh, limit }
}

/** The destination is still the one for which the columns were added. */
function isSame(stored: NonNullable<Awaited<ReturnType<typeof loadOne>>>, target: ColumnTarget): boolean {
  const { destination_type: type, destination_config: config, columns } = stored
  const hash = columns.length === 0 ? null : mappingHash(columns, target.timestampField)
  return (
    hash === target.mappingHash &&
    config.auto_add_columns === true &&
    tableKey(type, config) === target.tableKey
  )
}
