/** Large batches are read in slices between which the event loop runs: their content is that of one read. */
import t from 'tap'
import { systemClock } from '../../../src/delivery/clock.ts'
import { PatientReader, SharedReads } from '../../../src/delivery/read-ahead.ts'
import type { BufferReader, ReadLimits } from '../../../src/log/buffer.ts'
import { openLog } from '../../../src/platform/log.ts'
import { KiB, MiB, message, newPipeId, openAt, quiet, temporaryDirectory, textsOf } from '../buffer/open.ts'

/** About 9 MiB: messages of every size, two of them larger than a slice. */
async function filled(t: Test) {
  const { handle, reader } = await openAt(t, temporaryDirectory(t))
  const [pipeId, other] = [newPipeId(), newPipeId()]
  const seqs: number[] = []
  for (let n = 0; n < 240; n += 1) {
    const bytes = n === 50 || n === 51 ? 1.5 * MiB : (1 + (n % 50)) * KiB
    const appends = [
      handle.appender.append(message(pipeId, `${n} `.padEnd(bytes, '.'))),
      handle.appender.append(message(other, '-')),
    ]
    const [appended] = await Promise.all(appends)
    seqs.push(appended!.seq)
  }
  const shared = new SharedReads(systemClock, openLog(quiet, 'test'))
  return { pipeId, seqs, reader, sliced: new PatientReader(reader, systemClock, shared) }
}
type Test = Parameters<typeof temporaryDirectory>[0]

const everything = { maxRecords: Number.MAX_SAFE_INTEGER, maxBytes: Number.MAX_SAFE_INTEGER }

t.test('the messages, and whether there are more, are those of one read', async (t) => {
  const { pipeId, seqs, reader, sliced } = await filled(t)
  const limits: ReadLimits[] = [everything]
  for (const maxRecords of [1, 49, 50, 51, 52, 100, 239, 240, 241]) limits.push({ ...everything, maxRecords })
  for (let maxBytes = 1; maxBytes < 12 * MiB; maxBytes = Math.ceil(maxBytes * 1.3))
    limits.push({ ...everything, maxBytes })
  for (const at of [0, 49, 50, 51, 239]) limits.push({ ...everything, throughSeq: seqs[at]! })
  for (const limit of limits)
    for (const after of [0, seqs[49]!, seqs[50]!]) {
      const [one, slices] = [await reader.read(pipeId, after, limit), await sliced.read(pipeId, after, limit)]
      const name = JSON.stringify({ ...limit, after })
      t.strictSame(textsOf(slices.messages), textsOf(one.messages), name)
      t.equal(slices.more, one.more, name)
      t.strictSame(slices.messages.at(-1)?.mark, one.messages.at(-1)?.mark)
    }
})

t.test(
  'the event loop runs between the slices, one read after another, and not within one read',
  async (t) => {
    const { pipeId, reader, sliced } = await filled(t)
    const turnsDuring = async (of: BufferReader, reads: number): Promise<number> => {
      let turns = 0
      let isOver = false
      const count = () => {
        turns += 1
        if (!isOver) setImmediate(count)
      }
      setImmediate(count)
      await Promise.all(Array.from({ length: reads }, () => of.read(pipeId, 0, everything)))
      isOver = true
      return turns
    }
    t.ok((await turnsDuring(reader, 1)) <= 1, 'control: one read is one turn')
    const one = await turnsDuring(sliced, 1)
    t.ok(one >= 7, `${one} turns`)
    const four = await turnsDuring(sliced, 4)
    t.ok(four >= 3.5 * one, `reads at the same time take turns: ${four}`)
  },
)
