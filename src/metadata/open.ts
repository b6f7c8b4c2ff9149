/**
 * Opens the metadata of one data directory: file, tables, sealing key; and puts the nouns together.
 *
 * Main and delivery thread each open their own connection on the same file. Everything here is Kysely over
 * dialect-neutral SQL, except `sqlite.ts`.
 */
import type Database from 'better-sqlite3'
import { Kysely } from 'kysely'
import { ConfigError } from '../config.ts'
import { apiKeys } from './api-keys.ts'
import { destinations } from './destinations.ts'
import { directorySource } from './directory.ts'
import { laneStore } from './lane-store.ts'
import { laneSource } from './lanes.ts'
import { limits } from './limits.ts'
import { migrate } from './migrations.ts'
import { origins } from './origins.ts'
import { pipes } from './pipes.ts'
import { type Connection, write } from './schema.ts'
import { createSealer, type Sealer, UnsealError } from './secrets.ts'
import { assertFullSync, openSqlite, sqliteDialect } from './sqlite.ts'
import type { Metadata } from './store.ts'
import { usage } from './usage.ts'
import { workspaces } from './workspaces.ts'

export interface MetadataOptions {
  /** The SQLite file; made when missing. */
  file: string
  /** 32 bytes, from `loadSealingKey`. */
  sealingKey: Buffer
  /** The clock, ms since the epoch. */
  now?: () => number
}

/**
 * Throws ConfigError, with nothing changed, when the file cannot be written, is not ours, is of a newer version, or
 * its secrets were sealed with another key.
 */
export async function openMetadata({ file, sealingKey, now = Date.now }: MetadataOptions): Promise<Metadata> {
  const database = await openSqlite(file)
  const db: Connection = new Kysely({ dialect: sqliteDialect(database) })
  const sealer = createSealer(sealingKey)
  try {
    await prepareFile(db, database, sealer, file, now())
  } catch (error) {
    await db.destroy()
    throw error
  }
  let closing: Promise<void> | undefined
  return {
    workspaces: workspaces(db, now),
    pipes: pipes(db, now),
    destinations: destinations(db, sealer, now),
    limits: limits(db),
    origins: origins(db),
    apiKeys: apiKeys(db, now),
    usage: usage(db),
    directory: directorySource(db),
    laneSource: laneSource(db, sealer),
    laneStore: laneStore(db, now),
    close: () => (closing ??= close(db)),
  }
}

/** Behind whatever is under way: its transaction would lose the file under its feet. The last connection checkpoints. */
async function close(db: Connection): Promise<void> {
  await db.connection().execute(async () => undefined)
  await db.destroy()
}

/** One transaction: tables up to date, sealing key right, or everything as it was. */
async function prepareFile(
  db: Connection,
  database: Database.Database,
  sealer: Sealer,
  file: string,
  now: number,
): Promise<void> {
  await write(db, async (trx) => {
    await migrate(trx, file, now)
    await checkSealingKey(trx, sealer, file)
    // A write at every open: a file that cannot be written is found here and not by the first change.
    const lastOpened = { name: 'last_opened_ms', value: String(now) }
    await trx
      .insertInto('metadata_settings')
      .values(lastOpened)
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ value: lastOpened.value }))
      .execute()
  })
  assertFullSync(database)
}

const checkName = 'sealing_check'

/** A known text sealed when the file was made: it opens with the right key alone. */
async function checkSealingKey(trx: Connection, sealer: Sealer, file: string): Promise<void> {
  const check = await trx
    .selectFrom('metadata_settings')
    .select('value')
    .where('name', '=', checkName)
    .executeTakeFirst()
  if (check === undefined) {
    const value = sealer.seal('pipectl', checkName)
    await trx.insertInto('metadata_settings').values({ name: checkName, value }).execute()
    return
  }
  try {
    sealer.open(check.value, checkName)
  } catch (error) {
    if (!(error instanceof UnsealError)) throw error
    throw new ConfigError(
      `sealing key: not the one that ${file} was sealed with; put back the right key or set secrets.key_file`,
    )
  }
}
