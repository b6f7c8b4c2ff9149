import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { applyRowChanges } from '../../../src/metadata/sqlite/apply-row-changes.ts'
import { recordRowChanges } from '../../../src/metadata/sqlite/row-change-triggers.ts'
import { openRowChanges, type RowChanges } from '../../../src/metadata/sqlite/row-changes.ts'
import { sameTables } from './compared-tables.ts'
import { testFile } from './fixture.ts'

const noLimit = 1 << 30

/** A small file with the kinds of tables that SQLite has, recorded from the start, and a copy of it. */
async function recorded(t: Test, tables: string) {
  const { dir } = testFile(t)
  const file = path.join(dir, 'recorded.db')
  const db = new Database(file)
  t.teardown(() => db.close())
  db.pragma('journal_mode = WAL')
  db.pragma('foreign_keys = ON')
  db.exec(tables)
  recordRowChanges(db)
  const changes = openRowChanges(file)
  t.teardown(() => changes.close())
  const copyFile = path.join(dir, 'copy.db')
  await changes.copyTo(copyFile)
  const copy = new Database(copyFile)
  t.teardown(() => copy.close())
  const isSame = (message: string) => sameTables(t, copyFile, file, message)
  return { file, db, changes, copy, isSame }
}

/** Takes and releases everything, and returns the number of rows. */
function ship(changes: RowChanges, copy: Database.Database, maxBytes = noLimit): number {
  let count = 0
  for (;;) {
    const taken = changes.take(maxBytes)
    if (taken === null) return count
    applyRowChanges(copy, taken.rows)
    changes.release(taken.through)
    count += taken.count
  }
}

t.test('values arrive exactly', async (t) => {
  const { db, changes, copy, isSame } = await recorded(
    t,
    `CREATE TABLE kinds (id TEXT PRIMARY KEY, any_value, number REAL);
     CREATE TABLE short (first BLOB, second INTEGER, any_value, PRIMARY KEY (first, second)) WITHOUT ROWID`,
  )
  const values = [
    ...[
      null,
      '',
      'text',
      'with\0NUL',
      'ü🙂',
      0,
      -0,
      1.5,
      0.1,
      Number.MAX_VALUE,
      Number.MIN_VALUE,
      Number.POSITIVE_INFINITY,
    ],
    ...[
      9007199254740993n,
      -9223372036854775808n,
      9223372036854775807n,
      Buffer.alloc(0),
      Buffer.from([0, 255]),
    ],
  ]
  const [insert, short] = [
    db.prepare('INSERT INTO kinds VALUES (?, ?, ?)'),
    db.prepare('INSERT INTO short VALUES (?, ?, ?)'),
  ]
  for (const [n, value] of values.entries()) {
    insert.run(`id ${n}`, value, typeof value === 'number' ? value : null)
    short.run(Buffer.from([n]), BigInt(n) - 2n ** 62n, value)
  }
  // Text that is not valid UTF-8, also in a key.
  db.prepare('INSERT INTO kinds VALUES (CAST(? AS TEXT), CAST(? AS TEXT), 1)').run(
    Buffer.from([0xff, 0, 97]),
    Buffer.from([0xc3]),
  )
  t.equal(ship(changes, copy), 2 * values.length + 1)
  isSame('the copy is equal')
  const zero = copy.prepare("SELECT any_value FROM kinds WHERE id = 'id 6'").pluck().get()
  t.ok(Object.is(zero, -0), 'a negative zero stays one')
  db.prepare('DELETE FROM kinds WHERE id = CAST(? AS TEXT)').run(Buffer.from([0xff, 0, 97]))
  t.equal(ship(changes, copy), 1)
  isSame('the row with the invalid key is deleted')
})
