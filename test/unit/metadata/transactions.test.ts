/** Write transactions: run again after a conflict, with nothing left of the run before. */
import t from 'tap'
import { openSqliteDatabase } from '../../../src/metadata/sqlite/open.ts'
import { inWriteTransaction, WriteConflictError } from '../../../src/metadata/transactions.ts'
import { testFile } from './fixture.ts'

async function settings(t: Parameters<typeof testFile>[0]) {
  const { db } = await openSqliteDatabase(testFile(t).file)
  t.teardown(() => db.destroy())
  await db.schema
    .createTable('metadata_settings')
    .addColumn('name', 'text')
    .addColumn('value', 'text')
    .execute()
  const names = async () =>
    (await db.selectFrom('metadata_settings').select('name').execute()).map((row) => row.name)
  return { db, names }
}

t.test('a transaction that conflicted runs again, and only its last run counts', async (t) => {
  const { db, names } = await settings(t)
  let runs = 0
  const result = await inWriteTransaction(db, async (trx) => {
    runs += 1
    await trx
      .insertInto('metadata_settings')
      .values({ name: `run ${runs}`, value: '' })
      .execute()
    if (runs < 4) throw new WriteConflictError(new Error('40001'))
    return runs
  })
  t.equal(result, 4)
  t.strictSame(await names(), ['run 4'])
})

t.test('any other error ends it at once, and nothing of it stays', async (t) => {
  const { db, names } = await settings(t)
  let runs = 0
  const failing = inWriteTransaction(db, async (trx) => {
    runs += 1
    await trx.insertInto('metadata_settings').values({ name: 'x', value: '' }).execute()
    throw new Error('a mistake')
  })
  await t.rejects(failing, { message: 'a mistake' })
  t.equal(runs, 1)
  t.strictSame(await names(), [])
})

t.test('a conflict that never ends is reported', async (t) => {
  const { db } = await settings(t)
  let runs = 0
  const failing = inWriteTransaction(db, async () => {
    runs += 1
    throw new WriteConflictError(new Error('40001'))
  })
  await t.rejects(failing, WriteConflictError)
  t.ok(runs > 3)
})
