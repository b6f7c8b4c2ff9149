/** The committed pages of a WAL are read around its damage, where SQLite stops at it. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { largePageBytes, smallPageBytes } from '../../../src/log/segments/layout.ts'
import { openPageFile } from '../../../src/log/segments/page-file.ts'
import { readCells } from '../../../src/log/segments/page-reader.ts'
import { seeded } from '../../support/faults/random.ts'
import { temporaryDirectory } from './open.ts'

const commits = 40

/** One row per commit, of about half a page each; the connection is closed without moving the WAL. */
function writeWal(t: Test, pageBytes: number, before: (db: Database.Database) => void = () => {}): string {
  const dir = temporaryDirectory(t)
  const file = path.join(dir, 'live.db')
  const db = new Database(file)
  db.pragma(`page_size = ${pageBytes}`)
  db.pragma('journal_mode = WAL')
  db.pragma('wal_autocheckpoint = 0')
  db.exec('CREATE TABLE x (no INTEGER PRIMARY KEY, body TEXT)')
  before(db)
  for (let no = 1; no <= commits; no += 1) {
    db.prepare('INSERT INTO x (body) VALUES (?)').run(`${no} `.padEnd(2_000, 'x'))
  }
  const copy = path.join(dir, 'copy.db')
  for (const suffix of ['', '-wal']) copyFileSync(file + suffix, copy + suffix)
  db.close()
  return copy
}

function read(file: string): { numbers: number[]; commitsBehindDamage: number } {
  const pages = openPageFile(file)
  const numbers = new Set<number>()
  for (const cell of readCells(pages)) {
    if (cell?.kind !== 'table' || cell.types.length !== 2) continue
    const body = cell.read()?.[1]
    if (typeof body === 'string' && body === `${cell.rowid} `.padEnd(2_000, 'x')) numbers.add(cell.rowid)
  }
  pages.close()
  return {
    numbers: [...numbers].sort((a, b) => a - b),
    commitsBehindDamage: pages.overlay.commitsBehindDamage,
  }
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

for (const pageBytes of [smallPageBytes, largePageBytes]) {
  const frameBytes = 24 + pageBytes
  const rowsPerPage = Math.floor(pageBytes / 2_000)
  const pages = `pages of ${pageBytes} bytes`

  t.test(`a sound WAL: every committed row, ${pages}`, async (t) => {
    t.same(read(writeWal(t, pageBytes)), { numbers: upTo(commits), commitsBehindDamage: 0 })
  })

  t.test(`frames from before the last reset are none, ${pages}`, async (t) => {
    const file = writeWal(t, pageBytes, (db) => {
      for (let n = 0; n < 100; n += 1) db.exec('INSERT INTO x (body) VALUES (1)')
      db.exec('DELETE FROM x')
      db.pragma('wal_checkpoint(RESTART)')
    })
    t.same(read(file), { numbers: upTo(commits), commitsBehindDamage: 0 })
  })

  t.test(`what follows the last commit does not count, torn or not, ${pages}`, async (t) => {
    const file = writeWal(t, pageBytes)
    const wal = readFileSync(`${file}-wal`)
    const torn = wal.subarray(0, wal.length - 100)
    writeFileSync(`${file}-wal`, torn)
    t.equal(read(file).commitsBehindDamage, 0)
    t.same(read(file).numbers, upTo(commits - 1))
  })

  t.test(`a flipped bit costs what only its frame held, ${pages}`, async (t) => {
    const file = writeWal(t, pageBytes)
    const wal = readFileSync(`${file}-wal`)
    const { below } = seeded(5)
    for (let n = 0; n < 200; n += 1) {
      const hurt = Buffer.from(wal)
      // Every fourth one in a header.
      const anywhere = below(wal.length - 4 * frameBytes)
      const at =
        n % 4 > 0 ? anywhere : n % 8 === 0 ? below(32) : anywhere - ((anywhere - 32) % frameBytes) + below(24)
      hurt[at]! ^= 1 << below(8)
      writeFileSync(`${file}-wal`, hurt)
      const { numbers, commitsBehindDamage } = read(file)
      if (numbers.length < commits - rowsPerPage)
        t.fail(`the bit at ${at} cost ${commits - numbers.length} rows`)
      if (commitsBehindDamage < 2) t.fail(`the bit at ${at} was not noticed`)
    }
    t.pass('none cost more than a page of rows')
  })

  t.test(
    `two lost sectors cost the rows in them, and not what was committed after them, ${pages}`,
    async (t) => {
      const file = writeWal(t, pageBytes)
      const wal = readFileSync(`${file}-wal`)
      wal.fill(0, 10 * frameBytes, 10 * frameBytes + 4096)
      wal.fill(255, 20 * frameBytes, 20 * frameBytes + 4096)
      writeFileSync(`${file}-wal`, wal)
      const { numbers, commitsBehindDamage } = read(file)
      t.ok(commitsBehindDamage > 10)
      t.ok(numbers.length >= commits - 4, `${numbers.length} of ${commits}`)
      t.ok(numbers.includes(commits))
    },
  )

  t.test(`a WAL that is none holds nothing, ${pages}`, async (t) => {
    const file = writeWal(t, pageBytes)
    for (const content of ['', 'text '.repeat(5_000), Buffer.alloc(20_000), Buffer.alloc(20)]) {
      writeFileSync(`${file}-wal`, content)
      t.same(read(file), { numbers: [], commitsBehindDamage: 0 })
    }
  })
}
