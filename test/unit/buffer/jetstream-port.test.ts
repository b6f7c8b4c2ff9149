/** The whole port on JetStream: one server, and a cluster of three. */
import t, { type Test } from 'tap'
import { openJetStreamFeed } from '../../../src/cluster/jetstream/feed.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import type { KeyStore } from '../../../src/log/key-store.ts'
import { openBuffer } from '../../../src/stores/open-log.ts'
import { type BufferUnderTest, testBufferPort } from './conformance.ts'
import { jetStreamSpec, keysFor, natsFor, readerOf } from './jetstream-open.ts'
import { quiet } from './open.ts'

const databases = await keysFor(t)

for (const replicas of [1, 3] as const)
  t.test(replicas === 1 ? 'one server' : 'a cluster of three', async (t) => {
    const nats = await natsFor(t, replicas)
    const spec = jetStreamSpec(t, nats)
    const { keys } = await databases.create(t)
    await testBufferPort(t, (t) => openPort(t, spec, keys))
  })

async function openPort(t: Test, spec: JetStreamSpec, keys: KeyStore): Promise<BufferUnderTest> {
  const onFatal = (error: Error) => {
    throw error
  }
  const buffer = await openBuffer(spec, { log: quiet, onFatal, keys })
  const reader = await readerOf(t, spec)
  const feed = await openJetStreamFeed(spec)
  let isClosed = false
  const close = async () => {
    if (isClosed) return
    isClosed = true
    await buffer.close()
    feed.close()
  }
  t.teardown(close)
  return {
    appender: buffer.appender,
    reader,
    feed,
    headSeq: () => buffer.headSeq(),
    async reopen() {
      await close()
      return await openPort(t, spec, keys)
    },
  }
}
