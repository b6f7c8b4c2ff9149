/** Several threads append to one buffer: each with an appender of its own, as here several in one thread. */
import t from 'tap'
import { IdempotencyKeyReusedError, type SharedAppends } from '../../../src/log/buffer.ts'
import { joinFrames, splitCommitted } from '../../../src/log/segments/writer-queue.ts'
import { openPortAppender } from '../../../src/stores/open-log.ts'
import { until } from '../../support/until.ts'
import { testBufferPort } from './conformance.ts'
import {
  idempotent,
  KiB,
  MiB,
  message,
  newPipeId,
  openAt,
  readAll,
  temporaryDirectory,
  textsOf,
} from './open.ts'

t.test('an appender of another thread keeps the port', async (t) =>
  testBufferPort(t, async (t) => {
    const root = temporaryDirectory(t)
    const open = async () => {
      const { handle, reader, feed, close } = await openAt(t, root)
      const reopen = async () => {
        await close()
        return open()
      }
      const appender = await openPortAppender(handle.shareAppender())
      return { appender, headSeq: () => handle.headSeq(), reader, feed, reopen }
    }
    return open()
  }),
)

t.test(
  'four appenders at once: one order, nothing lost, and what others appended is counted once',
  async (t) => {
    const { handle, reader } = await openAt(t, temporaryDirectory(t), { segmentMaxBytes: 256 * KiB })
    const counted: SharedAppends[] = []
    handle.onSharedAppends((appends) => counted.push(...appends))
    const others = await Promise.all([1, 2, 3].map(() => openPortAppender(handle.shareAppender())))
    const appenders = [handle.appender, ...others]
    const pipes = [newPipeId(), newPipeId()]
    const size = 300
    const results = await Promise.all(
      appenders.flatMap((appender, a) =>
        Array.from({ length: size }, async (_, n) => {
          // Let them overlap: not all of one appender's messages in one frame.
          for (let turn = 0; turn < n % 10; turn++) await new Promise((resolve) => setImmediate(resolve))
          const pipeId = pipes[n % 2]!
          const text = `${a}/${n}`
          const { seq, msgId } = await appender.append(message(pipeId, text, { recordCount: 2 }))
          return { pipeId, text, seq, msgId }
        }),
      ),
    )
    t.equal(new Set(results.map(({ seq }) => seq)).size, results.length, 'no seq twice')
    for (const pipeId of pipes) {
      const stored = await readAll(reader, pipeId)
      const wanted = results.filter((one) => one.pipeId === pipeId).sort((a, b) => a.seq - b.seq)
      t.strictSame(
        stored.map(({ seq, msgId }) => ({ seq, msgId })),
        wanted.map(({ seq, msgId }) => ({ seq, msgId })),
      )
      t.strictSame(
        textsOf(stored),
        wanted.map(({ text }) => text),
      )
    }
    await handle.headSeq()
    const sum = (of: (one: SharedAppends) => number) => counted.reduce((total, one) => total + of(one), 0)
    t.equal(
      sum(({ messages }) => messages),
      3 * size,
    )
    for (const index of others.keys())
      t.equal(
        sum(({ appender, messages }) => (appender === index ? messages : 0)),
        size,
        'of each appender',
      )
    t.equal(
      sum(({ records }) => records),
      6 * size,
    )
    const bytes = results.slice(size).reduce((total, { text }) => total + text.length, 0)
    t.equal(
      sum((one) => one.bytes),
      bytes,
    )
  },
)

t.test('an Idempotency-Key is one message over all appenders, and only that is counted', async (t) => {
  const { handle, reader } = await openAt(t, temporaryDirectory(t))
  let counted = 0
  handle.onSharedAppends((appends) => {
    for (const { messages } of appends) counted += messages
  })
  const appenders = await Promise.all([1, 2, 3].map(() => openPortAppender(handle.shareAppender())))
  const pipeId = newPipeId()
  const append = (index: number, key: string, hash?: string) =>
    appenders[index]!.append(message(pipeId, `${index}`, idempotent(key, hash)))
  const results = await Promise.all([0, 1, 2].map((index) => append(index, 'k')))
  t.equal(results.filter(({ repeated }) => repeated).length, 2)
  t.equal(new Set(results.map(({ msgId }) => msgId)).size, 1)
  await t.rejects(append(1, 'k', 'other'), IdempotencyKeyReusedError)
  t.equal(await appenders[2]!.findRepeat(pipeId, { key: 'k', bodyHash: 'other' }), 'reused')
  t.equal((await readAll(reader, pipeId)).length, 1)
  await until('it is counted', () => counted === 1)
})

t.test('a buffer that is full says so to every appender', async (t) => {
  const { handle } = await openAt(t, temporaryDirectory(t), {
    maxBytes: 300 * KiB,
    segmentMaxBytes: 64 * KiB,
  })
  const one = await openPortAppender(handle.shareAppender())
  const other = await openPortAppender(handle.shareAppender())
  const pipeId = newPipeId()
  const isFull = async () => {
    const refused = await one.append(message(pipeId, 'x'.repeat(16 * KiB))).catch((error) => error)
    return refused.name === 'BufferUnavailableError'
  }
  while (!(await isFull())) {}
  await t.rejects(other.append(message(pipeId, 'x'.repeat(16 * KiB))), { name: 'BufferUnavailableError' })
})

t.test('a message that does not fit any more keeps none out that came beside it', async (t) => {
  const { handle } = await openAt(t, temporaryDirectory(t), { maxBytes: 4 * MiB, segmentMaxBytes: 4 * MiB })
  const others = await Promise.all([1, 2, 3].map(() => openPortAppender(handle.shareAppender())))
  const pipeId = newPipeId()
  await handle.appender.append(message(pipeId, 'x'.repeat(MiB)))
  const large = message(pipeId, 'x'.repeat(3.5 * MiB))
  for (let round = 0; round < 40; round += 1) {
    // The writer commits the first ones; what comes meanwhile it takes together.
    const small = others.flatMap((one) => [
      one.append(message(pipeId, 'small')),
      one.append(message(pipeId, 'small')),
    ])
    const [rejected, ...accepted] = await Promise.allSettled([handle.appender.append(large), ...small])
    if (rejected.status === 'fulfilled') t.fail('the large one fits')
    else t.match(rejected.reason, { name: 'BufferUnavailableError', reason: 'over_quota' })
    t.ok(
      accepted.every(({ status }) => status === 'fulfilled'),
      `round ${round}: the small ones are accepted`,
    )
  }
})

t.test('joined frames are split where they were joined', async (t) => {
  const frame = (count: number, text: string) => {
    const bytes = Buffer.from(text)
    // As it comes: with room behind what it holds.
    const buffer = new ArrayBuffer(64)
    new Uint8Array(buffer).set(bytes)
    return { buffer, length: bytes.length, count }
  }
  const alone = frame(1, 'a')
  t.equal(joinFrames([alone]), alone)
  const frames = [frame(2, 'aabb'), frame(1, 'c'), frame(3, 'ddeeff')] as const
  const joined = joinFrames([...frames])
  t.equal(Buffer.from(joined.buffer, 0, joined.length).toString(), 'aabbcddeeff')
  t.equal(joined.count, 6)
  const skipped = [1, 2, 5].map((index) => ({ index, kind: 'pipe_share' as const }))
  t.strictSame(splitCommitted(frames, { firstSeq: 10, skipped }), [
    { firstSeq: 10, skipped: [{ index: 1, kind: 'pipe_share' }] },
    { firstSeq: 11, skipped: [{ index: 0, kind: 'pipe_share' }] },
    { firstSeq: 11, skipped: [{ index: 2, kind: 'pipe_share' }] },
  ])
})
