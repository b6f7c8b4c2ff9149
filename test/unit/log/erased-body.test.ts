/** Bodies whose records were deleted: the others keep their indexes. */
import t from 'tap'
import type { StoredMessage } from '../../../src/log/buffer.ts'
import {
  bodyFrom,
  eraseRecords,
  keptRecords,
  keptTexts,
  withoutDeleted,
} from '../../../src/log/erased-body.ts'
import { records, recordTexts, recordTextsIn } from '../../../src/log/record-text.ts'

const texts = (body: Buffer) => [...records(body)].map(String)
const holding =
  (...marks: string[]) =>
  (record: Buffer) =>
    marks.some((mark) => record.includes(mark))

t.test('each subset of the records of a body can be deleted, in one step or in several', async (t) => {
  for (const count of [1, 2, 3, 4]) {
    const all = Array.from({ length: count }, (_, n) => `{"n":${n}}`)
    for (let subset = 1; subset < 2 ** count; subset += 1) {
      const isMeant = (n: number) => (subset & (1 << n)) !== 0
      const left = all.map((text, n) => (isMeant(n) ? '' : text))
      const marks = all.filter((_, n) => isMeant(n))
      const body = Buffer.from(all.join('\n'))
      const erased = eraseRecords(body, holding(...marks))!
      t.equal(erased.records, marks.length)
      t.ok(erased.body.length <= body.length)
      t.same(texts(erased.body), left)
      t.same(recordTexts(erased.body), left)
      t.same(
        keptTexts(erased.body),
        left.filter((text) => text !== ''),
      )
      const kept = keptRecords(erased.body)!
      t.equal(kept.body.toString(), left.filter((text) => text !== '').join('\n'))
      t.same(
        kept.places,
        all.flatMap((_, n) => (isMeant(n) ? [] : [n])),
      )
      t.equal(kept.deleted, marks.length)
      let stepwise: Buffer = body
      for (const mark of marks) stepwise = eraseRecords(stepwise, holding(mark))!.body
      t.same(stepwise, erased.body)
      t.equal(eraseRecords(stepwise, holding(...marks)), null, 'a repeat finds nothing')
      for (let from = 0; from < count; from += 1)
        t.same(recordTexts(bodyFrom(erased.body, from)), left.slice(from))
      t.same(recordTextsIn(erased.body, { from: 1, limit: 2, maxBytes: 1000 }), left.slice(1, 3))
    }
  }
})

t.test('a body without deleted records stays as it is', async (t) => {
  const body = Buffer.from('{"n":1}\n{"n":2}')
  t.equal(
    eraseRecords(body, () => false),
    null,
  )
  t.equal(keptRecords(body), null)
  t.equal(keptRecords(Buffer.alloc(0)), null)
  const message: StoredMessage = { seq: 7, pipeId: 'p', msgId: 'm', receivedMs: 1, recordCount: 2, body }
  t.equal(withoutDeleted(message), message)
  const part = withoutDeleted({
    ...message,
    firstIndex: 5,
    recordCount: 3,
    body: Buffer.from('\n{"n":1}\n\n{"n":3}'),
  })
  t.same([part.recordCount, part.places, part.body.toString()], [2, [5, 7], '{"n":1}\n{"n":3}'])
})
