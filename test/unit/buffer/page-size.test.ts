/** The size of a file's pages is known whatever has become of its head. */
import { closeSync, openSync, writeSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { v7 } from 'uuid'
import { largePageBytes, smallPageBytes } from '../../../src/log/segments/layout.ts'
import { pageBytesOf } from '../../../src/log/segments/page-size.ts'
import { closeReadable, openReadable } from '../../../src/log/segments/readable-file.ts'
import { segmentSchema } from '../../../src/log/segments/segment-file.ts'
import { temporaryDirectory } from './open.ts'

const bodies: Record<string, (index: number) => number> = {
  'small messages': (index) => 100 + (index % 700),
  'large messages': (index) => 20_000 + index * 31,
  none: () => 0,
}

/** A WAL stays beside it until the test ends. */
function write(t: Test, pageBytes: number, bodyBytes: (index: number) => number): string {
  const file = path.join(temporaryDirectory(t), 'x.db')
  const db = new Database(file)
  t.teardown(() => db.close())
  db.pragma(`page_size = ${pageBytes}`)
  db.pragma('journal_mode = WAL')
  db.exec(segmentSchema)
  const insert = db.prepare('INSERT INTO message VALUES (?, ?, ?, 0, 1, 0, 1, 1, 1, NULL, ?, NULL)')
  const text = Buffer.from('{"a":"record","n":12345}\n'.repeat(20_000))
  db.exec('BEGIN')
  for (let seq = 1; seq <= 400 && bodyBytes(seq) > 0; seq += 1)
    insert.run(seq, seq % 13, v7(), text.subarray(0, bodyBytes(seq)))
  db.exec('COMMIT')
  db.pragma('wal_checkpoint(PASSIVE)')
  return file
}

function sizeOf(file: string, withWal: boolean): number {
  const pages = openReadable(file)
  const wal = withWal ? openReadable(`${file}-wal`) : null
  try {
    return pageBytesOf(pages, wal)
  } finally {
    closeReadable(pages)
    if (wal !== null) closeReadable(wal)
  }
}

function overwrite(file: string, at: number, bytes: Buffer): void {
  const fd = openSync(file, 'r+')
  writeSync(fd, bytes, 0, bytes.length, at)
  closeSync(fd)
}

for (const pageBytes of [smallPageBytes, largePageBytes]) {
  for (const [name, bodyBytes] of Object.entries(bodies)) {
    t.test(`${name} in pages of ${pageBytes} bytes`, async (t) => {
      const file = write(t, pageBytes, bodyBytes)
      t.equal(sizeOf(file, false), pageBytes, 'the head says it')
      overwrite(file, 0, Buffer.alloc(4096))
      t.equal(sizeOf(file, true), pageBytes, 'without it, the WAL')
      overwrite(`${file}-wal`, 0, Buffer.alloc(32))
      t.equal(sizeOf(file, true), pageBytes, 'without both, its leaves')
      overwrite(file, 4096, Buffer.alloc(pageBytes))
      t.equal(sizeOf(file, false), pageBytes, 'and some of them are enough')
    })
  }
}

t.test('negative control: the leaves of another size say that one', async (t) => {
  const file = write(t, smallPageBytes, bodies['small messages']!)
  const wrong = Buffer.alloc(2)
  wrong.writeUInt16BE(largePageBytes)
  overwrite(file, 16, wrong)
  t.equal(sizeOf(file, false), largePageBytes, 'a head of one of our sizes is believed')
  overwrite(file, 16, Buffer.alloc(2))
  t.equal(sizeOf(file, false), smallPageBytes)
})
