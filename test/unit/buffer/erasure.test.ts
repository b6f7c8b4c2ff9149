/** Records are deleted from the log of one machine; everything else in it stays as it was. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import type { Appended } from '../../../src/log/buffer.ts'
import type { ErasureRequest, FoundRecord } from '../../../src/log/erasure.ts'
import { checkSegment } from '../../../src/log/segments/check-segment.ts'
import { listSegments } from '../../../src/log/segments/layout.ts'
import { MessageSearch } from '../../../src/log/segments/message-search.ts'
import {
  countOf,
  KiB,
  message,
  newPipeId,
  type OpenedBuffer,
  openAt,
  readAll,
  temporaryDirectory,
  textsOf,
} from './open.ts'

const secret = 'anna@example.com'
const small = { segmentMaxBytes: 64 * KiB }

const body = (...users: string[]) =>
  users.map((user, n) => JSON.stringify({ user, n, filler: 'f'.repeat(600) })).join('\n')
const request = (...pipeIds: string[]): ErasureRequest => ({
  pipeIds,
  conditions: [{ path: ['user'], value: secret }],
})

/** The files under the directory that contain the text. */
function filesWith(root: string, text: string): string[] {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' })
  return names.filter((name) => {
    const file = path.join(root, name)
    return path.extname(name) !== '' && existsSync(file) && readFileSync(file).includes(text)
  })
}

/** Three messages of three users, the second of whom is to be forgotten, in many segments; and one message without others. */
async function filled(t: Test, root: string) {
  const [pipe, other] = [newPipeId(), newPipeId()]
  const opened = await openAt(t, root, small)
  const { appender } = opened.handle
  const sent: Appended[] = []
  for (let n = 0; n < 60; n += 1) {
    const users = [`u${n}`, secret, `v${n}`]
    sent.push(await appender.append(message(pipe, body(...users), { recordCount: 3 })))
    await appender.append(message(other, body(`w${n}`)))
  }
  sent.push(await appender.append(message(pipe, body(secret))))
  return { pipe, other, sent, ...opened }
}

async function foundOf({ handle }: OpenedBuffer, wanted: ErasureRequest): Promise<FoundRecord[]> {
  const found: FoundRecord[] = []
  for await (const one of handle.erasure!.find(wanted)) found.push(one)
  return found
}

t.test('the records are found, deleted from every file, and nothing else changes', async (t) => {
  const root = temporaryDirectory(t)
  const scene = await filled(t, root)
  const { pipe, other, sent, handle, reader } = scene
  const before = await readAll(reader, pipe)
  const othersBefore = textsOf(await readAll(reader, other))
  const counts = await countOf(reader, pipe)
  t.ok(filesWith(root, secret).length > 2)

  const found = await foundOf(scene, request(pipe, other))
  t.same(
    found.map(({ streamSeq, recordIndex }) => [streamSeq, recordIndex]),
    sent.map(({ seq, recordCount }) => [seq, recordCount === 3 ? 1 : 0]),
  )
  t.equal(found[0]!.msgId, sent[0]!.msgId)
  t.equal(found[0]!.pipeId, pipe)

  const seen: number[] = []
  const done = await handle.erasure!.erase(request(pipe), ({ filesLeft }) => seen.push(filesLeft))
  t.equal(done.messages, 61)
  t.equal(done.records, 61)
  t.ok(done.files > 2 && done.filesLeft === 0)
  t.same(
    seen,
    [...seen].sort((a, b) => b - a),
    'it says how many files are left',
  )

  t.same(await foundOf(scene, request(pipe)), [])
  t.same(filesWith(root, secret), [])
  const after = await readAll(reader, pipe)
  t.same(
    after.map(({ seq, msgId, recordCount }) => [seq, msgId, recordCount]),
    before.map(({ seq, msgId, recordCount }) => [seq, msgId, recordCount]),
    'each message keeps its seq and its count',
  )
  t.same(
    textsOf(after),
    textsOf(before).map((text, n) => {
      const [first, , third] = text.split('\n')
      return n === 60 ? '\n' : `\n${first}\n\n${third}`
    }),
  )
  t.same(textsOf(await readAll(reader, other)), othersBefore)
  t.same(await countOf(reader, pipe), counts)
  const search = new MessageSearch(path.join(root, 'buffer'))
  t.equal((await search.find(sent[60]!.msgId))?.body.toString(), '\n')
  for (const name of listSegments(path.join(root, 'buffer')).slice(0, -1)) {
    const { problems, lostMessages } = checkSegment(path.join(root, 'buffer'), name)
    t.same([problems, lostMessages], [[], 0])
  }
  const again = await handle.erasure!.erase(request(pipe))
  t.same(again, { messages: 0, records: 0, files: 0, filesLeft: 0 }, 'a repeat has nothing to do')
})

t.test('another pipe with the same value, and later messages, are not touched', async (t) => {
  const root = temporaryDirectory(t)
  const scene = await filled(t, root)
  const { pipe, other, handle, reader } = scene
  await handle.appender.append(message(other, body(secret)))
  const throughSeq = await handle.headSeq()
  await handle.appender.append(message(pipe, body(secret)))
  const { messages } = await handle.erasure!.erase({ ...request(pipe), throughSeq })
  t.equal(messages, 61)
  t.equal(textsOf(await readAll(reader, pipe)).at(-1), body(secret))
  t.equal(textsOf(await readAll(reader, other)).at(-1), body(secret))
  t.same(await foundOf(scene, { ...request(pipe), throughSeq }), [])
  t.equal((await foundOf(scene, request(pipe, other))).length, 2)
})

t.test('messages are appended and read while records are deleted', async (t) => {
  const root = temporaryDirectory(t)
  const { pipe, handle, reader, close } = await filled(t, root)
  let isDone = false
  const erasing = handle.erasure!.erase(request(pipe)).finally(() => {
    isDone = true
  })
  const late: string[] = []
  while (!isDone) {
    late.push(body(`late${late.length}`))
    await handle.appender.append(message(pipe, late.at(-1)!))
  }
  const { messages } = await erasing
  t.equal(messages, 61)
  t.ok(late.length > 0)
  t.same(textsOf(await readAll(reader, pipe)).slice(61), late)
  await close()
  const again = await openAt(t, root, small)
  t.same(textsOf(await readAll(again.reader, pipe)).slice(61), late, 'also after a start')
  t.same(await foundOf(again, request(pipe)), [])
  t.same(filesWith(root, secret), [])
})

t.test('a deletion can be cancelled, and continued by another', async (t) => {
  const root = temporaryDirectory(t)
  const { pipe, handle } = await filled(t, root)
  const controller = new AbortController()
  const onProgress = () => controller.abort(new Error('cancelled'))
  await t.rejects(handle.erasure!.erase(request(pipe), onProgress, controller.signal), {
    message: 'cancelled',
  })
  const { messages } = await handle.erasure!.erase(request(pipe))
  t.ok(messages > 0 && messages < 61, `${messages} were left`)
  t.same(filesWith(root, secret), [])
})

t.test('quarantined files with the records are removed, others stay', async (t) => {
  const root = temporaryDirectory(t)
  const { pipe, other, handle } = await filled(t, root)
  const quarantine = path.join(root, 'quarantine')
  mkdirSync(path.join(quarantine, 'segments'), { recursive: true })
  const put = (name: string, text: string) => writeFileSync(path.join(quarantine, name), text)
  const escaped = '{"user":"anna\\u0040example.com"}'
  put('1-a.body', `{"user":"${secret}", broken`)
  put('1-a.json', JSON.stringify({ pipe_id: pipe }, null, 2))
  put('2-b.body', `\u0000broken\n${escaped}`)
  put('2-b.json', JSON.stringify({ pipe_id: pipe }, null, 2))
  put('3-c.body', `{"user":"${secret}", broken`)
  put('3-c.json', JSON.stringify({ pipe_id: other }, null, 2))
  put('4-d.body', '{"user":"someone"}')
  put('4-d.json', JSON.stringify({ pipe_id: pipe }, null, 2))
  put('segments/00000000000000000001.db', `${pipe} ${secret}`)
  put('segments/00000000000000000002.db', `${pipe} someone`)
  put('segments/00000000000000000002.db-wal', `${secret}`)
  put('segments/00000000000000000003.db', `${other} ${secret}`)
  const { files } = await handle.erasure!.erase(request(pipe))
  t.ok(files > 5)
  t.same(readdirSync(quarantine).sort(), [
    '1-a.json',
    '2-b.json',
    '3-c.body',
    '3-c.json',
    '4-d.body',
    '4-d.json',
    'segments',
  ])
  t.same(readdirSync(path.join(quarantine, 'segments')), ['00000000000000000003.db'])
})
