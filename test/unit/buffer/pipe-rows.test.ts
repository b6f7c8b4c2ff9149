/** One pipe among many is read from the segment being written, which has no index by pipe, as from a sealed one. */
import { existsSync } from 'node:fs'
import Database from 'better-sqlite3'
import { pino } from 'pino'
import t from 'tap'
import type { Cursor } from '../../../src/log/buffer.ts'
import {
  hasPipeIndex,
  largePageBytes,
  listSegments,
  pipeIndex,
  segmentFile,
  smallPageBytes,
} from '../../../src/log/segments/layout.ts'
import { openSegmentLog } from '../../../src/log/segments/open-segment-log.ts'
import { until } from '../../support/until.ts'
import {
  countOf,
  KiB,
  MiB,
  message,
  newPipeId,
  type OpenedBuffer,
  openAt,
  readAll,
  specAt,
  temporaryDirectory,
  textsOf,
} from './open.ts'

const pipes = Array.from({ length: 20 }, newPipeId)
const [pipe = ''] = pipes

/** In turn to all pipes. The text is the number of the message. */
async function append({ handle }: OpenedBuffer, from: number, count: number, padding = ''): Promise<void> {
  const numbers = Array.from({ length: count }, (_, index) => from + index)
  await Promise.all(
    numbers.map((n) => handle.appender.append(message(pipes[n % pipes.length]!, `${n} ${padding}`))),
  )
}

const numbersOf = (texts: readonly string[]) => texts.map((text) => Number.parseInt(text, 10))
const expected = (count: number) => Array.from({ length: Math.ceil(count / pipes.length) }, (_, n) => n * 20)

/** Runs `look` on the file of a segment, by its index in the list. */
function inFile<T>(root: string, at: number, look: (db: Database.Database) => T): T {
  const { dir } = specAt(root)
  const db = new Database(segmentFile(dir, listSegments(dir).at(at)!))
  try {
    return look(db)
  } finally {
    db.close()
  }
}

t.test('messages that are committed between two reads are found, and positions count them', async (t) => {
  const root = temporaryDirectory(t)
  const opened = await openAt(t, root)
  const { reader } = opened
  for (let count = 0; count < 400; count += 100) {
    await append(opened, count, 100)
    t.same(numbersOf(textsOf(await readAll(reader, pipe, 0, 3))), expected(count + 100))
    const heads = await reader.heads(0)
    for (const [at, pipeId] of pipes.entries()) {
      const { messages } = await countOf(reader, pipeId)
      t.equal(messages, (count + 100) / pipes.length)
      t.equal(heads?.pipes.get(pipeId), count + 81 + at)
    }
    const head = await reader.head(pipe)
    t.same(await reader.cursorAt(pipe, head.seq + 19), head, 'the position at a seq of another pipe')
  }
  t.notOk(inFile(root, -1, hasPipeIndex))
})

t.test('a segment gets its index when it is rolled, and readers use both', async (t) => {
  const root = temporaryDirectory(t)
  const opened = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
  for (let count = 0; count < 400; count += 40) {
    await append(opened, count, 40, 'x'.repeat(700))
    t.same(numbersOf(textsOf(await readAll(opened.reader, pipe, 0, 3))), expected(count + 40))
  }
  await opened.close()
  const names = listSegments(specAt(root).dir)
  t.ok(names.length > 3)
  for (const at of names.keys()) t.equal(inFile(root, at, hasPipeIndex), at < names.length - 1)
})

t.test('a segment that the previous version was writing keeps its index and is continued', async (t) => {
  const root = temporaryDirectory(t)
  const first = await openAt(t, root)
  await append(first, 0, 100)
  await first.close()
  inFile(root, -1, (db) => db.exec(pipeIndex))
  const opened = await openAt(t, root)
  await append(opened, 100, 100)
  t.same(numbersOf(textsOf(await readAll(opened.reader, pipe))), expected(200))
  await opened.close()
  t.equal(listSegments(specAt(root).dir).length, 1)
  t.ok(inFile(root, -1, hasPipeIndex))
})

t.test('a crash between a roll and the sealing: the start creates the index', async (t) => {
  const root = temporaryDirectory(t)
  const settings = { segmentMaxBytes: 64 * KiB }
  const first = await openAt(t, root, settings)
  for (let count = 0; count < 400; count += 40) await append(first, count, 40, 'x'.repeat(700))
  await first.close()
  const { dir } = specAt(root)
  const unseal = (db: Database.Database) => {
    db.pragma('journal_mode = WAL')
    db.exec('DROP INDEX message_by_pipe; UPDATE segment SET last_seq = NULL, last_clock_ms = NULL')
  }
  inFile(root, 1, unseal)
  const { reader, close } = await openAt(t, root, settings)
  t.ok(inFile(root, 1, hasPipeIndex))
  t.same(numbersOf(textsOf(await readAll(reader, pipe))), expected(400))
  await close()

  // As on a full disk: it is still without an index when it is read and compacted.
  inFile(root, 1, unseal)
  const segments = openSegmentLog(specAt(root, settings), pino({ level: 'silent' }))
  inFile(root, 1, unseal)
  const { firstSeq } = listSegments(dir)[1]!
  const compaction = segments.startCompaction(firstSeq, (pipeId) => (pipeId === pipe ? firstSeq + 20 : 0))
  while (!compaction.step());
  segments.sealed.finishCompaction(compaction)
  segments.close(0)
  t.equal(listSegments(dir)[1]?.generation, 1)
  const again = await openAt(t, root, settings)
  for (const [at, pipeId] of pipes.entries()) {
    if (at === 0) continue
    t.same(
      numbersOf(textsOf(await readAll(again.reader, pipeId))),
      expected(400).map((n) => n + at),
    )
  }
  t.equal((await again.handle.status()).lostMessages, 0)
  await again.close()
})

t.test('a flipped bit in the number of a pipe costs no message while the segment is written', async (t) => {
  const root = temporaryDirectory(t)
  const opened = await openAt(t, root)
  await append(opened, 0, 100)
  const { handle, reader } = opened
  // The second pipe's third message now claims to be of the first pipe.
  inFile(root, -1, (db) => db.exec('UPDATE message SET pipe = 1 WHERE seq = 42'))
  const found: number[] = []
  for (const pipeId of pipes.slice(0, 2)) {
    let cursor: Cursor = await reader.earliest(pipeId)
    for (;;) {
      const limits = { maxRecords: 7, maxBytes: MiB, afterMark: cursor.mark }
      const run = await reader.read(pipeId, cursor.seq, limits)
      t.same([run.lost, run.damaged], [[], []])
      found.push(...numbersOf(run.messages.map(({ body }) => body.toString())))
      const last = run.messages.at(-1)
      if (last === undefined) break
      cursor = last
    }
  }
  t.same(found, [...expected(100), ...expected(100).map((n) => n + 1)])
  await until('it is salvaged', async () => (await handle.status()).damagedSegments === 0)
  t.equal((await handle.status()).lostMessages, 0)
})

t.test('a large segment gets its index from a thread, while it is read and when it is closed', async (t) => {
  const root = temporaryDirectory(t)
  const { dir } = specAt(root)
  const opened = await openAt(t, root, { segmentMaxBytes: 16 * MiB })
  const segments = () => listSegments(dir)
  const sizeOf = (at: number) => inFile(root, at, (db) => Number(db.pragma('page_size', { simple: true })))
  let sent = 0
  /** Until the next segment has begun. */
  const fill = async (bytes: number) => {
    for (const { length } = segments(); segments().length === length; sent += 60)
      await append(opened, sent, 60, 'x'.repeat(bytes))
  }
  await fill(50_000)
  t.same(numbersOf(textsOf(await readAll(opened.reader, pipe))), expected(sent))
  t.same([sizeOf(0), sizeOf(1)], [smallPageBytes, largePageBytes], 'pages are large after large messages')
  await until('it is sealed', () => !existsSync(`${segmentFile(dir, segments()[0]!)}-wal`))
  t.ok(inFile(root, 0, hasPipeIndex))
  await fill(5_000)
  t.equal(sizeOf(2), smallPageBytes, 'and small after small ones')
  await opened.close()
  for (const name of segments().slice(0, -1)) {
    t.notOk(existsSync(`${segmentFile(dir, name)}-wal`))
  }
  for (let at = 0; at < segments().length - 1; at += 1) t.ok(inFile(root, at, hasPipeIndex))
  const { reader } = await openAt(t, root)
  t.same(numbersOf(textsOf(await readAll(reader, pipe))), expected(sent))
})
