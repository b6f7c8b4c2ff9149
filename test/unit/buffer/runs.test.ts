/** Small messages are read many at a time: whatever their sizes and the limits are, it shows nowhere. */
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { asNdjson } from '../../../src/log/record-text.ts'
import { listSegments, segmentFile } from '../../../src/log/segments/layout.ts'
import { message, newPipeId, openAt, openReaderAt, readAll, temporaryDirectory, textsOf } from './open.ts'

/** Small ones, some of them with a null byte or not of ASCII, and a large one now and then; another pipe's in between. */
async function filled(t: Test, count: number) {
  const root = temporaryDirectory(t)
  const { handle, close } = await openAt(t, root)
  const [pipeId, other] = [newPipeId(), newPipeId()]
  const texts: string[] = []
  const seqs: number[] = []
  for (let n = 0; n < count; n += 1) {
    const text = `${n} ${n % 3 === 0 ? 'ü\u0000€' : 'x'}`.padEnd(n % 37 === 36 ? 9_000 : 20 + (n % 200), '.')
    const appends = [
      handle.appender.append(message(pipeId, text)),
      handle.appender.append(message(other, '-')),
    ]
    const [appended] = await Promise.all(appends)
    seqs.push(appended!.seq)
    texts.push(text)
  }
  await close()
  return { root, pipeId, texts, seqs }
}
type Test = Parameters<typeof temporaryDirectory>[0]

t.test('every message is read once, in order, whatever the limits are', async (t) => {
  const { root, pipeId, texts, seqs } = await filled(t, 700)
  const reader = openReaderAt(root)
  t.teardown(() => reader.close())
  for (const maxRecords of [1, 2, 3, 4, 5, 19, 20, 21, 22, 100, 700, 1_000])
    t.strictSame(textsOf(await readAll(reader, pipeId, 0, maxRecords)), texts, `${maxRecords} records`)
  for (const maxBytes of [1, 100, 1_000, 5_000, 9_000, 20_000, 1_000_000]) {
    const read: string[] = []
    for (let cursor = 0, isMore = true; isMore; ) {
      const run = await reader.read(pipeId, cursor, { maxRecords: 1_000, maxBytes })
      const bytes = run.messages.reduce((sum, { body }) => sum + body.length, 0)
      t.ok(bytes <= maxBytes || run.messages.length === 1, 'no more than the limit, or one message')
      read.push(...textsOf(run.messages))
      cursor = run.messages.at(-1)!.seq
      isMore = run.more
    }
    t.strictSame(read, texts, `${maxBytes} bytes`)
  }
  for (const through of [0, 3, 4, 5, 40, 333]) {
    const limits = { maxRecords: 1_000, maxBytes: 1_000_000, throughSeq: seqs[through]! }
    const { messages, more } = await reader.read(pipeId, 0, limits)
    t.strictSame(textsOf(messages), texts.slice(0, through + 1))
    t.notOk(more)
  }
})

for (const change of [
  `body = CAST('another' AS BLOB)`,
  `body = substr(body, 1, length(body) - 1)`,
  `body = x''`,
  'crc = crc + 1',
]) {
  t.test(`damage among small messages is one message's: ${change}`, async (t) => {
    const { root, pipeId, texts, seqs } = await filled(t, 100)
    const dir = path.join(root, 'buffer')
    const database = new Database(segmentFile(dir, listSegments(dir)[0]!))
    database.exec(`UPDATE message SET ${change} WHERE seq = ${seqs[60]}`)
    database.close()
    const reader = openReaderAt(root)
    t.teardown(() => reader.close())
    const { messages, damaged } = await reader.read(pipeId, 0, { maxRecords: 1_000, maxBytes: 1_000_000 })
    t.strictSame(
      damaged.map(({ seq }) => seq),
      [seqs[60]],
    )
    const expected = texts.filter((_, at) => at !== 60)
    t.strictSame(textsOf(messages), expected)
  })
}

t.test('a batch of one run is sent as it was read, without a copy', async (t) => {
  for (const bytes of [300, 40_000]) {
    const root = temporaryDirectory(t)
    const { handle, close } = await openAt(t, root)
    const pipeId = newPipeId()
    const texts = Array.from({ length: 300_000 / bytes }, (_, n) => `${n} `.padEnd(bytes, 'ü'))
    for (const text of texts) await handle.appender.append(message(pipeId, text))
    await close()
    const reader = openReaderAt(root)
    t.teardown(() => reader.close())
    const limits = { maxRecords: texts.length - 2, maxBytes: 10_000_000 }
    // The first read shows how many messages a run has.
    await reader.read(pipeId, 0, limits)
    const { messages, more } = await reader.read(pipeId, 0, limits)
    t.equal(more, true)
    const bodies = messages.map(({ body }) => body)
    const sent = asNdjson(bodies)
    t.equal(sent.toString(), `${texts.slice(0, -2).join('\n')}\n`)
    t.equal(sent.buffer, bodies[0]!.buffer, `${bytes} bytes`)
    const [first, ...others] = bodies
    const rearranged = asNdjson([...others, first!])
    t.equal(rearranged.toString(), `${[...texts.slice(1, -2), texts[0]].join('\n')}\n`)
    t.not(rearranged.buffer, bodies[0]!.buffer, 'other orders are copied')
    t.equal(asNdjson(others).toString(), `${texts.slice(1, -2).join('\n')}\n`)
  }
})

t.test('small bodies and bodies apart are copied', async (t) => {
  t.equal(asNdjson([]).toString(), '\n')
  const pooled = Buffer.from('{"n":1}\n{"n":2}\n')
  const bodies = [pooled.subarray(0, 7), pooled.subarray(8, 15)]
  t.equal(asNdjson(bodies).toString(), '{"n":1}\n{"n":2}\n')
  t.not(asNdjson(bodies).buffer, pooled.buffer)
  const large = Buffer.allocUnsafeSlow(200_000).fill('x')
  const apart = [large.subarray(0, 99_999), large.subarray(100_000)]
  t.equal(asNdjson(apart).toString(), `${'x'.repeat(99_999)}\n${'x'.repeat(100_000)}\n`)
  t.notOk(large.includes('\n'), 'the memory of the bodies is not changed')
})
