/** Rows of all pipes are read in the order of their seqs, next to the writer. */
import { existsSync } from 'node:fs'
import t from 'tap'
import { openLogRows } from '../../../src/log/segments/replicated-rows.ts'
import { decodeRowBatch } from '../../../src/log/segments/row-batch.ts'
import { until } from '../../support/until.ts'
import { dirOf, small } from './copied-log.ts'
import { idempotent, KiB, message, newPipeId, openAt, temporaryDirectory, watermark } from './open.ts'

const seqsIn = (rows: Buffer) =>
  [...decodeRowBatch(rows).items()].flatMap((item) => (item.kind === 'row' ? [item.row.seq] : []))

t.test('a batch has the rows as they are stored, up to a limit', async (t) => {
  const root = temporaryDirectory(t)
  const { handle } = await openAt(t, root)
  const rows = openLogRows(dirOf(root))
  t.equal(rows.read(0, KiB), null, 'nothing is there')
  const pipes = [newPipeId(), newPipeId()]
  const sent = []
  for (let n = 0; n < 10; n += 1) {
    const more = n === 3 ? idempotent('ключ', 'hash') : {}
    const one = message(pipes[n % 2]!, String(n).repeat(100), { recordCount: n + 1, ...more })
    sent.push({ ...one, ...(await handle.appender.append(one)) })
  }
  const first = rows.read(0, 450)!
  t.match(first, { firstSeq: 1, lastSeq: 4, messages: 4, bytes: 400, damaged: 0, more: true })
  const found = [...decodeRowBatch(first.rows).items()].flatMap((item) =>
    item.kind === 'row' ? [item.row] : [],
  )
  for (const [index, row] of found.entries()) {
    const { pipeId, msgId, receivedMs, recordCount, body } = sent[index]!
    t.match(row, {
      pipeId,
      msgId,
      receivedMs,
      recordCount,
      seq: index + 1,
      messages: 1 + Math.floor(index / 2),
    })
    t.ok(row.body.equals(body))
    t.equal(row.idempotencyKey, index === 3 ? 'ключ' : null)
  }
  t.match(rows.read(4, 1), { firstSeq: 5, lastSeq: 5, more: true }, 'at least one row')
  t.match(rows.read(4, KiB), { firstSeq: 5, lastSeq: 10, more: false })
  t.equal(rows.read(10, KiB), null)
})

t.test('sealed files are listed, and a dropped one is passed over', async (t) => {
  const root = temporaryDirectory(t)
  const { handle, feed } = await openAt(t, root, small)
  const rows = openLogRows(dirOf(root))
  const pipeId = newPipeId()
  let lastSeq = 0
  for (let n = 0; n < 100; n += 1) {
    lastSeq = (await handle.appender.append(message(pipeId, 'x'.repeat(2 * KiB)))).seq
    t.equal(rows.read(lastSeq - 1, 1)?.lastSeq, lastSeq)
  }
  const sealed = await until('segments are sealed', () => {
    const found = rows.sealed()
    return found.length > 2 ? found : null
  })
  t.equal(sealed[0]?.firstSeq, 1)
  t.equal(rows.keptFromSeq(), 1)
  for (const [index, { firstSeq, lastSeq: end, file, bytes }] of sealed.entries()) {
    t.equal(sealed[index + 1]?.firstSeq ?? end + 1, end + 1)
    t.ok(existsSync(file) && bytes > 0)
    t.same(seqsIn(rows.read(firstSeq - 1, 1)!.rows), [firstSeq])
  }
  feed.reportLowWatermarks([watermark(pipeId, lastSeq)])
  await until('they are dropped', () => !existsSync(sealed[1]!.file))
  const rest = rows.read(sealed[1]!.firstSeq, 1e9)!
  t.ok(rest.firstSeq > sealed[1]!.lastSeq)
  t.ok(rows.keptFromSeq() > sealed[1]!.firstSeq)
  t.equal(rest.lastSeq, lastSeq)
})
