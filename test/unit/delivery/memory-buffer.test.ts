/**
 * The lanes' tests read from an array that keeps the buffer's reading port. Here it is held against the real buffer:
 * what both are asked, both must answer alike, or those tests would prove nothing.
 */
import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import t from 'tap'
import '../buffer/typescript-workers.ts'
import { openBuffer, openBufferReader } from '../../../src/stores/open-log.ts'
import { MemoryBuffer } from '../../support/memory-buffer.ts'
import { until } from '../../support/until.ts'
import { quiet, specAt } from '../buffer/open.ts'

t.test('the stand-in answers as the real buffer does', async (t) => {
  const root = t.testdir()
  const spec = specAt(root)
  const real = await openBuffer(spec, { log: quiet, onFatal: (error) => t.fail(error.message) })
  const reader = await openBufferReader(spec, pino({ level: 'silent' }))
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
  for (const seq of [0, 29, 30]) t.strictSame(await reader.heads(seq), await standIn.heads(seq))
  for (const pipeId of [a, b, never]) {
    t.strictSame(await reader.head(pipeId), await standIn.head(pipeId))
    t.strictSame(await reader.earliest(pipeId), await standIn.earliest(pipeId))
    for (const seq of [0, 1, 2, 15, 29, 30, 99]) {
      t.strictSame(
        await reader.cursorAt(pipeId, seq),
        await standIn.cursorAt(pipeId, seq),
        `cursor at ${seq}`,
      )
      const cursor = await reader.cursorAt(pipeId, seq)
      for (const through of [undefined, 0, 20]) {
        t.strictSame(
          await reader.backlog(pipeId, cursor, through),
          await standIn.backlog(pipeId, cursor, through),
        )
      }
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
