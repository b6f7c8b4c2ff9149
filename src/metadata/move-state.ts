/**
 * How far a move of a data directory into a cluster has come, in the settings of both databases:
 *
 *   the target   `moving`     from its beginning until its rows are there: whose data, and the epochs that it will have
 *                `moved_from` from then on: how the source was, so that one that was served from since is not taken for it
 *   the source   `moved_to`   once everything is there: nobody serves from it any more
 *
 * The table of what a crash leaves is in `maintenance/migrate/move.ts`.
 */
import type { Epoch } from '../contract/epochs.ts'
import { ConfigError } from '../platform/config-error.ts'
import type { Connection } from './transactions.ts'

/** Names in `metadata_settings`. */
export const moveSettings = { moving: 'moving', movedTo: 'moved_to', movedFrom: 'moved_from' } as const

/** In the target. */
export interface Moving {
  /** The id of the source. */
  dataDirId: string
  /** The epochs of the target once it is complete. */
  epochs: Epoch[]
  /** Identifies the stream that the move has created. */
  stream?: string
}

/** In the source. */
export interface MovedTo {
  /** For people. */
  place: string
  movedMs: number
}

export async function loadMoving(db: Connection): Promise<Moving | null> {
  return parsed<Moving>(await setting(db, moveSettings.moving))
}

/** `MoveStore.stateOf`; null: nothing was moved here. */
export async function loadMovedFrom(db: Connection): Promise<string | null> {
  return await setting(db, moveSettings.movedFrom)
}

export async function loadMovedTo(db: Connection): Promise<MovedTo | null> {
  return parsed<MovedTo>(await setting(db, moveSettings.movedTo))
}

/** Throws ConfigError: nobody may serve from what is moved away, or from what is not whole yet. */
export async function requireNotMoved(db: Connection, label: string): Promise<void> {
  if ((await loadMoving(db)) !== null) {
    throw new ConfigError(
      `metadata: a move into ${label} is not finished: run the same \`pipectl migrate\` again, which starts from the beginning`,
    )
  }
  const moved = await loadMovedTo(db)
  if (moved === null) return
  throw new ConfigError(
    `metadata: what ${label} held was moved to ${moved.place} on ${new Date(moved.movedMs).toISOString()}: serve from there. ` +
      'To serve again without what was accepted there since, restore the backup that was taken before the move into a new directory',
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
