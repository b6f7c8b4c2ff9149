/** People who look messages up, search or follow a pipe see the records that are left. */
import '../buffer/typescript-workers.ts'
import path from 'node:path'
import t from 'tap'
import { MessageSearch } from '../../../src/log/segments/message-search.ts'
import { Commits } from '../../../src/observe/history/commits.ts'
import { openStoredHistory } from '../../../src/observe/history/stored-history.ts'
import { message, newPipeId, openAt, temporaryDirectory } from '../buffer/open.ts'

const everything = {
  beforeSeq: Number.MAX_SAFE_INTEGER,
  sinceMs: null,
  untilMs: null,
  ranges: null,
  limit: 10,
}

t.test('deleted records are not shown, and the others have their indexes', async (t) => {
  const root = temporaryDirectory(t)
  const pipe = newPipeId()
  const { handle, reader, feed } = await openAt(t, root)
  const records = ['{"user":"anna","n":0}', '{"user":"bert","n":1}', '{"user":"carl","n":2}']
  const send = (...texts: string[]) =>
    handle.appender.append(message(pipe, texts.join('\n'), { recordCount: texts.length }))
  const some = await send(...records)
  const none = await send(records[0]!)
  const conditions = [{ path: ['user'], value: 'anna' }]
  await handle.erasure!.erase({ pipeIds: [pipe], conditions })
  const history = openStoredHistory(
    reader,
    new MessageSearch(path.join(root, 'buffer')),
    new Commits(async () => feed),
  )

  t.match(await history.find(some.msgId), {
    recordTexts: records.slice(1),
    isTruncated: false,
    recordCount: 3,
  })
  t.match(await history.find(none.msgId), { recordTexts: [], isTruncated: false, recordCount: 1 })
  const listed = await history.list(pipe, { ...everything, where: null })
  t.match(
    listed.messages.map(({ excerpt }) => excerpt),
    [null, { index: 1, text: records[1], isCut: false }],
  )
  const found = await history.list(pipe, { ...everything, where: { path: 'user', value: 'carl' } })
  t.match(found.messages, [{ seq: some.seq, excerpt: { index: 2, text: records[2] } }])
  const gone = await history.list(pipe, { ...everything, where: { path: 'user', value: 'anna' } })
  t.same(gone.messages, [])
  const tail = await history.follow(pipe, await history.positionAt(pipe, 0), 10, 0)
  t.match(
    tail.records.map(({ index, text }) => [index, text]),
    [
      [1, records[1]],
      [2, records[2]],
    ],
  )
  t.equal(tail.omitted, 0)
})
