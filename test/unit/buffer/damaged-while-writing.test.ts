/** The segment being written is damaged, and the next commit is the first to meet it: the frame is committed all the same. */
import assert from 'node:assert'
import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import {
  largePageBytes,
  listSegments,
  segmentFile,
  smallPageBytes,
} from '../../../src/log/segments/layout.ts'
import { beginWithLargePages } from '../../support/large-pages.ts'
import { until } from '../../support/until.ts'
import { MiB, message, newPipeId, openAt, readAll, specAt, temporaryDirectory, textsOf } from './open.ts'

/** By the size of the pages of a segment: the size of the segment that has them, and of the messages on one page. */
const sizes = [
  { pageBytes: smallPageBytes, segmentMaxBytes: MiB, perPage: 6 },
  { pageBytes: largePageBytes, segmentMaxBytes: 256 * MiB, perPage: 24 },
]
/** On a few dozen pages: the table of messages has one inner page. */
const written = 100

/**
 * The page numbers of what a commit needs. Leaves everything in the file itself and nothing in its WAL; and because the
 * file was written by somebody else, the writer reads again what it has cached.
 */
async function pagesOf(file: string, pageBytes: number): Promise<Record<'first' | 'newest', number>> {
  const db = new Database(file)
  assert.equal(db.pragma('page_size', { simple: true }), pageBytes)
  const rootOf = db.prepare('SELECT rootpage FROM sqlite_schema WHERE name = ?').pluck()
  const table = Number(rootOf.get('message'))
  db.exec('UPDATE segment SET begun_clock_ms = begun_clock_ms')
  // Busy while the writer itself checkpoints: SQLite does not wait for that.
  await until('its WAL is empty', () => {
    const [checkpoint] = db.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
    return checkpoint?.busy === 0
  })
  db.close()
  // An inner page ends its header with the number of its last child.
  const newest = readFileSync(file).readUInt32BE((table - 1) * pageBytes + 8)
  return { first: 1, newest }
}

function zeroPage(file: string, pageBytes: number, page: number): void {
  const fd = openSync(file, 'r+')
  writeSync(fd, Buffer.alloc(pageBytes), 0, pageBytes, (page - 1) * pageBytes)
  closeSync(fd)
}

const damages = {
  'its first page': { page: 'first', mayLose: false },
  'the page of the newest messages': { page: 'newest', mayLose: true },
} as const

for (const { pageBytes, segmentMaxBytes, perPage } of sizes) {
  for (const [what, { page, mayLose }] of Object.entries(damages)) {
    t.test(`a commit meets damage: ${what}, of ${pageBytes} bytes`, async (t) => {
      const root = temporaryDirectory(t)
      const pipeId = newPipeId()
      if (pageBytes === largePageBytes) beginWithLargePages(specAt(root).dir)
      const { handle, reader, close } = await openAt(t, root, { segmentMaxBytes })
      const texts = Array.from({ length: written }, (_, n) => `${n} `.padEnd(700, 'x'))
      for (const text of texts) await handle.appender.append(message(pipeId, text))
      t.same(textsOf(await readAll(reader, pipeId)), texts)
      const { dir, quarantineDir } = specAt(root)
      const file = segmentFile(dir, listSegments(dir).at(-1)!)
      zeroPage(file, pageBytes, (await pagesOf(file, pageBytes))[page])
      const bytes = readFileSync(file)

      const next = await handle.appender.append(message(pipeId, 'next'))
      t.equal(next.seq, written + 1, 'it is accepted, under the next seq')
      t.equal(listSegments(dir).at(-1)?.firstSeq, next.seq, 'in a new segment')
      t.same(textsOf(await readAll(reader, pipeId, written)), ['next'], 'and read')
      const found = textsOf(await readAll(reader, pipeId))
      t.same(
        found,
        [...texts, 'next'].filter((text) => found.includes(text)),
        'everything else in order, each once',
      )
      const lost = written + 1 - found.length
      t.ok(mayLose ? lost > 0 && lost <= perPage : lost === 0, `${lost} messages are lost`)
      await until('the damage is salvaged', async () => {
        const { damagedSegments, lostMessages } = await handle.status()
        return damagedSegments === 0 && lostMessages === lost
      })
      const kept = path.join(quarantineDir, 'segments', path.basename(file))
      t.ok(readFileSync(kept).equals(bytes), 'the damaged file is kept as it was')

      await close()
      const again = await openAt(t, root, { segmentMaxBytes })
      t.same(textsOf(await readAll(again.reader, pipeId)), found, 'another start finds the same')
      t.equal((await again.handle.status()).damagedSegments, 0)
      t.equal(readdirSync(path.dirname(kept)).length, 1)
      await again.close()
    })
  }
}
