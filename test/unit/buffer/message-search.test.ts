/** Messages by their id over many segments, sealed, open and compacted, whatever the clock did; and by page, newest first. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { v7 } from 'uuid'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { MessageSearch } from '../../../src/log/segments/message-search.ts'
import { KiB, message, newPipeId, openAt, temporaryDirectory } from './open.ts'

const baseMs = Date.UTC(2026, 0, 1)
const minute = 60_000

t.test('every message is found by its id, in sealed segments and in the open one', async (t) => {
  const root = temporaryDirectory(t)
  const { handle } = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
  const [pipeId, other] = [newPipeId(), newPipeId()]
  const ids: string[] = []
  for (let n = 0; n < 400; n += 1) {
    const msgId = v7({ msecs: baseMs + n * 1_000 })
    ids.push(msgId)
    const text = `{"n":${n},"text":"${'x'.repeat(1_000)}"}`
    await handle.appender.append(
      message(n % 3 === 0 ? other : pipeId, text, { msgId, receivedMs: baseMs + n }),
    )
  }
  const dir = path.join(root, 'buffer')
  t.ok(listSegments(dir).length > 4, 'several segments')
  const search = new MessageSearch(dir)
  for (const [n, msgId] of ids.entries()) {
    const found = await search.find(msgId)
    t.match(
      found,
      { msgId, pipeId: n % 3 === 0 ? other : pipeId, recordCount: 1, receivedMs: baseMs + n },
      `${n}`,
    )
    t.ok(found?.body.toString().startsWith(`{"n":${n},`))
  }
  t.equal(await search.find(v7({ msecs: baseMs + 100_000 })), null, 'of the same time, never sent')
  t.equal(await search.find(v7({ msecs: baseMs - 365 * 24 * 60 * minute })), null)
  t.equal(await search.find('00000000-0000-4000-8000-000000000000'), null, 'of another version')
  t.equal(await search.find('no id at all'), null)
})

t.test('a clock that was set back, ahead and back again hides no message', async (t) => {
  const root = temporaryDirectory(t)
  const { handle } = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
  const pipeId = newPipeId()
  const ids: string[] = []
  for (const start of [0, -60 * minute, 600 * minute, -30 * minute]) {
    for (let n = 0; n < 150; n += 1) {
      const msgId = v7({ msecs: baseMs + start + n * 500 })
      ids.push(msgId)
      const text = `{"text":"${'x'.repeat(700)}"}`
      await handle.appender.append(message(pipeId, text, { msgId, receivedMs: baseMs + start }))
    }
  }
  const search = new MessageSearch(path.join(root, 'buffer'))
  for (const msgId of ids) t.equal((await search.find(msgId))?.msgId, msgId)
})

t.test(
  'what requests overtake each other by is found, and a new segment is looked into at once',
  async (t) => {
    const root = temporaryDirectory(t)
    const { handle } = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
    const pipeId = newPipeId()
    const dir = path.join(root, 'buffer')
    const search = new MessageSearch(dir)
    for (let n = 0; n < 200; n += 1) {
      const late = n % 7 === 0 ? 20_000 : 0
      const msgId = v7({ msecs: baseMs + n * 2_000 - late })
      await handle.appender.append(message(pipeId, `{"text":"${'x'.repeat(900)}"}`, { msgId }))
      t.equal((await search.find(msgId))?.msgId, msgId)
    }
    t.ok(listSegments(dir).length > 2)
  },
)

t.test('pages go on from one segment to the older one, newest first, and between two seqs', async (t) => {
  const root = temporaryDirectory(t)
  const { handle } = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
  const [pipeId, other] = [newPipeId(), newPipeId()]
  const seqs: number[] = []
  for (let n = 0; n < 250; n += 1) {
    const { seq } = await handle.appender.append(
      message(n % 2 ? other : pipeId, `{"t":"${'x'.repeat(1_000)}"}`),
    )
    if (n % 2 === 0) seqs.unshift(seq)
  }
  const search = new MessageSearch(path.join(root, 'buffer'))
  const listed: number[] = []
  for (let beforeSeq = Number.MAX_SAFE_INTEGER; ; ) {
    const page = await search.list(pipeId, { beforeSeq, afterSeq: 0, limit: 40 })
    if (page.length === 0) break
    t.ok(page.every(({ recordCount, bytes }) => recordCount === 1 && bytes === 1_008))
    listed.push(...page.map(({ seq }) => seq))
    beforeSeq = page.at(-1)!.seq
  }
  t.strictSame(listed, seqs)
  const [high, low] = [seqs[20]!, seqs[100]!]
  const between = await search.list(pipeId, { beforeSeq: high, afterSeq: low, limit: 1_000 })
  t.strictSame(
    between.map(({ seq }) => seq),
    seqs.slice(21, 100),
  )
  t.strictSame(await search.list(newPipeId(), { beforeSeq: high, afterSeq: 0, limit: 5 }), [])
})

t.test('bodies are read newest first, up to a number of bytes, and a damaged one is not shown', async (t) => {
  const root = temporaryDirectory(t)
  const { handle, close } = await openAt(t, root, { segmentMaxBytes: 64 * KiB })
  const pipeId = newPipeId()
  const seqs: number[] = []
  for (let n = 0; n < 150; n += 1) {
    const { seq } = await handle.appender.append(message(pipeId, `{"n":${n},"t":"${'x'.repeat(985)}"}`))
    seqs.unshift(seq)
  }
  await handle.appender.append(message(newPipeId(), '{"n":1}'))
  await close()
  const dir = path.join(root, 'buffer')
  t.ok(listSegments(dir).length > 1, 'several segments')
  const search = new MessageSearch(dir)
  const read: number[] = []
  for (let beforeSeq = Number.MAX_SAFE_INTEGER; ; ) {
    const step = await search.read(pipeId, { beforeSeq, afterSeq: 0, limit: 100, maxBytes: 40_000 })
    if (step.length === 0) break
    t.ok(step.length <= 41)
    for (const { body, bytes } of step) t.equal(body?.length, bytes)
    read.push(...step.map(({ seq }) => seq))
    beforeSeq = step.at(-1)!.seq
  }
  t.strictSame(read, seqs)
  const one = { beforeSeq: seqs[0]! + 1, afterSeq: 0, limit: 5, maxBytes: 1 }
  t.strictSame(
    (await search.read(pipeId, one)).map(({ seq }) => seq),
    [seqs[0]],
    'at least one',
  )
  const [listed] = await search.list(pipeId, { beforeSeq: seqs[3]! + 1, afterSeq: 0, limit: 1 })
  t.match(listed?.beginning?.toString(), /^{"n":146,"t":"xxx/)

  const name = listSegments(dir)[0]!
  const db = new Database(segmentFile(dir, name))
  db.prepare(`UPDATE message SET body = CAST('{"n":0}' AS BLOB) WHERE seq = ?`).run(seqs.at(-1))
  db.close()
  const [damaged] = await search.read(pipeId, { beforeSeq: seqs.at(-2)!, afterSeq: 0, limit: 1, maxBytes: 1 })
  t.match(damaged, { seq: seqs.at(-1), body: null })
})
