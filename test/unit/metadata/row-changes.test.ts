/** Changed rows of the metadata file, as its replica takes and applies them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { applyRowChanges } from '../../../src/metadata/sqlite/apply-row-changes.ts'
import {
  recordingIdOf,
  recordRowChanges,
  stopRecordingRowChanges,
} from '../../../src/metadata/sqlite/row-change-triggers.ts'
import { openRowChanges, type RowChanges } from '../../../src/metadata/sqlite/row-changes.ts'
import { RowChangesError } from '../../../src/metadata/sqlite/row-encoding.ts'
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

t.test('rows that a foreign key deletes, changed keys, and what ON CONFLICT does are recorded', async (t) => {
  const { db, changes, copy, isSame } = await recorded(
    t,
    `CREATE TABLE parents (id TEXT PRIMARY KEY, name TEXT UNIQUE);
     CREATE TABLE children (id TEXT REFERENCES parents (id) ON DELETE CASCADE, n INTEGER, note TEXT, PRIMARY KEY (id, n))`,
  )
  db.exec(`INSERT INTO parents VALUES ('a', 'first'), ('b', 'second'), ('c', 'third');
    INSERT INTO children VALUES ('a', 1, ''), ('a', 2, ''), ('b', 1, ''), ('b', 2, ''), ('c', 1, '')`)
  t.equal(ship(changes, copy), 8)
  isSame('inserted')
  db.exec("DELETE FROM parents WHERE id = 'a'")
  t.equal(ship(changes, copy), 3, 'the parent and both children')
  isSame('deleted by the foreign key')
  db.exec('UPDATE children SET n = n + 10')
  t.equal(ship(changes, copy), 6, 'the old and the new key of each')
  isSame('keys changed')
  db.exec(`INSERT OR IGNORE INTO parents VALUES ('b', 'again'), ('d', 'fourth');
    INSERT INTO parents VALUES ('c', 'x') ON CONFLICT (id) DO UPDATE SET name = excluded.name`)
  t.equal(ship(changes, copy), 2)
  isSame('conflicts')
  db.exec("UPDATE parents SET name = '-' WHERE id = 'b'; UPDATE parents SET name = 'second' WHERE id = 'c'")
  db.exec("UPDATE parents SET name = 'x' WHERE id = 'b'")
  t.equal(ship(changes, copy, 1), 2, 'one row at a time')
  isSame('a unique name that has moved')
  db.exec('DELETE FROM parents')
  ship(changes, copy)
  isSame('all rows are deleted')
  t.equal(copy.prepare('SELECT count(*) FROM children').pluck().get(), 0)
})

t.test('a release leaves rows that changed again, and rows that were not taken', async (t) => {
  const { db, changes, copy, isSame } = await recorded(
    t,
    'CREATE TABLE rows (id TEXT PRIMARY KEY, n INTEGER)',
  )
  db.exec("INSERT INTO rows VALUES ('a', 1), ('b', 1), ('c', 1)")
  const first = changes.take(1)!
  t.strictSame([first.count, first.more], [1, true])
  db.exec("UPDATE rows SET n = 2 WHERE id = 'a'")
  changes.release(first.through)
  changes.release(first.through)
  t.equal(changes.pending(), 3)
  db.exec("UPDATE rows SET n = 3 WHERE id = 'a'")
  // The number of a change that was not taken.
  changes.release(first.through + 100)
  t.equal(changes.pending(), 1)
  const rest = changes.take(noLimit)!
  t.strictSame([rest.count, rest.more], [1, false])
  applyRowChanges(copy, rest.rows)
  t.same(copy.prepare('SELECT * FROM rows').all(), [{ id: 'a', n: 3 }])
  changes.release(rest.through)
  t.equal(changes.take(noLimit), null)
  db.exec("UPDATE rows SET n = 4; DELETE FROM rows WHERE id = 'b'")
  changes.release(rest.through)
  t.equal(ship(changes, copy), 3, 'a repeated release forgets nothing new')
  isSame('in the end')
})

t.test('the records are bounded by the rows, however often these change, come and go', async (t) => {
  const { db, changes, copy, isSame } = await recorded(
    t,
    'CREATE TABLE rows (id INTEGER PRIMARY KEY, n INTEGER)',
  )
  db.exec('INSERT INTO rows VALUES (1, 0), (2, 0)')
  ship(changes, copy)
  for (let id = 10; id < 500; id += 1) {
    db.prepare('INSERT INTO rows VALUES (?, 0)').run(id)
    db.exec('UPDATE rows SET n = n + 1')
    db.prepare('DELETE FROM rows WHERE id = ?').run(id)
  }
  t.equal(changes.pending(), 2, 'rows that the copy never had left nothing')
  db.exec('DELETE FROM rows WHERE id = 1; INSERT INTO rows VALUES (7, 7)')
  ship(changes, copy)
  isSame('the last state')

  db.exec('INSERT INTO rows VALUES (20, 0)')
  // Nobody knows if the slot with this row exists.
  t.equal(changes.take(noLimit)?.count, 1)
  db.exec('DELETE FROM rows WHERE id = 20')
  t.equal(ship(changes, copy), 1, 'the deletion of a row that was taken is sent')
})

t.test('a row that only a copy has seen is deleted in the copy', async (t) => {
  const { db, changes, file } = await recorded(t, 'CREATE TABLE rows (id INTEGER PRIMARY KEY, n INTEGER)')
  db.exec('INSERT INTO rows VALUES (1, 0)')
  const copyFile = `${file}.copy`
  await changes.copyTo(copyFile)
  db.exec('DELETE FROM rows')
  const copy = new Database(copyFile)
  t.teardown(() => copy.close())
  t.equal(copy.prepare('SELECT count(*) FROM rows').pluck().get(), 1)
  ship(changes, copy)
  t.equal(copy.prepare('SELECT count(*) FROM rows').pluck().get(), 0)
})

t.test('a copy has no records, replaces no file, and is removed when it is given up', async (t) => {
  const { db, changes, file, copy } = await recorded(
    t,
    'CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB)',
  )
  t.equal(recordingIdOf(copy), null)
  t.same(copy.prepare("SELECT type, name FROM sqlite_schema WHERE type <> 'index'").all(), [
    { type: 'table', name: 'rows' },
  ])
  await t.rejects(changes.copyTo(file), { code: 'EEXIST' })
  for (let id = 0; id < 100; id += 1) db.prepare('INSERT INTO rows VALUES (?, zeroblob(100000))').run(id)
  const stopped = new AbortController()
  const unfinished = changes.copyTo(`${file}.unfinished`, stopped.signal)
  stopped.abort(new Error('no longer needed'))
  await t.rejects(unfinished, /no longer needed/)
  t.notOk(existsSync(`${file}.unfinished`))
  t.equal(db.prepare('SELECT count(*) FROM rows').pluck().get(), 100)
})

t.test('a recording keeps its id until something could have changed unrecorded', async (t) => {
  const { db, changes, file } = await recorded(t, 'CREATE TABLE rows (id TEXT PRIMARY KEY)')
  const id = recordRowChanges(db)
  t.equal(changes.recordingId, id)
  db.exec("INSERT INTO rows VALUES ('a')")
  t.equal(recordRowChanges(db), id)
  t.equal(changes.pending(), 1, 'a repeated call forgets nothing')
  db.exec('ALTER TABLE rows ADD COLUMN n INTEGER DEFAULT 1')
  const next = recordRowChanges(db)
  t.not(next, id, 'a column was added')
  t.equal(changes.pending(), 0)
  db.exec('DROP TRIGGER row_changes_rows_deleted')
  t.not(recordRowChanges(db), next, 'a trigger was missing')
  const insert = db.prepare('INSERT INTO rows (id) VALUES (?)')
  insert.run('b')
  stopRecordingRowChanges(db)
  stopRecordingRowChanges(db)
  t.same(db.prepare("SELECT name FROM sqlite_schema WHERE type <> 'index'").pluck().all(), ['rows'])
  insert.run('c')
  t.equal(recordingIdOf(db), null)
  t.throws(() => openRowChanges(file), new RowChangesError(`changes of ${file} are not recorded`))
  t.not(recordRowChanges(db), next)
})

t.test('a table without a primary key is rejected', async (t) => {
  const { db } = await recorded(t, 'CREATE TABLE rows (id TEXT PRIMARY KEY)')
  db.exec('CREATE TABLE keyless (id TEXT)')
  t.throws(() => recordRowChanges(db), /changes of the table keyless cannot be recorded/)
  t.not(recordingIdOf(db), null, 'the triggers are as they were')
})

t.test('damaged rows, and rows of another format, change nothing', async (t) => {
  const { db, changes, copy } = await recorded(t, 'CREATE TABLE rows (id TEXT PRIMARY KEY, n INTEGER)')
  db.exec("INSERT INTO rows VALUES ('a', 1), ('b', 2)")
  const { rows } = changes.take(noLimit)!
  for (let at = 0; at < rows.length; at += 1) {
    const damaged = Buffer.from(rows)
    damaged[at] = damaged[at]! ^ 1
    t.throws(() => applyRowChanges(copy, damaged), RowChangesError)
    t.throws(() => applyRowChanges(copy, rows.subarray(0, at)), RowChangesError)
  }
  copy.exec('ALTER TABLE rows RENAME COLUMN n TO m')
  t.throws(
    () => applyRowChanges(copy, rows),
    /the table rows has other columns \(id, m\) than the rows \(id, n\)/,
  )
  copy.exec('ALTER TABLE rows RENAME TO others')
  t.throws(() => applyRowChanges(copy, rows), /the rows belong to a table rows/)
  copy.exec('BEGIN')
  t.throws(() => applyRowChanges(copy, rows), /in a transaction of their own/)
  copy.exec('ROLLBACK')
  t.equal(copy.prepare('SELECT count(*) FROM others').pluck().get(), 0)
})

t.test('no statement of ours deletes rows that no trigger sees', (t) => {
  const root = path.resolve(import.meta.dirname, '../../..')
  const files = ['metadata', 'maintenance', 'cluster', 'stores'].flatMap((folder) =>
    readdirSync(path.join(root, 'src', folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => path.join(root, 'src', folder, name)),
  )
  t.ok(files.length > 100)
  const replacing = files.filter((file) =>
    /['`"\s]OR REPLACE INTO|orReplace|replaceInto/.test(readFileSync(file, 'utf8')),
  )
  t.same(
    replacing.map((file) => path.basename(file)),
    ['apply-row-changes.ts'],
    'it applies rows to a copy, which has no triggers',
  )
  t.end()
})
