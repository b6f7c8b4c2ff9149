/** Migrations: numbered, never changed once released, and what an old file holds survives them. */
import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { Kysely } from 'kysely'
import t from 'tap'
import {
  type Migration,
  migrate,
  migrations,
  newestFormat,
  oldestFormat,
} from '../../../src/metadata/migrations.ts'
import { sqliteDialect } from '../../../src/metadata/sqlite/dialect.ts'
import type { Tables } from '../../../src/metadata/tables.ts'
import { open, testFile } from './fixture.ts'

/** A released migration never changes: what it made exists on other machines. A new one adds its line here. */
const released: Record<number, string> = {
  25: 'fe2cc4fc7bc6d81a58541049da333dfbff5693bd3bdbd36e8929a281a2d7f8b3',
  26: '5611cb9fcc0721af693011a37ce1e74f3c1886d25b6cd1eebc9e6f0bc61dcd34',
  28: '1b07b9b5ab2b17b113865f29099473e955b03d105802482ee6f4ce82bd91cc4c',
  27: 'e247b88cd9dfc594ec2570f2bfffd691db7affd5563a0f1c85a9729a1c052581',
  29: '5fbbb800049e8b92892c8f8104cb1e5d6e7f3bcf2e28a8bb5376c3f1431a9bc5',
  30: 'ddde624915c0bf184ac02f73cc16178a758b67bdfaf528a25d538406c77767c1',
  31: '6666e64b2376d7db966cdba7f00c0e9ec53b369485c03bbf6281edfc947e598c',
  32: '27bbc69ad3857934eeb2293465de5be5b9a0ffaada278a9573285e07830c9fd4',
  33: 'f193d672dd3bd64d3869232388c9d96c2c9c040424ee5a85ba888ba3057618ce',
  34: '79ba3a0f3d0a899f5d336128ed1ec3131fd90197b09fb96a0ef0087070610309',
}

t.test('the migrations are numbered without a gap, and none has changed', async (t) => {
  t.strictSame(
    migrations.map((migration) => migration.number),
    migrations.map((_, index) => oldestFormat + index),
  )
  t.strictSame(await hashes(), released)
})

/** SHA-256 of every statement that each migration runs on an empty database, in order. */
async function hashes(): Promise<Record<number, string>> {
  const statements: string[] = []
  const database = new Database(':memory:')
  const db = new Kysely<Tables>({
    dialect: sqliteDialect(database),
    log: (event) => void statements.push(event.query.sql),
  })
  const found: Record<number, string> = {}
  for (const migration of migrations) {
    await db.transaction().execute(async (trx) => {
      statements.length = 0
      await migration.up(trx)
      found[migration.number] = createHash('sha256').update(statements.join(';\n')).digest('hex')
    })
  }
  await db.destroy()
  return found
}

/** A file with the tables of `format`, as far as the migrations say: for steps that this test makes up. */
async function migrated(file: string, steps = migrations): Promise<number> {
  const db = new Kysely<Tables>({ dialect: sqliteDialect(new Database(file)) })
  try {
    return await db.transaction().execute((trx) => migrate(trx, file, 1_700_000_000_000, steps))
  } finally {
    await db.destroy()
  }
}

const column: Migration = {
  number: newestFormat + 1,
  name: 'a column',
  async up(trx) {
    await trx.schema.alterTable('workspaces').addColumn('note', 'text').execute()
  },
}

t.test('an empty file gets all tables, and an older one only the steps that it lacks', async (t) => {
  const { file } = testFile(t)
  t.equal(await migrated(file), 0)
  t.equal(await migrated(file, [...migrations, column]), newestFormat)
  t.equal(await migrated(file, [...migrations, column]), newestFormat + 1, 'nothing is left to do')
  const database = new Database(file, { readonly: true })
  t.same(database.prepare('SELECT number FROM metadata_migrations ORDER BY number').pluck().all(), [
    ...migrations.map(({ number }) => number),
    newestFormat + 1,
  ])
  database.close()
})

t.test('a file of a format before the baseline is rejected, and not changed', async (t) => {
  const options = testFile(t)
  const database = new Database(options.file)
  database.exec(`CREATE TABLE metadata_migrations (number integer PRIMARY KEY, name text, applied_ms bigint);
    INSERT INTO metadata_migrations VALUES (23, 'quotas of a cluster', 0)`)
  database.close()
  await t.rejects(
    open(t, options),
    /written by an earlier pipectl \(format 23, this version supports 25 and newer\)/,
  )
  t.same(readdirSync(path.dirname(options.file)).includes('before-upgrade'), false)
})
