/** Flipped bits in sealed segments: nothing wrong is delivered, only that file loses anything, everything goes on. */
import path from 'node:path'
import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import t from 'tap'
import {
  largePageBytes,
  type RowHeader,
  rowChecksum,
  smallPageBytes,
} from '../../../../src/log/segments/layout.ts'
import {
  checkDamaged,
  checkFlips,
  corruptionWork,
  makeCorruptible,
} from '../../../support/faults/corruption.ts'
import { writeImage } from '../../../support/faults/power-cut.ts'
import { scaled } from '../../../support/scale.ts'

const flips = scaled(20)

for (const largePages of [false, true]) {
  const pages = largePages ? 'large pages' : 'small pages'
  t.test(`${flips} seeded bit flips in sealed segments, ${pages}`, async (t) => {
    const work = corruptionWork(t, `sealed-${pages.replace(' ', '-')}`)
    const corruptible = await makeCorruptible(work, { kind: 'sealed', largePages })
    const files = [...corruptible.image].filter(([name]) => /\d{20}\.db$/.test(name))
    const [, content] = files.at(0)!
    t.equal(content!.readUInt16BE(16), largePages ? largePageBytes : smallPageBytes)
    const seeds = Array.from({ length: flips }, (_, seed) => seed)
    const outcomes = await checkFlips(corruptible, work, 'sealed', seeds)
    t.equal(outcomes.length, flips)
    t.same(
      outcomes.filter(({ verdict }) => verdict !== null),
      [],
    )
  })
}

t.test('control: a changed message whose checksum was made to match is delivered, and noticed', async (t) => {
  const work = corruptionWork(t, 'control')
  const { image, acknowledged } = await makeCorruptible(work)
  const root = path.join(work, 'changed')
  writeImage(image, root)
  const [first = ''] = [...image.keys()].filter((name) => /\d{20}\.db$/.test(name)).sort()
  const db = new Database(path.join(root, first))
  const row = db
    .prepare<[], RowHeader>(
      `SELECT seq, pipe_id AS pipeId, msg_id AS msgId, received_ms AS receivedMs, record_count AS recordCount,
        messages, records, bytes, idempotency_key AS idempotencyKey, body_hash AS bodyHash
        FROM message JOIN pipe ON pipe.no = message.pipe ORDER BY seq LIMIT 1`,
    )
    .get()
  const body = Buffer.from('something else')
  const change = db.prepare('UPDATE message SET body = ?, crc = ? WHERE seq = ?')
  change.run(body, rowChecksum(row!, crc32(body)), row!.seq)
  db.close()
  t.equal(await checkDamaged(root, work, acknowledged), `message ${row!.seq} is delivered wrong`)
})
