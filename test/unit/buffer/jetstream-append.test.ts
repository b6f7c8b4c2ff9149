/** Appends to a stream: what is acknowledged, in which order, under which key, and what is told about it. */
import { jetstreamManager } from '@nats-io/jetstream'
import t, { type Test } from 'tap'
import { v7 } from 'uuid'
import {
  commitsSubject,
  decodeHead,
  seqOf,
  streamName,
  streamSeqOf,
} from '../../../src/cluster/jetstream/frames.ts'
import { openJetStreamBuffer } from '../../../src/cluster/jetstream/open-buffer.ts'
import { BufferUnavailableError, type NewMessage, type SharedAppends } from '../../../src/log/buffer.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import { openPortAppender } from '../../../src/stores/open-log.ts'
import { until } from '../../support/until.ts'
import { jetStreamSpec, natsFor, readerOf } from './jetstream-open.ts'
import { MiB, message, newPipeId, quiet, readAll, textsOf, workspaceId } from './open.ts'

const onFatal = (error: Error) => {
  throw error
}

async function open(t: Test, spec: JetStreamSpec, liveness: SharedArrayBuffer | null = null) {
  const buffer = await openJetStreamBuffer(spec, { log: quiet, onFatal, liveness })
  t.teardown(() => buffer.close())
  return buffer
}

for (const replicas of [1, 3] as const)
  t.test(replicas === 1 ? 'one server' : 'a cluster of three', async (t) => {
    const nats = await natsFor(t, replicas)

    t.test(
      'what comes at once shares frames, at most 1,024 messages each, in the order it came',
      async (t) => {
        const spec = jetStreamSpec(t, nats)
        const { appender, histograms } = await openBound(t, spec)
        const pipeId = newPipeId()
        const texts = Array.from({ length: 5_000 }, (_, n) => `record ${n}`)
        const appended = await Promise.all(texts.map((text) => appender.append(message(pipeId, text))))
        t.same(textsOf(await readAll(await readerOf(t, spec), pipeId, 0, 2_000)), texts)
        for (const [n, { seq, repeated }] of appended.entries()) {
          t.notOk(repeated)
          if (n > 0) t.ok(seq > appended[n - 1]!.seq)
        }
        const { frameMessages, syncSeconds } = histograms()
        t.equal(frameMessages.sum, 5_000)
        const frames = frameMessages.counts.reduce((sum, count) => sum + count)
        t.ok(frames >= 5 && frames < 100, `${frames} frames`)
        t.equal(
          frameMessages.counts.slice(6).reduce((sum, count) => sum + count),
          0,
          'none is larger',
        )
        t.ok(syncSeconds.sum > 0)
      },
    )

    t.test('a lent body may change as soon as append has returned, also where it has to wait', async (t) => {
      const spec = jetStreamSpec(t, nats)
      const { appender } = await openBound(t, spec)
      const pipeId = newPipeId()
      const lent = Buffer.alloc(3 * MiB)
      const appends = [...'abcd'].map((letter) => {
        lent.fill(letter)
        return appender.append(message(pipeId, lent, { isBorrowed: true }))
      })
      lent.fill('x')
      await Promise.all(appends)
      const stored = await readAll(await readerOf(t, spec), pipeId)
      t.equal(stored.map(({ body }) => String.fromCharCode(body[0]!, body.at(-1)!)).join(), 'aa,bb,cc,dd')
    })

    t.test('a message as large as allowed is kept, a larger one is refused and harms nobody', async (t) => {
      const spec = jetStreamSpec(t, nats)
      const { appender } = await openBound(t, spec)
      const [pipeId, other] = [newPipeId(), newPipeId()]
      const [large, tooLarge, small] = await Promise.allSettled([
        appender.append(message(pipeId, Buffer.alloc(spec.maxBodyBytes))),
        appender.append(message(pipeId, Buffer.alloc(16 * MiB))),
        appender.append(message(other, 'x')),
      ])
      t.equal(large.status, 'fulfilled')
      t.equal(small.status, 'fulfilled')
      t.equal(tooLarge.status, 'rejected')
      t.match(tooLarge, { reason: { reason: 'write_failed', message: /max_payload/ } })
    })

    t.test('every node learns what was committed', async (t) => {
      const spec = jetStreamSpec(t, nats)
      const { appender, headSeq } = await openBound(t, spec)
      const connection = await nats.connect()
      t.teardown(() => connection.close())
      const heard = new Map<string, number>()
      connection.subscribe(commitsSubject(spec.cluster), {
        callback: (_, said) => {
          for (const [pipeId, seq] of said.json<[string, number][]>()) heard.set(pipeId, seq)
        },
      })
      await connection.flush()
      const pipes = [newPipeId(), newPipeId()]
      const acknowledged = new Map(pipes.map((pipeId) => [pipeId, new Set<number>()]))
      // The other servers of the cluster learn of the subscription a moment later; earlier announcements do not arrive.
      await until('both are announced', async () => {
        await Promise.all(
          [...pipes, ...pipes].map(async (pipeId) => {
            const { seq } = await appender.append(message(pipeId, 'x'))
            acknowledged.get(pipeId)!.add(seq)
          }),
        )
        return heard.size === 2
      })
      for (const [pipeId, seq] of heard) t.ok(acknowledged.get(pipeId)!.has(seq), 'one that was acknowledged')
      t.equal(await headSeq(), Math.max(...[...acknowledged.values()].flatMap((seqs) => [...seqs])))
    })

    t.test('the headers say what a frame has', async (t) => {
      const spec = jetStreamSpec(t, nats)
      const { appender } = await openBound(t, spec)
      const pipeId = newPipeId()
      const of = (text: string, receivedMs: number): NewMessage => ({
        ...{ pipeId, workspaceId, msgId: v7(), receivedMs, recordCount: 2 },
        body: Buffer.from(text),
      })
      const [{ seq }] = await Promise.all([
        appender.append(of('abc', 2_000)),
        appender.append(of('de', 1_000)),
      ])
      const connection = await nats.connect()
      const manager = await jetstreamManager(connection)
      const stored = await manager.streams.getMessage(streamName(spec.cluster), { seq: streamSeqOf(seq) })
      t.same(decodeHead(stored?.header), {
        ...{ workspaceId, messages: 2, records: 4, bytes: 5, firstMs: 1_000, lastMs: 2_000 },
      })
      await connection.close()
    })

    t.test('a node that is counted out accepts nothing, and again once it is back', async (t) => {
      const liveness = new SharedArrayBuffer(8)
      const until = new BigInt64Array(liveness)
      const { appender, status } = await openBound(t, jetStreamSpec(t, nats), liveness)
      const pipeId = newPipeId()
      const accepts = () => appender.append(message(pipeId, 'x'))
      await t.rejects(accepts(), { name: 'BufferUnavailableError', message: /could not renew its lease/ })
      t.equal((await status()).unavailableReason, 'not_in_cluster')
      Atomics.store(until, 0, process.hrtime.bigint() + 60_000_000_000n)
      await accepts()
      t.equal((await status()).unavailableReason, null)
      // It gathers, and is counted out before it is published.
      const gathered = accepts()
      Atomics.store(until, 0, process.hrtime.bigint() - 1n)
      await t.rejects(gathered, BufferUnavailableError)
      await t.rejects(accepts(), BufferUnavailableError)
    })

    t.test('what other threads append is counted once, and drained by itself', async (t) => {
      const spec = jetStreamSpec(t, nats)
      const buffer = await open(t, spec)
      const counted: SharedAppends[] = []
      buffer.onSharedAppends((appends) => counted.push(...appends))
      const others = await Promise.all([0, 1].map(() => openPortAppender(buffer.shareAppender())))
      const pipeId = newPipeId()
      const texts = Array.from({ length: 200 }, (_, n) => `${n}`)
      const appended = await Promise.all(
        texts.map((text, n) =>
          (others[n % 3] ?? buffer.appender).append(message(pipeId, text, { recordCount: 2 })),
        ),
      )
      t.equal(new Set(appended.map(({ seq }) => seq)).size, 200)
      const stored = await readAll(await readerOf(t, spec), pipeId)
      t.same(textsOf(stored).sort(), [...texts].sort())
      const sum = (n: number) => {
        const own = counted.filter(({ appender }) => appender === n)
        return [
          own.reduce((all, { messages }) => all + messages, 0),
          own.reduce((all, { records }) => all + records, 0),
        ]
      }
      await until('main knows of both', () => sum(0)[0]! + sum(1)[0]! === 134)
      t.same(
        [sum(0), sum(1)],
        [
          [67, 134],
          [67, 134],
        ],
      )
      t.equal(buffer.histograms().frameMessages.sum, 200)
      const last = others[0]!.append(message(pipeId, 'last'))
      await others[0]!.drain()
      await last
      await t.rejects(others[0]!.append(message(pipeId, 'x')), BufferUnavailableError)
      await buffer.appender.append(message(pipeId, 'x'))
      await others[1]!.drain()
    })

    t.test('closing settles what is under way, and takes no more', async (t) => {
      const spec = jetStreamSpec(t, nats)
      const buffer = await open(t, spec)
      const pipeId = newPipeId()
      const under = Array.from({ length: 50 }, () => buffer.appender.append(message(pipeId, 'x')))
      const closing = buffer.close()
      await t.rejects(buffer.appender.append(message(pipeId, 'x')), {
        name: 'BufferUnavailableError',
        message: /shutting down/,
      })
      t.equal((await Promise.all(under)).length, 50)
      await closing
      t.equal((await readAll(await readerOf(t, spec), pipeId)).length, 50)
    })

    t.test('the status is what the stream says', async (t) => {
      const spec = jetStreamSpec(t, nats)
      const buffer = await open(t, spec)
      t.match(await buffer.status(), { bytes: 0, segments: 0, oldestMs: null, unavailableReason: null })
      const before = Date.now()
      const { seq } = await buffer.appender.append(message(newPipeId(), Buffer.alloc(MiB)))
      t.equal(seq, seqOf(1, 0))
      await until('it is looked at again', async () => (await buffer.status()).segments === 1)
      const { bytes, oldestMs, freeBytes } = await buffer.status()
      t.ok(bytes > MiB && bytes < 1.1 * MiB)
      t.equal(freeBytes, spec.maxBytes - bytes)
      t.ok(oldestMs !== null && oldestMs >= before - 1_000 && oldestMs <= Date.now() + 1_000)
      t.equal(buffer.silentMs(), 0)
      t.equal((await buffer.appended()).size, 1)
    })
  })

/** Its methods by themselves. */
async function openBound(t: Test, spec: JetStreamSpec, liveness: SharedArrayBuffer | null = null) {
  const buffer = await open(t, spec, liveness)
  return {
    appender: buffer.appender,
    histograms: () => buffer.histograms(),
    headSeq: () => buffer.headSeq(),
    status: () => buffer.status(),
  }
}
