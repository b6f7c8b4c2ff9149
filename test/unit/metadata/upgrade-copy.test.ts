/** The copy of a metadata file that pipectl keeps before an upgrade. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { oldestFormat } from '../../../src/metadata/migrations.ts'
import { formatOf, keepCopy } from '../../../src/metadata/sqlite/upgrade-copy.ts'
import { StorageUnavailableError } from '../../../src/platform/error-code.ts'
import { fillDisk, smallDisk } from '../../support/small-disk.ts'
import { testFile } from './fixture.ts'

/** Formats of versions to come: a copy knows nothing of what is in the tables. */
const newestFormat = oldestFormat + 4

function fileOfFormat(file: string, format: number): void {
  const database = new Database(file)
  database.exec('CREATE TABLE metadata_migrations (number integer PRIMARY KEY)')
  for (let number = oldestFormat; number <= format; number += 1)
    database.prepare('INSERT INTO metadata_migrations VALUES (?)').run(number)
  database.close()
}

/** The copy that is kept, as the start keeps it. */
function kept(file: string): string | null {
  const database = new Database(file)
  try {
    return keepCopy(database, newestFormat, Date.now())
  } finally {
    database.close()
  }
}

function formatIn(file: string): number {
  const database = new Database(file, { readonly: true })
  try {
    return formatOf(database)
  } finally {
    database.close()
  }
}

const onSmallDisk = (t: Test) => path.join(smallDisk(t), 'metadata.db')

t.test('of a new file, and of one that is up to date, none is made', async (t) => {
  const { file } = testFile(t)
  t.equal(kept(file), null)
  fileOfFormat(file, newestFormat)
  t.equal(kept(file), null)
  t.notOk(existsSync(path.join(path.dirname(file), 'before-upgrade')))
})

t.test('the copies of the last two upgrades are kept', async (t) => {
  const { file } = testFile(t)
  const folder = path.join(path.dirname(file), 'before-upgrade')
  for (const format of [newestFormat - 3, newestFormat - 2, newestFormat - 1]) {
    for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true })
    fileOfFormat(file, format)
    const copy = path.join(folder, `metadata-format-${format}.db`)
    t.equal(kept(file), copy)
    t.equal(formatIn(copy), format)
    // In the order in which they were made, however quickly.
    utimesSync(copy, format, format)
  }
  t.same(
    readdirSync(folder).sort(),
    [newestFormat - 2, newestFormat - 1].map((format) => `metadata-format-${format}.db`).sort(),
  )
})

t.test('what a killed start left of a copy goes when it is an hour old', async (t) => {
  const { file } = testFile(t)
  fileOfFormat(file, newestFormat - 1)
  const folder = path.join(path.dirname(file), 'before-upgrade')
  mkdirSync(folder)
  const [old, young] = ['metadata-format-3.1.tmp', 'metadata-format-3.2.tmp'] as const
  for (const name of [old, young]) writeFileSync(path.join(folder, name), 'unfinished')
  utimesSync(path.join(folder, old), 0, 0)
  kept(file)
  t.same(readdirSync(folder).sort(), [young, `metadata-format-${newestFormat - 1}.db`].sort())
})

t.test('links and folders under names of copies are left alone, and led nowhere', async (t) => {
  const { file } = testFile(t)
  fileOfFormat(file, newestFormat - 1)
  const folder = path.join(path.dirname(file), 'before-upgrade')
  const name = `metadata-format-${newestFormat - 1}.db`
  const others = path.join(path.dirname(file), 'somebody-elses')
  writeFileSync(others, 'precious', { mode: 0o644 })
  mkdirSync(path.join(folder, 'metadata-format-1.db'), { recursive: true })
  mkdirSync(path.join(folder, 'old.tmp'))
  utimesSync(path.join(folder, 'old.tmp'), 0, 0)
  symlinkSync('nowhere', path.join(folder, 'metadata-format-2.db'))
  symlinkSync(others, path.join(folder, `metadata-format-${newestFormat - 1}.${process.pid}.tmp`))
  symlinkSync(others, path.join(folder, name))
  t.equal(kept(file), path.join(folder, name))
  t.equal(readFileSync(others, 'utf8'), 'precious')
  t.equal(formatIn(path.join(folder, name)), newestFormat - 1)
  t.equal(statSync(path.join(folder, name)).mode & 0o777, 0o600)
  t.same(readdirSync(folder).sort(), ['metadata-format-1.db', 'metadata-format-2.db', 'old.tmp', name].sort())
})

t.test('the copy that was just made stays, though the others were made in the future', async (t) => {
  const { file } = testFile(t)
  fileOfFormat(file, newestFormat - 1)
  const folder = path.join(path.dirname(file), 'before-upgrade')
  mkdirSync(folder)
  const inTenYears = Date.now() / 1000 + 10 * 365 * 86_400
  for (const [at, name] of ['metadata-format-1.db', 'metadata-format-2.db'].entries()) {
    writeFileSync(path.join(folder, name), '')
    utimesSync(path.join(folder, name), inTenYears + at, inTenYears + at)
  }
  kept(file)
  t.same(
    readdirSync(folder).sort(),
    ['metadata-format-2.db', `metadata-format-${newestFormat - 1}.db`].sort(),
  )
})

t.test('without room for the copy nothing is left of it, and the next start makes it', async (t) => {
  const file = onSmallDisk(t)
  fileOfFormat(file, newestFormat - 1)
  const fill = path.join(path.dirname(file), 'somebody-elses')
  // The files that SQLite keeps beside an open one are there: room for the copy alone is missing.
  const open = new Database(file)
  open.pragma('journal_mode = WAL')
  open.prepare('SELECT count(*) FROM metadata_migrations').get()
  fillDisk(fill)
  t.throws(() => kept(file), StorageUnavailableError)
  t.equal(formatOf(open), newestFormat - 1)
  t.same(readdirSync(path.join(path.dirname(file), 'before-upgrade')), [])
  open.close()
  rmSync(fill)
  t.ok(kept(file))
  t.equal(
    statSync(path.join(path.dirname(file), `before-upgrade/metadata-format-${newestFormat - 1}.db`)).mode &
      0o777,
    0o600,
  )
})
