/** Migrations: numbered, never changed once released, and what an old file holds survives them. */
import { createHash } from 'node:crypto'
import Database from 'better-sqlite3'
import { Kysely } from 'kysely'
import t from 'tap'
import type { Tables } from '../../../src/metadata/database.ts'
import { migrate, migrations } from '../../../src/metadata/migrations.ts'
import { sqliteDialect } from '../../../src/metadata/sqlite/dialect.ts'
import { open, testFile } from './fixture.ts'

/** A released migration never changes: what it made exists on other machines. A new one adds its line here. */
const released: Record<number, string> = {
  1: 'efde424eb87f7a9230b30dd68e1be5d8989606b316444f375b6570f2fd2f0bd8',
  2: '715475fde9f8ae9b3c071f8b07b7e0d7e2a8a1cc662ce3abd50c50a2179ed497',
  3: '07967a19126b049a7c4420cc149db75087053cc5b0804b4174f6bbae3a156939',
  4: '9cbd3a27b83ccdc9ba24fe9e838345b442a1634484baa8e70bf25ea7610c34dd',
  5: '278d1474c2aa66b77bd2e9bfc53bc4fe4b0b245552610ef35dd9d61e33b621f6',
  6: 'decd6d2711c2f3a91733bc4eab5bb803bdc7d51bed7efbe65023e60d7e434034',
  7: 'ec8458a619dfccec000fe6f5f44e14a274643cb81733ec482f3397f6ec7ca7d5',
  8: 'c6bc038c0aebda7089605afb703b4826b7e6c1fe34dbeff2e6f56bcbe1ac3188',
  9: '73017d8ce2da065cd81da0c23b8118b0e9ff34ac3bb1674476c784a576ac842e',
  10: '56f37e1e5c12fbe905dd25bf8f15530806a1c3e085d458936b3d2f44d81874f1',
  11: 'd67357383086a78b0edf8a327fa55f8d5ab6ddd326381f44d936cc5f90ca5c2f',
  12: '30a6b7c66c964734e21f03cd308eccff244f36547333017909d581aa16d34afd',
  13: '59ab7da0fbb521cdd92024119cea341f8453cbc9e99a3ea61d7b259207fa94ba',
  14: '28c2edfab7ba6e8f3556379d7b48bb926933f90f8127e0dd9aae00a72f9514de',
  15: '12256dae9a40af2011a4590ba1fceb6a5e8ba0fe52489ec448d9684acf7a8e56',
  16: '4bd475204de0f86e466a4545be54e4ac68f7be9ee5c93e77c83f72a2ce34b5ea',
  17: 'a08d4043cb3cb057e05f9f2de86dd876ecb63705f332957ece08e6d0c23c2309',
  18: 'c1f66194939fd3420c51de36b20f5e958012829ac50eda4b668e4eee378b6fe4',
  19: '345eb1c1e269f42217c1cfc08be788104e83aa4161f082fd5a6acfe259c6cc28',
  20: '97f450121a690870ba0ba15ee9d909d974c495e99ddca269fa77df45b8f7dd98',
  21: 'b21385bb7da2073c8b2dbf65e56f4e85a79b6c11e6e21720439643c8b27328f2',
  22: '273828b82f7e78efba32f2ba7ef3a652826a7a5cdb45c58d85b8ff956266014b',
  23: '25f3b646e5eaa22abc94be40e2a9803591eb77973a3dc67e450b9c9d177b1f28',
  24: 'de153fe3e31c83917cc1f339ab437c972d340159f67d3469a00b06611500fb42',
  25: '7e6df00359c019eed2d185125d0006ea1ddee29bd5af7ebcaa500a377cf4ef98',
}

t.test('the migrations are numbered from 1 without a gap, and none has changed', async (t) => {
  t.strictSame(
    migrations.map((migration) => migration.number),
    migrations.map((_, index) => index + 1),
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

/** A file as version 1 made it, with one workspace, pipe, destination and two lanes. */
async function versionOneFile(file: string): Promise<void> {
  const database = new Database(file)
  const db = new Kysely<Tables>({ dialect: sqliteDialect(database) })
  await db.transaction().execute((trx) => migrate(trx, file, 1_700_000_000_000, migrations.slice(0, 1)))
  database.exec(`
    INSERT INTO workspaces VALUES ('w1', 'default', 1700000000000, 1);
    INSERT INTO pipes (pipe_id, workspace_id, pipe_name, pipe_description, pipe_status, pipe_add_ingest_ts,
      pipe_add_ingest_ip, pipe_ingest_ts_field, pipe_ingest_ip_field, pipe_api_key_required,
      pipe_allow_any_browser_origin, pipe_created_ms, pipe_updated_ms, creation_order)
    VALUES ('p1', 'w1', 'events', '', 'active', 0, 0, 'ts', 'ip', 1, 0, 1700000000000, 1700000000000, 1);
    INSERT INTO destinations VALUES
      ('d1', 'p1', 'destination_pull', 'active', 60, '{}', 1700000000000, 1700000000000, 1),
      ('d2', 'p1', 'destination_pull', 'blocked', 61, '{}', 1700000000000, 1700000000000, 2);
    INSERT INTO lanes (destination_id, cursor_seq, cursor_messages, cursor_records, cursor_bytes, batch_first_seq,
      batch_last_seq, suspect_last_seq, attempts, delivered_records, skipped_messages, dropped_messages)
    VALUES ('d1', 7, 3, 1099511627776, 9007199254740991, 8, 12, 10, 2, 40, 1, 5),
      ('d2', 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0);`)
  await db.destroy()
}

t.test('a file of version 1 opens with everything that it held', async (t) => {
  const options = testFile(t)
  await versionOneFile(options.file)
  const metadata = await open(t, options)
  t.match(await metadata.laneStore.load('d1'), {
    cursorSeq: 7,
    cursorMark: '{"messages":3,"records":1099511627776,"bytes":9007199254740991}',
    batchFirstSeq: 8,
    batchLastSeq: 12,
    bisectLastSeq: 10,
    recordOffset: 0,
    sizeLimitRecords: null,
    sizeSuccesses: 0,
    attempts: 2,
    deliveredRecords: 40,
    skippedMessages: 1,
    droppedMessages: 5,
    ownerEpoch: 0,
  })
  t.match(await metadata.identity(), { isAdopted: true, epochs: [{ epoch: 1 }] })
  t.equal(await metadata.knownSeq(), 12)
  t.match(await metadata.laneStore.load('d2'), { cursorSeq: 0, cursorMark: null, batchFirstSeq: null })
  const destinations = await metadata.destinations.list('w1', 'p1')
  t.match(destinations, [
    {
      destination_id: 'd1',
      destination_status: 'active',
      destination_max_retry_seconds: 60,
      destination_name: 'pull',
    },
    { destination_id: 'd2', destination_status: 'blocked', destination_name: 'pull-2' },
  ])
  await metadata.close()
  t.equal((await open(t, options).then((again) => again.workspaces.list())).length, 1, 'and opens again')
})

t.test('destinations without a name get their kind, in the order in which they were made', async (t) => {
  const options = testFile(t)
  const database = new Database(options.file)
  const db = new Kysely<Tables>({ dialect: sqliteDialect(database) })
  const upTo = (number: number) =>
    db
      .transaction()
      .execute((trx) => migrate(trx, options.file, 1_700_000_000_000, migrations.slice(0, number)))
  await upTo(13)
  database.exec(`
    INSERT INTO workspaces (workspace_id, workspace_name, workspace_created_ms, creation_order)
    VALUES ('w1', 'default', 1700000000000, 1);`)
  const pipe = database.prepare(`
    INSERT INTO pipes (pipe_id, workspace_id, pipe_name, pipe_description, pipe_status, pipe_add_ingest_ts,
      pipe_add_ingest_ip, pipe_ingest_ts_field, pipe_ingest_ip_field, pipe_api_key_required,
      pipe_allow_any_browser_origin, pipe_created_ms, pipe_updated_ms, creation_order)
    VALUES (?, 'w1', ?, '', 'active', 0, 0, 'ts', 'ip', 1, 0, 1700000000000, 1700000000000, 1)`)
  for (const id of ['p1', 'p2']) pipe.run(id, id)
  const destination = database.prepare(`
    INSERT INTO destinations (destination_id, pipe_id, destination_type, destination_name, destination_status,
      destination_max_retry_seconds, destination_config, destination_created_ms, destination_updated_ms, creation_order)
    VALUES (?, ?, ?, ?, 'active', 60, '{}', 1700000000000, 1700000000000, ?)`)
  // The ids are in another order than the destinations were made in.
  destination.run('d9', 'p1', 'destination_object_store', null, 1)
  destination.run('d1', 'p1', 'destination_object_store', null, 2)
  destination.run('d5', 'p1', 'destination_http_endpoint', 'object-store-2', 3)
  destination.run('d4', 'p1', 'destination_http_endpoint', null, 4)
  destination.run('d3', 'p2', 'destination_object_store', null, 1)
  await upTo(14)
  const names = database
    .prepare('SELECT destination_id, destination_name FROM destinations ORDER BY pipe_id, creation_order')
    .raw()
    .all()
  t.strictSame(names, [
    ['d9', 'object-store'],
    ['d1', 'object-store-3'],
    ['d5', 'object-store-2'],
    ['d4', 'http-endpoint'],
    ['d3', 'object-store'],
  ])
  await db.destroy()
})
