/**
 * The lanes' tests read from an array that keeps the buffer's reading port. Here it is held against the real buffer:
 * what both are asked, both must answer alike, or those tests would prove nothing.
 */
import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import '../buffer/typescript-workers.ts'
import { openBuffer } from '../../src/buffer/segments/open-buffer.ts'
import { openBufferReader } from '../../src/buffer/segments/reader.ts'
import { MemoryBuffer } from '../support/memory-buffer.ts'
import { until } from '../support/until.ts'

t.test('the stand-in answers as the real buffer does', async (t) => {
  const root = t.testdir()
  const quarantineDir = path.join(root, 'quarantine')
  const real = await openBuffer({
    dir: path.join(root, 'buffer'),
    quarantineDir,
    maxBytes: 1e9,
    minFreeBytes: 0,
    segmentMaxBytes: 256 * 1024 * 1024,
    segmentMaxSeconds: 3600,
    undeliveredHours: 168,
    deliveredHours: 24,
    deliveredMaxBytes: 1e9,
    log: { level: 'silent', format: 'json' },
    onFatal: (error) => t.fail(error.message),
  })
  const reader = openBufferReader({
    dir: path.join(root, 'buffer'),
    quarantineDir,
    log: pino({ level: 'silent' }),
  })
  const standIn = new MemoryBuffer()
  const [a, b, never] = [randomUUID(), randomUUID(), randomUUID()]
  const start = Date.now()
  let head = 0
  for (let index = 0; index < 30; index += 1) {
    const pipeId = index % 3 === 0 ? b : a
    // The real buffer keeps its own time: all of one test is received within its slack.
    const message = standIn.append(
      pipeId,
      1 + (index % 4),
      start,
      `{"n":${index},"pad":"${'x'.repeat(index * 10)}"}`,
    )
    const { seq } = await real.appender.append({
      pipeId,
      msgId: message.msgId,
      receivedMs: start,
      recordCount: message.recordCount,
      body: message.body,
    })
    t.equal(seq, message.seq)
    head = seq
  }
  await until('the reader sees the last message', async () => (await reader.head(a)).seq === head)
  for (const pipeId of [a, b, never]) {
    t.strictSame(await reader.head(pipeId), await standIn.head(pipeId))
    t.strictSame(await reader.floor(pipeId), await standIn.floor(pipeId))
    for (const seq of [0, 1, 2, 15, 29, 30, 99]) {
      t.strictSame(
        await reader.positionAt(pipeId, seq),
        await standIn.positionAt(pipeId, seq),
        `position at ${seq}`,
      )
      for (const limits of [
        { maxRecords: 1, maxBytes: 1 },
        { maxRecords: 7, maxBytes: 1e9 },
        { maxRecords: 1e9, maxBytes: 1_000 },
        { maxRecords: 1e9, maxBytes: 1e9, throughSeq: 20 },
      ]) {
        const [found, expected] = [
          await reader.read(pipeId, seq, limits),
          await standIn.read(pipeId, seq, limits),
        ]
        t.strictSame(
          found.messages.map((one) => ({ ...one, body: one.body.toString() })),
          expected.messages.map((one) => ({ ...one, body: one.body.toString() })),
          `messages after ${seq} within ${JSON.stringify(limits)}`,
        )
        t.strictSame(found.damaged, expected.damaged)
      }
    }
  }
  await reader.close()
  await real.close()
})
