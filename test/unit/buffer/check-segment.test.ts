/** A check of a segment has nothing to say of what the writer wrote, and finds each column that has changed. */
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import Database from 'better-sqlite3'
import t from 'tap'
import { checkSegment } from '../../../src/log/segments/check-segment.ts'
import { largePageBytes, rowChecksum, segmentFile, smallPageBytes } from '../../../src/log/segments/layout.ts'
import { createSegment, newIdentity } from '../../../src/log/segments/segment-file.ts'
import { temporaryDirectory } from './open.ts'

const pipeIds = [randomUUID(), randomUUID()]
const name = { firstSeq: 1, generation: 0 }
const zero = { seq: 0, messages: 0, records: 0, bytes: 0 }

/** Bodies with and without overflow pages, numbers of every length, keys or none. */
function makeSegment(dir: string, pageBytes: number): string {
  mkdirSync(dir)
  const bases = pipeIds.map((pipeId) => ({ pipeId, position: zero }))
  createSegment(dir, { pageBytes, identity: newIdentity(null, 1, null), begunClockMs: 0, bases, holes: [] })
  const file = segmentFile(dir, name)
  const db = new Database(file)
  db.pragma('journal_mode = DELETE')
  const insert = db.prepare('INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
  const sizes = [1, 100, 3800, 3900, 3950, 4000, 4061, 4096, 5000, 8200, 16_200, 16_384, 70_000, 1_000_000]
  const totals = pipeIds.map(() => ({ messages: 0, records: 0, bytes: 0 }))
  db.exec('BEGIN')
  for (let seq = 1; seq <= 600; seq += 1) {
    const pipe = seq % 2
    const total = totals[pipe]!
    const body = randomBytes(sizes[seq % sizes.length]! + (seq % 7))
    const recordCount = seq % 5 === 0 ? 2 ** (seq % 50) : 1
    total.messages += 1
    total.records += recordCount
    total.bytes += body.length
    const header = {
      ...{ seq, pipeId: pipeIds[pipe]!, msgId: randomUUID(), recordCount, ...total },
      receivedMs: seq % 3 === 0 ? seq + 0.25 : 1_763_765_000_000 + seq,
      idempotencyKey: seq % 4 === 0 ? `schlüssel-${'k'.repeat(seq)}` : null,
      bodyHash: seq % 4 === 0 ? 'a'.repeat(64) : null,
    }
    const crc = rowChecksum(header, crc32(body))
    insert.run(
      ...[seq, pipe + 1, header.msgId, header.receivedMs, recordCount, crc],
      ...[total.messages, total.records, total.bytes, header.idempotencyKey, body, header.bodyHash],
    )
  }
  db.exec('UPDATE segment SET last_clock_ms = 1, last_seq = 600; COMMIT')
  db.close()
  return file
}

for (const pageBytes of [smallPageBytes, largePageBytes]) {
  const pages = `pages of ${pageBytes} bytes`
  t.test(`sound rows, ${pages}`, async (t) => {
    const dir = path.join(temporaryDirectory(t), 'buffer')
    makeSegment(dir, pageBytes)
    t.match(checkSegment(dir, name), { messages: 600, lastSeq: 600, problems: [] })
  })

  t.test(`each changed column is found, ${pages}`, async (t) => {
    const dir = path.join(temporaryDirectory(t), 'buffer')
    const file = makeSegment(dir, pageBytes)
    const changes = [
      "msg_id = 'other'",
      'received_ms = received_ms + 1',
      'record_count = record_count + 1',
      'crc = crc + 1',
      'messages = messages + 1',
      'records = records + 1',
      'bytes = bytes + 1',
      "idempotency_key = 'new'",
      "body_hash = 'new'",
      "body = x'00'",
      'pipe = 3 - pipe',
    ]
    const db = new Database(file)
    for (const [index, change] of changes.entries())
      db.exec(`UPDATE message SET ${change} WHERE seq = ${index + 1}`)
    db.close()
    t.match(checkSegment(dir, name).problems, [
      /^11 messages changed since they were written: stream_seq 1, 2, 3, 4, 5, …$/,
    ])
  })
}
