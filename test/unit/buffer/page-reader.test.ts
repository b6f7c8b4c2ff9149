/** The rows of a damaged SQLite file are found without its tree: all that can be read, and nothing that was not written. */
import {
  closeSync,
  copyFileSync,
  openSync,
  readFileSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { v7 } from 'uuid'
import { largePageBytes, smallPageBytes } from '../../../src/log/segments/layout.ts'
import { openPageFile } from '../../../src/log/segments/page-file.ts'
import { type Cell, type ColumnValue, readCells } from '../../../src/log/segments/page-reader.ts'
import { segmentSchema } from '../../../src/log/segments/segment-file.ts'
import { seeded } from '../../support/faults/random.ts'
import { scaled } from '../../support/scale.ts'
import { temporaryDirectory } from './open.ts'

const crcColumn = 5
/** `--scale` of test/run-files.ts multiplies it. */
const flips = scaled(250)

/** By seq: the row, as one text. */
type Rows = Map<number, string>

interface Shape {
  count: number
  bodyBytes(index: number): number
  /** Rows are deleted afterwards, so that pages hold old cells and some are free. */
  isDeleted?(index: number): boolean
  order?: 'ascending' | 'scattered'
  journal?: 'wal' | 'delete'
}

const shapes: Record<string, Shape> = {
  'one small row': { count: 1, bodyBytes: () => 10 },
  'small rows over many pages': { count: 2_000, bodyBytes: (index) => index % 300 },
  'bodies just under and over what fits into a page': { count: 60, bodyBytes: (index) => 3_900 + index * 2 },
  'bodies just under and over what fits into a large page': {
    count: 60,
    bodyBytes: (index) => 16_190 + index * 2,
  },
  'bodies of many pages': { count: 20, bodyBytes: (index) => index * 20_000 },
  'rows that did not come in order': { count: 1_000, bodyBytes: (index) => index % 700, order: 'scattered' },
  'free pages and old cells': {
    count: 1_000,
    bodyBytes: (index) => (index % 50) * 100,
    isDeleted: (index) => index % 3 === 0 || (index > 400 && index < 600),
  },
  'everything still in the WAL': { count: 400, bodyBytes: (index) => index * 10, journal: 'wal' },
}

/** Keeps the connection open until the test ends, so that a WAL stays where it is. */
function write(t: Test, file: string, pageBytes: number, shape: Shape): Rows {
  const db = new Database(file)
  t.teardown(() => db.close())
  db.pragma(`page_size = ${pageBytes}`)
  db.pragma(`journal_mode = ${shape.journal ?? 'delete'}`)
  db.pragma('wal_autocheckpoint = 0')
  db.exec(segmentSchema)
  const { below } = seeded(shape.count)
  const insert = db.prepare(
    `INSERT INTO message (seq, pipe, msg_id, received_ms, record_count, crc, messages, records, bytes, idempotency_key,
       body, body_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const indexes = Array.from({ length: shape.count }, (_, index) => index)
  if (shape.order === 'scattered') indexes.sort((a, b) => ((a * 7919) % 1009) - ((b * 7919) % 1009))
  for (let from = 0; from < indexes.length; from += 37) {
    db.exec('BEGIN')
    for (const index of indexes.slice(from, from + 37)) {
      const body = Buffer.from(Array.from({ length: shape.bodyBytes(index) }, () => below(256)))
      const key = index % 4 === 0 ? `key ${'é'.repeat(index % 60)}` : null
      const receivedMs = 1.7e12 + index / (index % 2 === 0 ? 1 : 8)
      const totals = [index + 1, index * 5_000_000_000, index * 70_000]
      const row = [index + 1, (index % 9) + 1, v7(), receivedMs, index % 3, 0, ...totals, key, body, key]
      row[crcColumn] = crc32(textOf(row))
      insert.run(...row)
    }
    db.exec('COMMIT')
  }
  for (const index of indexes) {
    if (shape.isDeleted?.(index)) db.prepare('DELETE FROM message WHERE seq = ?').run(index + 1)
  }
  const rows = db.prepare('SELECT * FROM message').raw().all() as ColumnValue[][]
  return new Map(rows.map((row) => [row[0] as number, textOf(row)]))
}

const textOf = (row: readonly ColumnValue[]) =>
  JSON.stringify(row.map((value) => (Buffer.isBuffer(value) ? value.toString('base64') : value)))

/** As a caller does: the types of a message, and a checksum that holds. */
function readRows(file: string): Rows {
  const rows: Rows = new Map()
  const pages = openPageFile(file)
  for (const cell of readCells(pages)) {
    const row = cell === null ? null : readMessage(cell)
    if (row !== null) rows.set(row[0] as number, textOf(row))
  }
  pages.close()
  return rows
}

function readMessage(cell: Cell): ColumnValue[] | null {
  if (cell.kind !== 'table' || cell.types.length !== 12 || cell.types[2] !== 85) return null
  const columns = cell.read()
  if (columns === null) return null
  const row = [cell.rowid, ...columns.slice(1)]
  return crc32(textOf(row.with(crcColumn, 0))) === row[crcColumn] ? row : null
}

/** A file of many shapes in one, without a WAL. */
function writeBase(t: Test, dir: string, pageBytes: number): { file: string; written: Rows } {
  const file = path.join(dir, 'base.db')
  const written = write(t, file, pageBytes, {
    count: 160,
    bodyBytes: (index) => [20, 900, 6_000, 15_000][index % 4]!,
  })
  return { file, written }
}

function hurt(base: string, change: (fd: number) => void): string {
  const file = path.join(path.dirname(base), 'hurt.db')
  copyFileSync(base, file)
  const fd = openSync(file, 'r+')
  change(fd)
  closeSync(fd)
  return file
}

for (const pageBytes of [smallPageBytes, largePageBytes]) {
  const pages = `pages of ${pageBytes} bytes`
  for (const [name, shape] of Object.entries(shapes)) {
    t.test(`all rows are found: ${name}, ${pages}`, async (t) => {
      const file = path.join(temporaryDirectory(t), 'x.db')
      const written = write(t, file, pageBytes, shape)
      const found = readRows(file)
      for (const [seq, row] of written) t.equal(found.get(seq), row)
      if (shape.isDeleted === undefined) t.equal(found.size, written.size)
    })
  }

  t.test(`one flipped bit costs one row at most, and never makes one, ${pages}`, async (t) => {
    const { file, written } = writeBase(t, temporaryDirectory(t), pageBytes)
    const image = readFileSync(file)
    const { below } = seeded(8)
    const lost: number[] = []
    for (let n = 0; n < flips; n += 1) {
      // Every second one in the heads of pages and cells, where most bits mean something.
      const anywhere = below(image.length)
      const at = n % 2 === 0 ? anywhere : anywhere - (anywhere % pageBytes) + below(24)
      const byte = image[at]! ^ (1 << below(8))
      const found = readRows(hurt(file, (fd) => writeSync(fd, Buffer.of(byte), 0, 1, at)))
      for (const [seq, row] of found) if (row !== written.get(seq)) t.fail(`row ${seq} was not written`)
      lost.push(written.size - found.size)
      if (lost[n]! > 1) t.fail(`the bit at ${at} cost ${lost[n]} rows`)
    }
    t.ok(lost.filter((count) => count === 1).length > flips / 10, 'many flips hit something')
  })

  t.test(`a zeroed page costs the rows that have a part in it, ${pages}`, async (t) => {
    const { file, written } = writeBase(t, temporaryDirectory(t), pageBytes)
    const pages = readFileSync(file).length / pageBytes
    let most = 0
    for (let page = 0; page < pages; page += 3) {
      const found = readRows(
        hurt(file, (fd) => writeSync(fd, Buffer.alloc(pageBytes), 0, pageBytes, page * pageBytes)),
      )
      for (const [seq, row] of found) if (row !== written.get(seq)) t.fail(`row ${seq} was not written`)
      most = Math.max(most, written.size - found.size)
    }
    t.ok(
      most > 0 && most < 20,
      `at most ${most}: a leaf holds some fifteen small rows or parts of large ones`,
    )
  })

  t.test(`the first page and the tree are not needed, ${pages}`, async (t) => {
    const { file, written } = writeBase(t, temporaryDirectory(t), pageBytes)
    const garbage = Buffer.from(Array.from({ length: pageBytes }, (_, index) => (index * 73) % 251))
    t.same(readRows(hurt(file, (fd) => writeSync(fd, garbage, 0, pageBytes, 0))), written)
    t.same(readRows(hurt(file, (fd) => writeSync(fd, 'not SQLite', 0))), written)
  })

  t.test(`half a file gives up the rows that are whole in it, ${pages}`, async (t) => {
    const { file, written } = writeBase(t, temporaryDirectory(t), pageBytes)
    const bytes = readFileSync(file).length
    const half = hurt(file, () => {})
    truncateSync(half, bytes / 2 + 1_000)
    const found = readRows(half)
    t.ok(found.size > written.size / 4 && found.size < written.size, `${found.size} of ${written.size}`)
    for (const [seq, row] of found) t.equal(row, written.get(seq))
  })

  t.test(`a file that is none gives up nothing, and does not take long, ${pages}`, async (t) => {
    const file = path.join(temporaryDirectory(t), 'x.db')
    const { below } = seeded(3)
    const contents: Record<string, Buffer> = {
      empty: Buffer.alloc(0),
      text: Buffer.from('a segment it is not\r\n'.repeat(5_000)),
      zeros: Buffer.alloc(pageBytes * 50),
      'leaf pages of random cells': Buffer.from(
        Array.from({ length: pageBytes * 50 }, (_, at) => {
          return at % pageBytes === 0 ? 13 : below(256)
        }),
      ),
      'cells that each claim the whole file': claimingCells(pageBytes),
    }
    for (const [name, content] of Object.entries(contents)) {
      writeFileSync(file, content)
      t.equal(readRows(file).size, 0, name)
    }
  })
}

/** Leaf pages full of cells of the right types, with bodies as long as the file, all in one chain that is a circle. */
function claimingCells(pageBytes: number): Buffer {
  const pages = 200
  const image = Buffer.alloc(pages * pageBytes)
  for (let page = 0; page < pages; page += 1) {
    const at = page * pageBytes
    const head = page === 0 ? 100 : 0
    image[at + head] = 13
    image.writeUInt16BE(40, at + head + 3)
    for (let cell = 0; cell < 40; cell += 1) image.writeUInt16BE(1_000 + cell * 60, at + head + 8 + cell * 2)
    image.writeUInt16BE(1_000, at + head + 5)
    for (let cell = 0; cell < 40; cell += 1) {
      const offset = at + 1_000 + cell * 60
      const types = [0, 1, 85, 1, 1, 4, 1, 1, 1, 0]
      const [headerBytes, otherBytes] = [15, 46]
      const bodyType = 12 + 2 * (700_000 - headerBytes - otherBytes)
      image.set([...varint(700_000), 1, headerBytes, ...types, ...varint(bodyType), 0], offset)
    }
  }
  return image
}

function varint(value: number): number[] {
  return [0x80 | (value >> 14), 0x80 | ((value >> 7) & 0x7f), value & 0x7f]
}
