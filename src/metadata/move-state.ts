/**
 * The state of a move of a data directory into a cluster, in the settings tables of both databases:
 *
 *   target   `moving`      set from the start until all rows are copied: the source's id and the target's future epochs
 *            `moved_from`  set from then on: the state of the source, to notice that it has been used again since
 *   source   `moved_to`    set once everything is copied: the source must not be used any more
 *
 * The table of crash points is in `maintenance/migrate/move.ts`.
 */
import type { Epoch } from '../contract/epochs.ts'
import { ConfigError } from '../platform/config-error.ts'
import type { Connection } from './transactions.ts'

/** Names in `metadata_settings`. */
export const moveSettings = { moving: 'moving', movedTo: 'moved_to', movedFrom: 'moved_from' } as const

/** Stored in the target. */
export interface Moving {
  /** The data directory id of the source. */
  dataDirId: string
  /** The epochs of the target once it is complete. */
  epochs: Epoch[]
  /** Identifies the stream that the move has created. */
  stream?: string
}

/** Stored in the source. */
export interface MovedTo {
  /** The target, for display only. */
  place: string
  movedMs: number
}

export async function loadMoving(db: Connection): Promise<Moving | null> {
  return parsed<Moving>(await setting(db, moveSettings.moving))
}

/** Returns `MoveStore.stateOf` of the source; null: nothing was moved here. */
export async function loadMovedFrom(db: Connection): Promise<string | null> {
  return await setting(db, moveSettings.movedFrom)
}

export async function loadMovedTo(db: Connection): Promise<MovedTo | null> {
  return parsed<MovedTo>(await setting(db, moveSettings.movedTo))
}

/** Throws ConfigError if the data was moved away, or if a move into this database is unfinished. */
export async function requireNotMoved(db: Connection, label: string): Promise<void> {
  if ((await loadMoving(db)) !== null) {
    throw new ConfigError(
      `metadata: a move into ${label} is not finished. Run the same \`pipectl migrate\` again; it starts from the beginning`,
    )
  }
  const moved = await loadMovedTo(db)
  if (moved === null) return
  throw new ConfigError(
    `metadata: the data of ${label} was moved to ${moved.place} on ${new Date(moved.movedMs).toISOString()}. Use it there. ` +
      'To return to the earlier data, without messages accepted there since, restore the backup from before the move into a new directory',
  )
}

export async function putSetting(trx: Connection, name: string, value: unknown): Promise<void> {
  const row = { name, value: typeof value === 'string' ? value : JSON.stringify(value) }
  await trx
    .insertInto('metadata_settings')
    .values(row)
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value: row.value }))
    .execute()
}

export async function deleteSetting(trx: Connection, name: string): Promise<void> {
  await trx.deleteFrom('metadata_settings').where('name', '=', name).execute()
}

async function setting(db: Connection, name: string): Promise<string | null> {
  const row = await db
    .selectFrom('metadata_settings')
    .select('value')
    .where('name', '=', name)
    .executeTakeFirst()
  return row?.value ?? null
}

function parsed<T>(text: string | null): T | null {
  return text === null ? null : (JSON.parse(text) as T)
}
