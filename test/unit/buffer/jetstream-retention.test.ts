/**
 * The messages that the owner of pipes purges from a stream, those that it never purges, and the senders that are
 * held back when the stream is nearly full.
 */
import { jetstreamManager } from '@nats-io/jetstream'
import t, { type Test } from 'tap'
import { openJetStreamFeed } from '../../../src/cluster/jetstream/feed.ts'
import { pipeSubjects, streamName } from '../../../src/cluster/jetstream/frames.ts'
import { openJetStreamBuffer } from '../../../src/cluster/jetstream/open-buffer.ts'
import { type OwnedEpoch, openRetentionKeeper } from '../../../src/cluster/jetstream/retention.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import type { KeyStore } from '../../../src/log/key-store.ts'
import { openLog } from '../../../src/platform/log.ts'
import type { TestNats } from '../../support/nats.ts'
import { until } from '../../support/until.ts'
import { jetStreamSpec, keysFor, natsFor, readerOf } from './jetstream-open.ts'
import { idempotent, KiB, MiB, message, newPipeId, quiet, readAll, watermark } from './open.ts'

const onFatal = (error: Error) => {
  throw error
}
const oneSecond = 1 / 3_600

const databases = await keysFor(t)

async function openAll(
  t: Test,
  nats: TestNats,
  overrides: Partial<JetStreamSpec> = {},
  owned?: OwnedEpoch,
  keys: KeyStore | null = null,
) {
  const spec = jetStreamSpec(t, nats, overrides)
  const buffer = await openJetStreamBuffer(spec, { log: quiet, onFatal, keys })
  const reader = await readerOf(t, spec)
  const connection = await nats.connect()
  const manager = await jetstreamManager(connection)
  /** Frames that the stream has: a reader may have in memory what is dropped. */
  const framesOf = async (pipeId: string) => {
    const query = { subjects_filter: pipeSubjects({ cluster: spec.cluster, pipeId }) }
    const { state } = await manager.streams.info(streamName(spec.cluster), query)
    return Object.values(state.subjects ?? {}).reduce((sum, frames) => sum + frames, 0)
  }
  const keeper = await openRetentionKeeper(spec, reader, openLog(quiet, 'test'), {
    owned,
    keyAttempts: keys?.attempts,
  })
  const feed = await openJetStreamFeed(spec, keeper)
  t.teardown(async () => {
    feed.close()
    await buffer.close()
    await connection.close()
  })
  return { spec, buffer, appender: buffer.appender, reader, feed, framesOf }
}

for (const replicas of [1, 3] as const)
  t.test(replicas === 1 ? 'one server' : 'a cluster of three', async (t) => {
    const nats = await natsFor(t, replicas)

    t.test('delivered and old goes, whatever else stays, and totals go on', async (t) => {
      const { spec, appender, reader, feed, framesOf } = await openAll(t, nats, {
        deliveredHours: oneSecond,
      })
      const [pipeId, unknown] = [newPipeId(), newPipeId()]
      const seqs: number[] = []
      for (let n = 0; n < 10; n += 1) {
        seqs.push((await appender.append(message(pipeId, `${n}`))).seq)
        await appender.append(message(unknown, `${n}`))
      }
      let dropped = 0
      feed.onDropped(() => {
        dropped += 1
      })
      await until('what is delivered is purged', async () => {
        feed.reportLowWatermarks([watermark(pipeId, seqs[6]!)])
        return (await framesOf(pipeId)) === 4
      })
      await until('lanes are notified, by a message after the purge', () => dropped > 0)
      const fresh = await readerOf(t, spec)
      t.same(
        (await readAll(fresh, pipeId)).map(({ seq }) => seq),
        seqs.slice(6),
        'the frame that the watermark lies in stays',
      )
      t.equal(await framesOf(unknown), 10, 'nobody has spoken of it')
      t.equal((await reader.backlog(pipeId, await reader.cursorAt(pipeId, seqs[7]!))).messages, 2)
    })

    t.test('what an owner reported counts only as long as it owns the pipe under that epoch', async (t) => {
      const epochs = new Map<string, number>()
      const { appender, feed, framesOf } = await openAll(
        t,
        nats,
        { deliveredHours: oneSecond },
        (pipeId) => epochs.get(pipeId) ?? null,
      )
      const [lost, regained, never, kept] = [newPipeId(), newPipeId(), newPipeId(), newPipeId()]
      for (const pipeId of [lost, regained, kept]) epochs.set(pipeId, 1)
      const seqs = new Map<string, number>()
      for (const pipeId of [lost, regained, never, kept])
        for (let n = 0; n < 3; n += 1) seqs.set(pipeId, (await appender.append(message(pipeId, `${n}`))).seq)
      feed.reportLowWatermarks([...seqs].map(([pipeId, seq]) => watermark(pipeId, seq)))
      epochs.delete(lost)
      epochs.set(regained, 3)
      await until('the pipe that is owned is purged', async () => {
        feed.reportLowWatermarks([watermark(kept, seqs.get(kept)!)])
        return (await framesOf(kept)) === 1
      })
      for (const pipeId of [lost, regained, never]) t.equal(await framesOf(pipeId), 3)
    })

    t.test('a delivered frame with keys goes as others do, and its keys stay used', async (t) => {
      const { keys } = await databases.create(t)
      const { appender, feed, framesOf } = await openAll(
        t,
        nats,
        { deliveredHours: oneSecond },
        undefined,
        keys,
      )
      const pipeId = newPipeId()
      const keyed = await appender.append(message(pipeId, 'x', idempotent('k')))
      let last = keyed.seq
      for (let n = 0; n < 3; n += 1) last = (await appender.append(message(pipeId, 'x'))).seq
      await until('all but the newest are purged', async () => {
        feed.reportLowWatermarks([watermark(pipeId, last)])
        return (await framesOf(pipeId)) === 1
      })
      t.same(await appender.append(message(pipeId, 'x', idempotent('k'))), { ...keyed, repeated: true })
    })

    t.test('a frame whose keys are not settled stays, with what is newer, until they are', async (t) => {
      const { keys } = await databases.create(t)
      const ended = { ...keys, settle: () => Promise.reject(new Error('its node has ended')) }
      const { spec, appender, feed, framesOf } = await openAll(
        t,
        nats,
        { deliveredHours: oneSecond },
        undefined,
        ended,
      )
      const pipeId = newPipeId()
      for (let n = 0; n < 3; n += 1) await appender.append(message(pipeId, 'x'))
      const keyed = await appender.append(message(pipeId, 'x', idempotent('k')))
      let last = keyed.seq
      for (let n = 0; n < 3; n += 1) last = (await appender.append(message(pipeId, 'x'))).seq
      const report = () => feed.reportLowWatermarks([watermark(pipeId, last)])
      await until('what is older is purged', async () => {
        report()
        return (await framesOf(pipeId)) === 4
      })
      t.equal((await readAll(await readerOf(t, spec), pipeId))[0]?.seq, keyed.seq)
      const other = await openJetStreamBuffer(spec, { log: quiet, onFatal, keys })
      t.teardown(() => other.close())
      t.same(await other.appender.append(message(pipeId, 'x', idempotent('k'))), { ...keyed, repeated: true })
      await until('it is purged', async () => {
        report()
        // The newest, and the void that the other node's chain began with.
        return (await framesOf(pipeId)) === 2
      })
    })

    t.test('delivered history is kept within its size, the newest of it', async (t) => {
      const limits = { deliveredMaxBytes: 2 * MiB, maxBytes: 64 * MiB }
      const { spec, appender, feed, framesOf } = await openAll(t, nats, limits)
      const [delivered, waiting] = [newPipeId(), newPipeId()]
      let last = 0
      for (let n = 0; n < 60; n += 1) {
        last = (await appender.append(message(delivered, Buffer.alloc(100 * KiB)))).seq
        if (n % 3 === 0) await appender.append(message(waiting, Buffer.alloc(100 * KiB)))
      }
      await until('the history is within its limit', async () => {
        feed.reportLowWatermarks([watermark(delivered, last), watermark(waiting, 0)])
        return (await framesOf(delivered)) < 25
      })
      const left = await readAll(await readerOf(t, spec), delivered)
      t.ok(left.length >= 10, `${left.length} of 60 are left, about 20 fit`)
      t.equal(left.at(-1)?.seq, last)
      t.equal(await framesOf(waiting), 20)
    })

    t.test('nothing of a deleted pipe stays', async (t) => {
      const { keys } = await databases.create(t)
      const { appender, feed, framesOf } = await openAll(t, nats, {}, undefined, keys)
      const [pipeId, other] = [newPipeId(), newPipeId()]
      for (const id of [pipeId, other]) {
        await appender.append(message(id, 'x'))
        await appender.append(message(id, 'x', idempotent('k')))
      }
      feed.pipeDeleted(pipeId)
      await until('it is purged', async () => (await framesOf(pipeId)) === 0)
      t.equal(await framesOf(other), 3, 'two, and the void that the chain of frames with keys begins with')
    })
  })

t.test(
  'a pipe over its share of a nearly full buffer is kept back, others are not, until there is room',
  async (t) => {
    const nats = await natsFor(t)
    const { appender, feed, buffer } = await openAll(t, nats, { maxBytes: 8 * MiB })
    const [greedy, modest] = [newPipeId(), newPipeId()]
    const report = (seq: number) => feed.reportLowWatermarks([watermark(greedy, seq), watermark(modest, 0)])
    let last = 0
    for (let n = 0; n < 68; n += 1)
      last = (await appender.append(message(greedy, Buffer.alloc(100 * KiB)))).seq
    let wanted = 0
    feed.onReportWanted(() => {
      wanted += 1
    })
    const outcome = () =>
      appender.append(message(greedy, 'x')).then(
        () => 'accepted',
        (error: { reason: string }) => error.reason,
      )
    await until('it is kept back', async () => {
      report(0)
      return (await outcome()) === 'pipe_share'
    })
    t.ok(wanted > 0, 'lanes are asked how far they are')
    await appender.append(message(modest, Buffer.alloc(100 * KiB)))
    t.equal((await buffer.status()).unavailableReason, null, 'the buffer is not full')
    await until('what it had is delivered, and it may go on', async () => {
      report(last)
      return (await outcome()) === 'accepted'
    })
  },
)
