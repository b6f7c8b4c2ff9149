/** The format of a segment file: its identity, and the coverage of its checksums. */
import Database from 'better-sqlite3'
import t from 'tap'
import { listSegments, type RowHeader, rowChecksum, segmentFile } from '../../../src/log/segments/layout.ts'
import { readSegmentContent } from '../../../src/log/segments/segment-facts.ts'
import { openReadOnly } from '../../../src/log/segments/segment-file.ts'
import { requireSoundSqlite } from '../../../src/log/segments/sqlite-version.ts'
import { until } from '../../support/until.ts'
import {
  idempotent,
  KiB,
  message,
  newPipeId,
  openAt,
  readAll,
  specAt,
  temporaryDirectory,
  textsOf,
  watermark,
} from './open.ts'

const identity = { dataDirId: '018f0000-0000-4000-8000-00000000000d', epoch: 3 }
const small = { segmentMaxBytes: 64 * KiB, identity }
const block = 'x'.repeat(4 * KiB)

function contents(dir: string) {
  return listSegments(dir).map((name) => {
    const db = openReadOnly(dir, name)
    try {
      return readSegmentContent(db)
    } finally {
      db.close()
    }
  })
}

t.test('every segment says whose it is, and which one came before it', async (t) => {
  const root = temporaryDirectory(t)
  const pipeId = newPipeId()
  const { handle, close } = await openAt(t, root, small)
  for (let n = 0; n < 50; n += 1) await handle.appender.append(message(pipeId, block))
  await close()
  const { dir } = specAt(root)
  const found = contents(dir)
  t.ok(found.length > 2)
  t.same(
    found.map((content) => content.identity?.previousSegmentId),
    [null, ...found.slice(0, -1).map((content) => content.identity?.segmentId)],
  )
  for (const [index, { firstSeq }] of listSegments(dir).entries()) {
    t.match(found[index]?.identity, { ...identity, firstSeq })
    const next = listSegments(dir)[index + 1]
    if (next !== undefined)
      t.equal(found[index]?.lastSeq, next.firstSeq - 1, 'nothing lies between two segments')
  }
})

t.test(
  'a segment that is dropped from the middle leaves a hole; one from the old end does not',
  async (t) => {
    const root = temporaryDirectory(t)
    const [kept, gone] = [newPipeId(), newPipeId()]
    const settings = { ...small, deliveredMaxBytes: 0 }
    const { handle, feed } = await openAt(t, root, settings)
    const { dir } = specAt(root)
    await handle.appender.append(message(kept, block.repeat(16)))
    for (let n = 0; n < 50; n += 1) await handle.appender.append(message(gone, block))
    const before = listSegments(dir).map(({ firstSeq }) => firstSeq)
    const headSeq = await handle.headSeq()
    feed.reportLowWatermarks([watermark(kept, 0), watermark(gone, headSeq)])
    // The one being written holds delivered messages too: it is sealed and dropped last.
    await until('what is delivered is dropped', () => {
      const left = listSegments(dir)
      return left.length === 2 && left[1]?.firstSeq === headSeq + 1
    })
    const newest = contents(dir).at(-1)
    const last = listSegments(dir).at(-1)?.firstSeq ?? 0
    const holes = newest?.holes ?? []
    t.equal(holes[0]?.firstSeq, before[1])
    t.equal(holes.at(-1)?.lastSeq, last - 1)
    feed.reportLowWatermarks([watermark(kept, headSeq), watermark(gone, headSeq)])
    await until('all is dropped', () => listSegments(dir).length === 1)
    for (let n = 0; n < 20; n += 1) await handle.appender.append(message(gone, block))
    t.same(contents(dir).at(-1)?.holes, [], 'before the oldest segment there are no holes')
  },
)

const header: RowHeader = {
  seq: 7,
  pipeId: '018f0000-0000-4000-8000-000000000001',
  msgId: '018f0000-0000-7000-8000-000000000002',
  receivedMs: 1_763_760_000_000,
  recordCount: 3,
  messages: 7,
  records: 21,
  bytes: 700,
  idempotencyKey: 'key',
  bodyHash: 'hash',
}

t.test('the checksum of a row changes with each of its columns', async (t) => {
  const whole = rowChecksum(header, 1)
  t.not(rowChecksum(header, 2), whole, 'body')
  for (const [column, value] of Object.entries(header)) {
    const changed = { ...header, [column]: typeof value === 'number' ? value + 1 : `${value}x` }
    t.not(rowChecksum(changed, 1), whole, column)
  }
  t.not(
    rowChecksum({ ...header, idempotencyKey: null }, 1),
    rowChecksum({ ...header, idempotencyKey: '' }, 1),
  )
})

t.test('a row with another id, time, count or key than it was written with is not delivered', async (t) => {
  const changes = [
    `msg_id = 'X' || substr(msg_id, 2)`,
    'received_ms = received_ms + 1',
    'record_count = record_count + 1',
    `idempotency_key = 'other'`,
    'messages = messages + 1',
    `pipe = (SELECT no FROM pipe WHERE pipe_id <> (SELECT pipe_id FROM pipe WHERE no = pipe))`,
  ]
  const root = temporaryDirectory(t)
  const [pipeId, other] = [newPipeId(), newPipeId()]
  const first = await openAt(t, root)
  await first.handle.appender.append(message(other, 'of another pipe'))
  for (let n = 0; n < changes.length + 1; n += 1) {
    await first.handle.appender.append(message(pipeId, `${n}`, idempotent(`key ${n}`)))
  }
  await first.close()
  const db = new Database(segmentFile(specAt(root).dir, { firstSeq: 1, generation: 0 }))
  for (const [index, change] of changes.entries())
    db.exec(`UPDATE message SET ${change} WHERE seq = ${index + 2}`)
  db.close()
  const { reader } = await openAt(t, root)
  t.same(textsOf(await readAll(reader, pipeId)), [`${changes.length}`])
  const moved = await reader.read(other, 0, { maxRecords: 100, maxBytes: KiB })
  t.same(textsOf(moved.messages), ['of another pipe'])
})

t.test('SQLite versions that can lose commits are rejected with what to do', async (t) => {
  for (const version of ['3.51.2', '3.50.9', '2.99.99']) {
    t.throws(() => requireSoundSqlite(version), { message: /at least 3\.51\.3.*npm ci/ })
  }
  for (const version of ['3.51.3', '3.52.0', '4.0.0']) requireSoundSqlite(version)
  requireSoundSqlite()
})
