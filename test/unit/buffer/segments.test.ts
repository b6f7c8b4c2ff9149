/** Sealing, totals over segments, damage, missing messages: what is particular to keeping the buffer in files. */
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { until } from '../../support/until.ts'
import {
  countOf,
  idempotent,
  KiB,
  MiB,
  message,
  newPipeId,
  openAt,
  readAll,
  specAt,
  temporaryDirectory,
  textsOf,
  watermark,
} from './open.ts'

const small = { segmentMaxBytes: 64 * KiB }
const block = 'x'.repeat(4 * KiB)

t.test(
  'a segment is sealed at its size; a reader that is open sees the next one as soon as it is announced',
  async (t) => {
    const root = temporaryDirectory(t)
    const { handle, reader, feed } = await openAt(t, root, small)
    const pipeId = newPipeId()
    const behind: number[] = []
    feed.onCommitted(async (pipes) => {
      for (const [id, seq] of pipes) if ((await reader.head(id)).seq < seq) behind.push(seq)
    })
    const given: string[] = []
    for (let n = 0; n < 200; n += 1) {
      given.push(`${n} ${block}`)
      await handle.appender.append(message(pipeId, given[n]!))
    }
    const names = listSegments(specAt(root).dir)
    t.ok(names.length > 5, `${names.length} segments`)
    t.same(textsOf(await readAll(reader, pipeId, 0, 7)), given)
    t.same(behind, [])
  },
)

t.test(
  'the WAL is kept short by what is written to it, also where each small message is a commit',
  async (t) => {
    const root = temporaryDirectory(t)
    const { handle } = await openAt(t, root)
    const pipeId = newPipeId()
    const wal = `${segmentFile(specAt(root).dir, { firstSeq: 1, generation: 0 })}-wal`
    // Two or three pages of 16 KiB each: 16 MiB at least.
    for (let n = 0; n < 500; n += 1) await handle.appender.append(message(pipeId, `${n}`))
    t.ok(statSync(wal).size < 9 * MiB, `${statSync(wal).size} bytes`)
  },
)

t.test('a segment is sealed at its age', async (t) => {
  const root = temporaryDirectory(t)
  const { handle, reader } = await openAt(t, root, { segmentMaxSeconds: 1 })
  const pipeId = newPipeId()
  const { dir } = specAt(root)
  await handle.appender.append(message(pipeId, 'first'))
  await until('the segment is sealed', () => listSegments(dir).length === 2)
  await handle.appender.append(message(pipeId, 'second'))
  t.same(
    listSegments(dir).map(({ firstSeq }) => firstSeq),
    [1, 2],
  )
  t.same(textsOf(await readAll(reader, pipeId)), ['first', 'second'])
  await until('the next one too', () => listSegments(dir).length === 3)
})

t.test('a pipe that is silent for many segments keeps its head, floor and totals', async (t) => {
  const root = temporaryDirectory(t)
  const [silent, busy] = [newPipeId(), newPipeId()]
  const { handle, reader, close } = await openAt(t, root, small)
  const first = await handle.appender.append(message(silent, 'abc', { recordCount: 3 }))
  for (let n = 0; n < 100; n += 1) await handle.appender.append(message(busy, block))
  const totals = { messages: 1, records: 3, bytes: 3 }
  const head = await reader.head(silent)
  t.equal(head.seq, first.seq)
  t.same(await reader.cursorAt(silent, await handle.headSeq()), head)
  t.same(await countOf(reader, silent), totals)
  t.same((await handle.appended()).get(silent), totals)
  const heads = await reader.heads(0)
  t.same(Object.fromEntries(heads?.pipes ?? []), { [silent]: first.seq, [busy]: heads?.newestSeq })
  t.equal(heads?.newestSeq, await handle.headSeq())
  t.equal(await reader.heads(await handle.headSeq()), null, 'nothing is newer')
  await close()
  const again = await openAt(t, root, small)
  t.same((await again.handle.appended()).get(silent), totals)
  const next = await again.handle.appender.append(message(silent, 'de'))
  t.equal((await again.reader.head(silent)).seq, next.seq)
  t.same(await countOf(again.reader, silent), { messages: 2, records: 4, bytes: 5 })
  t.same(await again.reader.backlog(silent, head), { messages: 1, records: 1, bytes: 2 })
  t.same(textsOf(await readAll(again.reader, silent)), ['abc', 'de'])
})

t.test('a message whose bytes changed on disk is put aside and reported, never delivered', async (t) => {
  const root = temporaryDirectory(t)
  const pipeId = newPipeId()
  const first = await openAt(t, root)
  const answers = []
  for (let n = 0; n < 5; n += 1)
    answers.push(await first.handle.appender.append(message(pipeId, `record ${n}`)))
  await first.close()
  const { dir, quarantineDir } = specAt(root)
  const file = segmentFile(dir, { firstSeq: 1, generation: 0 })
  const bytes = readFileSync(file)
  for (const text of ['record 1', 'record 4']) {
    const at = bytes.indexOf(text)
    t.ok(at > 0)
    bytes[at + 3]! ^= 0x04
  }
  writeFileSync(file, bytes)

  const { reader } = await openAt(t, root)
  const run = await reader.read(pipeId, 0, { maxRecords: 2, maxBytes: KiB })
  t.same(textsOf(run.messages), ['record 0', 'record 2'])
  t.equal(run.more, true)
  const { seq, msgId } = answers[1]!
  t.match(run.damaged, [{ seq, msgId, recordCount: 1 }])
  const rest = await reader.read(pipeId, answers[3]!.seq, { maxRecords: 10, maxBytes: KiB })
  t.same(rest.messages, [], 'the last message is damaged')
  t.equal(rest.damaged[0]?.seq, answers[4]?.seq)
  const aside = readdirSync(quarantineDir).sort()
  t.equal(aside.length, 4)
  t.equal(readFileSync(path.join(quarantineDir, aside[0]!), 'utf8'), 'reckrd 1')
  t.match(JSON.parse(readFileSync(path.join(quarantineDir, aside[1]!), 'utf8')), {
    pipe_id: pipeId,
    stream_seq: seq,
    msg_id: msgId,
    records_count: 1,
  })
  await reader.read(pipeId, 0, { maxRecords: 10, maxBytes: KiB })
  t.equal(readdirSync(quarantineDir).length, 4, 'the same message is put aside once')
})

t.test(
  'acknowledged messages that are missing at the start are counted, and their seqs are not used again',
  async (t) => {
    const root = temporaryDirectory(t)
    const pipeId = newPipeId()
    const first = await openAt(t, root)
    for (let n = 0; n < 10; n += 1) {
      await first.handle.appender.append(message(pipeId, `record ${n}`, idempotent(`key ${n}`)))
    }
    t.equal((await first.handle.status()).missingAcknowledged, 0)
    await first.close()
    const db = new Database(segmentFile(specAt(root).dir, { firstSeq: 1, generation: 0 }))
    db.exec('DELETE FROM message WHERE seq > 7')
    db.close()

    const second = await openAt(t, root, { segmentMaxSeconds: 1 })
    t.equal((await second.handle.status()).missingAcknowledged, 3)
    await until('a segment begins after the gap', async () => (await second.handle.status()).segments === 2)
    const { seq, repeated } = await second.handle.appender.append(
      message(pipeId, 'again', idempotent('key 9')),
    )
    t.equal(seq, 11)
    t.equal(repeated, false, 'the key of a missing message is free')
    t.same(textsOf(await readAll(second.reader, pipeId, 6)), ['record 6', 'again'])
    await second.close()
    const third = await openAt(t, root)
    t.equal((await third.handle.status()).missingAcknowledged, 0, 'said once')
  },
)

t.test('a damaged high-water mark does not stop the start', async (t) => {
  const root = temporaryDirectory(t)
  const pipeId = newPipeId()
  const first = await openAt(t, root)
  await first.handle.appender.append(message(pipeId, 'x'))
  await first.close()
  writeFileSync(path.join(specAt(root).dir, 'high-water'), 'nonsense of 20 bytes')
  const second = await openAt(t, root)
  t.equal((await second.handle.status()).missingAcknowledged, 0)
  t.equal((await second.handle.appender.append(message(pipeId, 'y'))).seq, 2)
})

t.test('what a crash left half made is removed', async (t) => {
  const root = temporaryDirectory(t)
  const { dir } = specAt(root)
  const first = await openAt(t, root)
  await first.close()
  const leftovers = [
    'next-segment.tmp',
    'next-segment.tmp-wal',
    'compacted-segment.tmp',
    'compacted-segment.tmp-journal',
    '00000000000000000099.db-wal',
    '00000000000000000099.db-shm',
  ]
  for (const name of leftovers) writeFileSync(path.join(dir, name), 'left over')
  await openAt(t, root)
  for (const name of leftovers) t.notOk(existsSync(path.join(dir, name)), name)
})

t.test('a reader does not hold on to segments that were dropped, and goes on reading', async (t) => {
  const root = temporaryDirectory(t)
  const { handle, reader, feed } = await openAt(t, root, { ...small, deliveredMaxBytes: 0 })
  const pipeId = newPipeId()
  for (let n = 0; n < 60; n += 1) await handle.appender.append(message(pipeId, `${n} ${block}`))
  t.equal((await readAll(reader, pipeId)).length, 60)
  feed.reportLowWatermarks([watermark(pipeId, await handle.headSeq())])
  const head = await handle.headSeq()
  await until('all is dropped', async () => (await reader.earliest(pipeId)).seq === head)
  await until('no connection keeps the space of a dropped file', () => openDeletedFiles(root).length === 0)
  const { seq } = await handle.appender.append(message(pipeId, 'next'))
  t.same(textsOf(await readAll(reader, pipeId, 3)), ['next'])
  t.equal((await reader.head(pipeId)).seq, seq)
})

function openDeletedFiles(root: string): string[] {
  return readdirSync('/proc/self/fd')
    .map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`)
      } catch {
        return ''
      }
    })
    .filter((file) => file.startsWith(root) && file.endsWith('.db (deleted)'))
}

t.test('a reader whose list is old finds its way when segments vanish between two reads', async (t) => {
  const root = temporaryDirectory(t)
  const { handle, reader } = await openAt(t, root, small)
  const pipeId = newPipeId()
  for (let n = 0; n < 60; n += 1) await handle.appender.append(message(pipeId, `${n} ${block}`))
  await reader.head(pipeId)
  const { dir } = specAt(root)
  const [first, second, third] = listSegments(dir)
  for (const name of [first!, second!]) rmSync(segmentFile(dir, name))
  const { messages } = await reader.read(pipeId, 0, { maxRecords: 1, maxBytes: 1 })
  t.ok(
    [first!.firstSeq, third!.firstSeq].includes(messages[0]!.seq),
    'from an open file, or from what is left',
  )
  await until('the floor has moved', async () => (await reader.earliest(pipeId)).seq === third!.firstSeq - 1)
})
