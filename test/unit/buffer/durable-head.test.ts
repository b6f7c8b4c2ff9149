/** What is committed and not yet synced is in the files, and no reader sees it: a power cut could still take it. */
import t from 'tap'
import { DurableHead, newDurableHead } from '../../../src/buffer/segments/durable-head.ts'
import {
  countOf,
  MiB,
  message,
  newPipeId,
  openAt,
  openReaderAt,
  readAll,
  temporaryDirectory,
  textsOf,
} from './open.ts'

t.test('readers stop at the durable head, whatever they ask for', async (t) => {
  const root = temporaryDirectory(t)
  const durableHead = newDurableHead()
  const { handle, reader } = await openAt(t, root, { durableHead })
  const [pipeId, late] = [newPipeId(), newPipeId()]
  const receivedMs = Date.now()
  for (const [index, text] of ['1', '2', '3', '4'].entries())
    await handle.appender.append(message(pipeId, text, { receivedMs: receivedMs + index * 10_000 }))
  await handle.appender.append(message(late, '5', { receivedMs: receivedMs + 50_000 }))
  const head = new DurableHead(durableHead)
  t.equal(head.seq, 5, 'what is acknowledged is durable')

  // As while the sync of the third and all after it is under way.
  head.set(2)
  const limits = { maxRecords: 100, maxBytes: MiB }
  t.same(textsOf((await reader.read(pipeId, 0, limits)).messages), ['1', '2'])
  t.same(textsOf((await reader.read(pipeId, 0, { ...limits, throughSeq: 4 })).messages), ['1', '2'])
  t.equal((await reader.head(pipeId)).seq, 2)
  t.equal((await reader.head(late)).seq, 0)
  t.same(await reader.heads(0), {
    newestSeq: 2,
    pipes: new Map([
      [pipeId, 2],
      [late, 0],
    ]),
  })
  t.equal(await reader.heads(2), null)
  t.equal((await reader.cursorAt(pipeId, 4)).seq, 2)
  t.equal(await reader.cursorAtTime(pipeId, receivedMs + 25_000), 2)
  t.equal((await countOf(reader, pipeId)).messages, 2)
  t.equal((await countOf(reader, pipeId, 4)).messages, 2)
  const ahead = await openReaderAt(root).head(pipeId)
  t.equal(ahead.seq, 4, 'control: the others are in the file')
  t.equal((await reader.relocate(pipeId, ahead)).missing, 2)

  head.set(5)
  t.same(textsOf(await readAll(reader, pipeId)), ['1', '2', '3', '4'])
  t.equal((await reader.heads(0))?.newestSeq, 5)
})
