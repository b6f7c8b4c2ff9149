/**
 * The conformance suite of the buffer's port. The caller opens an adapter; nothing here knows how it keeps messages.
 */
import { randomBytes } from 'node:crypto'
import type { Test } from 'tap'
import type { Appender, BufferFeed, BufferReader, OpenBuffer } from '../../../src/log/buffer.ts'
import { until } from '../../support/until.ts'
import { countOf, idempotent, KiB, MiB, message, newPipeId, readAll, textsOf } from './open.ts'

export interface BufferUnderTest {
  appender: Appender
  reader: BufferReader
  feed: BufferFeed
  headSeq: OpenBuffer['headSeq']
  /** Closes it and opens the same messages again. */
  reopen(): Promise<BufferUnderTest>
}

const plenty = { maxRecords: 10_000, maxBytes: 64 * MiB }

/** `open` makes a fresh, empty buffer that is closed at the end of the given test. One serves all tests: pipes do not mix. */
export async function testBufferPort(t: Test, open: (t: Test) => Promise<BufferUnderTest>): Promise<void> {
  const shared = await open(t)
  let reopened = shared
  t.test('an empty buffer: every cursor is at 0, nothing is counted, a read finds nothing', async (t) => {
    const { headSeq, reader } = shared
    const pipeId = newPipeId()
    t.equal(await headSeq(), 0)
    const head = await reader.head(pipeId)
    t.equal(head.seq, 0)
    t.same(await reader.earliest(pipeId), head)
    t.same(await reader.cursorAt(pipeId, 1_000), head)
    t.same(await reader.backlog(pipeId, head), { messages: 0, records: 0, bytes: 0 })
    t.same(await reader.read(pipeId, 0, plenty), { messages: [], more: false, damaged: [], lost: [] })
    t.equal(await reader.cursorAtTime(pipeId, 0), 0)
    t.same(await reader.pipeIds(), [])
  })

  t.test(
    'seq ascends in the order of the appends to a pipe, and a reader sees what is acknowledged',
    async (t) => {
      const { appender, headSeq, reader } = shared
      const pipes = [newPipeId(), newPipeId(), newPipeId()]
      const appends = Array.from({ length: 300 }, (_, n) => ({ pipeId: pipes[n % 3]!, text: `record ${n}` }))
      const answers = await Promise.all(
        appends.map(({ pipeId, text }) => appender.append(message(pipeId, text))),
      )
      t.equal(new Set(answers.map(({ seq }) => seq)).size, 300, 'over all pipes no seq is given twice')
      t.equal(await headSeq(), Math.max(...answers.map(({ seq }) => seq)))
      for (const [p, pipeId] of pipes.entries()) {
        const stored = await readAll(reader, pipeId, 0, 7)
        const own = answers.filter((_, n) => n % 3 === p)
        for (const [n, { seq }] of own.entries()) if (n > 0) t.ok(seq > own[n - 1]!.seq)
        t.same(
          textsOf(stored),
          appends.filter((_, n) => n % 3 === p).map(({ text }) => text),
        )
        t.same(
          stored.map(({ seq, msgId }) => ({ seq, msgId })),
          own.map(({ seq, msgId }) => ({ seq, msgId })),
        )
      }
      // A message that is appended after an acknowledgement comes after it, in any pipe.
      const later: number[] = []
      for (const pipeId of pipes) later.push((await appender.append(message(pipeId, 'later'))).seq)
      t.ok(later[0]! > Math.max(...answers.map(({ seq }) => seq)))
      t.ok(later[2]! > later[1]! && later[1]! > later[0]!)
    },
  )

  t.test('every field and every byte comes back as it was given, from an empty body to 10 MiB', async (t) => {
    const { appender, reader } = shared
    const pipeId = newPipeId()
    const sizes = [0, 1, 499, 4 * KiB, 64 * KiB + 1, MiB, 10 * MiB]
    const given = sizes.map((size, n) =>
      message(pipeId, randomBytes(size), { recordCount: n + 1, receivedMs: 1_700_000_000_000 + n }),
    )
    await Promise.all(given.map((one) => appender.append(one)))
    const { messages } = await reader.read(pipeId, 0, plenty)
    t.equal(messages.length, given.length)
    for (const [n, { seq: _, mark: __, body, ...fields }] of messages.entries()) {
      const { body: expected, ...expectedFields } = given[n]!
      t.same(fields, expectedFields)
      t.ok(body.equals(expected), `${expected.length} bytes`)
    }
  })

  t.test('append copies the body: the caller may use it again at once', async (t) => {
    const { appender, reader } = shared
    const pipeId = newPipeId()
    const body = Buffer.from('first')
    const appended = appender.append(message(pipeId, body))
    body.fill('x')
    await appended
    t.same(textsOf(await readAll(reader, pipeId)), ['first'])
  })

  t.test('a run holds whole messages within its limits, and at least one', async (t) => {
    const { appender, reader } = shared
    const pipeId = newPipeId()
    const seqs: number[] = []
    for (const recordCount of [2, 3, 5, 1]) {
      const { seq } = await appender.append(message(pipeId, 'x'.repeat(recordCount * 100), { recordCount }))
      seqs.push(seq)
    }
    const run = async (afterSeq: number, limits: object) => {
      const { messages, more } = await reader.read(pipeId, afterSeq, { ...plenty, ...limits })
      return { records: messages.map(({ recordCount }) => recordCount), more }
    }
    t.same(await run(0, { maxRecords: 5 }), { records: [2, 3], more: true })
    t.same(await run(0, { maxRecords: 9 }), { records: [2, 3], more: true })
    t.same(await run(0, { maxBytes: 500 }), { records: [2, 3], more: true })
    t.same(await run(0, { maxRecords: 1 }), { records: [2], more: true }, 'over the limit, but it goes alone')
    t.same(await run(seqs[1]!, { maxBytes: 1 }), { records: [5], more: true })
    t.same(await run(0, { maxRecords: 11 }), { records: [2, 3, 5, 1], more: false })
    t.same(await run(0, { throughSeq: seqs[2] }), { records: [2, 3, 5], more: false })
    t.same(await run(seqs[3]!, {}), { records: [], more: false })
  })

  t.test('a backlog counts what was appended after a cursor, to the pipe alone', async (t) => {
    const { appender, reader } = shared
    const [a, b] = [newPipeId(), newPipeId()]
    const beginning = await reader.head(a)
    const ofA: number[] = []
    for (let n = 1; n <= 50; n += 1) {
      ofA.push((await appender.append(message(a, 'x'.repeat(n), { recordCount: n }))).seq)
      await appender.append(message(b, 'other'))
    }
    const sum = (n: number) => (n * (n + 1)) / 2
    const between = (from: number, to: number) => ({
      messages: to - from,
      records: sum(to) - sum(from),
      bytes: sum(to) - sum(from),
    })
    t.same(await reader.backlog(a, beginning), between(0, 50))
    t.same(await reader.backlog(a, beginning, ofA[19]!), between(0, 20))
    const at20 = await reader.cursorAt(a, ofA[19]!)
    t.equal(at20.seq, ofA[19])
    t.same(await reader.cursorAt(a, ofA[19]! + 1), at20, 'between two of its messages')
    t.same(await reader.backlog(a, at20), between(20, 50))
    t.same(await reader.backlog(a, at20, ofA[29]!), between(20, 30))
    t.same(await reader.backlog(a, at20, ofA[9]!), between(0, 0), 'nothing lies before the cursor')
    t.same(await reader.cursorAt(a, Number.MAX_SAFE_INTEGER), await reader.head(a))
    t.same(await reader.backlog(a, await reader.head(a)), between(0, 0))
    t.same(await reader.cursorAt(a, 0), beginning)
    t.same(await reader.earliest(a), beginning)
    const { messages } = await reader.read(a, at20.seq, { ...plenty, maxRecords: 60 })
    t.same(
      await reader.backlog(a, messages[1]!),
      between(22, 50),
      'a message is read with the mark of the cursor after it',
    )
    t.ok(at20.mark.length <= 100)
    t.doesNotThrow(() => JSON.parse(at20.mark))
  })

  t.test('the ids of the pipes that have messages are known', async (t) => {
    const { appender, reader } = shared
    const [used, unused] = [newPipeId(), newPipeId()]
    await appender.append(message(used, 'x'))
    const ids = await reader.pipeIds()
    t.equal(ids.filter((id) => id === used).length, 1)
    t.notOk(ids.includes(unused))
  })

  t.test('delivery is told the newest seq of every pipe after each commit', async (t) => {
    const { appender, feed, reader } = shared
    const newest = new Map<string, number>()
    const unreadable: string[] = []
    feed.onCommitted(async (pipes) => {
      for (const [pipeId, seq] of pipes) {
        newest.set(pipeId, seq)
        if ((await reader.head(pipeId)).seq < seq) unreadable.push(pipeId)
      }
    })
    const pipes = Array.from({ length: 20 }, newPipeId)
    const answers = await Promise.all(pipes.map((pipeId) => appender.append(message(pipeId, 'x'))))
    await until('every pipe is announced', () => pipes.every((pipeId) => newest.has(pipeId)))
    t.same(
      pipes.map((pipeId) => newest.get(pipeId)),
      answers.map(({ seq }) => seq),
    )
    t.same(unreadable, [], 'what is announced can be read')
  })

  t.test(
    'Idempotency-Key: the same key on the same pipe is kept once and gets the same response',
    async (t) => {
      const { appender, reader } = shared
      const [pipeId, other] = [newPipeId(), newPipeId()]
      const keyed = (pipe: string, idempotencyKey: string, recordCount: number) =>
        appender.append(
          message(pipe, `${idempotencyKey} ${recordCount}`, { ...idempotent(idempotencyKey), recordCount }),
        )
      const [first, again, plain, elsewhere] = await Promise.all([
        keyed(pipeId, 'k', 1),
        keyed(pipeId, 'k', 2),
        appender.append(message(pipeId, 'plain')),
        keyed(other, 'k', 3),
      ])
      const later = await keyed(pipeId, 'k', 4)
      t.equal(first.repeated, false)
      t.same(
        [again, later],
        [
          { ...first, repeated: true },
          { ...first, repeated: true },
        ],
      )
      t.equal(elsewhere.repeated, false, 'a key belongs to its pipe')
      // A key can need a look elsewhere, so its message can come behind one that was appended later.
      const [texts, ordered] =
        first.seq < plain.seq
          ? [
              ['k 1', 'plain'],
              [first, plain],
            ]
          : [
              ['plain', 'k 1'],
              [plain, first],
            ]
      const stored = await readAll(reader, pipeId)
      t.same(textsOf(stored), texts)
      t.same(
        stored.map(({ seq }) => seq),
        ordered.map(({ seq }) => seq),
      )
      t.equal((await countOf(reader, pipeId)).messages, 2, 'a repeat is not counted')
    },
  )

  t.test('Idempotency-Key: another body under a used key is rejected, and nothing is kept', async (t) => {
    const { appender, reader } = shared
    const pipeId = newPipeId()
    const first = await appender.append(message(pipeId, 'first', idempotent('k', 'hash 1')))
    const reused = appender.append(message(pipeId, 'other', idempotent('k', 'hash 2')))
    await t.rejects(reused, { name: 'IdempotencyKeyReusedError' })
    const again = await appender.append(message(pipeId, 'again', idempotent('k', 'hash 1')))
    t.same(again, { ...first, repeated: true })
    const [won, lost] = await Promise.allSettled([
      appender.append(message(pipeId, 'one', idempotent('at once', 'hash 1'))),
      appender.append(message(pipeId, 'two', idempotent('at once', 'hash 2'))),
    ])
    t.equal(won.status, 'fulfilled')
    t.match(lost, { status: 'rejected', reason: { name: 'IdempotencyKeyReusedError' } })
    t.same(textsOf(await readAll(reader, pipeId)), ['first', 'one'])
  })

  t.test('Idempotency-Key: a repeat is found without appending', async (t) => {
    const { appender, reader } = shared
    const [pipeId, other] = [newPipeId(), newPipeId()]
    const find = (pipe: string, hash: string) => appender.findRepeat(pipe, idempotent('k', hash).idempotency)
    t.equal(await find(pipeId, 'hash 1'), null)
    const first = await appender.append(message(pipeId, 'x', idempotent('k', 'hash 1')))
    t.same(await find(pipeId, 'hash 1'), { ...first, repeated: true })
    t.equal(await find(pipeId, 'hash 2'), 'reused')
    t.equal(await find(other, 'hash 1'), null)
    t.equal((await readAll(reader, pipeId)).length, 1)
  })

  t.test('a cursor from a time: every message received then or later comes after it', async (t) => {
    const { appender, reader } = shared
    const [pipeId, other] = [newPipeId(), newPipeId()]
    const startMs = 1_700_000_000_000
    const seqs: number[] = []
    for (let n = 0; n < 60; n += 1) {
      const receivedMs = startMs + n * 60_000
      await appender.append(message(other, 'x'.repeat(200), { receivedMs }))
      seqs.push((await appender.append(message(pipeId, 'x'.repeat(200), { receivedMs }))).seq)
    }
    for (const n of [0, 1, 29, 59]) {
      t.equal(await reader.cursorAtTime(pipeId, startMs + n * 60_000), seqs[n]! - 1, `exactly message ${n}`)
      t.equal(await reader.cursorAtTime(pipeId, startMs + n * 60_000 - 1), seqs[n]! - 1, `just before ${n}`)
    }
    t.equal(await reader.cursorAtTime(pipeId, startMs + 60 * 60_000), seqs[59], 'after all: the head')
  })

  t.test('a restart keeps messages, totals, seqs and keys', async (t) => {
    const before = shared
    const pipeId = newPipeId()
    for (let n = 0; n < 20; n += 1) await before.appender.append(message(pipeId, `record ${n}`))
    const first = await before.appender.append(message(pipeId, 'keyed', idempotent('k')))
    const head = await before.reader.head(pipeId)
    const after = await before.reopen()
    reopened = after
    t.equal(await after.headSeq(), first.seq)
    t.same(await after.reader.head(pipeId), head)
    const again = await after.appender.append(message(pipeId, 'keyed', idempotent('k')))
    t.same(again, { ...first, repeated: true })
    const next = await after.appender.append(message(pipeId, 'next'))
    t.ok(next.seq > first.seq)
    t.same(
      await after.reader.backlog(pipeId, head),
      { messages: 1, records: 1, bytes: 4 },
      'a mark counts on',
    )
    t.equal((await countOf(after.reader, pipeId)).messages, 22)
    t.equal((await readAll(after.reader, pipeId)).length, 22)
  })

  t.test('drain answers what was appended and rejects what comes after', async (t) => {
    const { appender } = reopened
    const pipeId = newPipeId()
    const before = Array.from({ length: 100 }, () => appender.append(message(pipeId, 'x')))
    await appender.drain()
    const answers = await Promise.all(before)
    t.equal(new Set(answers.map(({ seq }) => seq)).size, 100)
    await t.rejects(appender.append(message(pipeId, 'late')), {
      name: 'BufferUnavailableError',
      reason: 'closing',
    })
  })
}
