/** The whole port on JetStream: one server, and a cluster of three. */
import t, { type Test } from 'tap'
import { openJetStreamFeed } from '../../../src/buffer/jetstream/feed.ts'
import type { JetStreamSpec } from '../../../src/buffer/jetstream/spec.ts'
import { openBuffer } from '../../../src/buffer/open.ts'
import { type BufferUnderTest, testBufferPort } from './conformance.ts'
import { jetStreamSpec, natsFor, readerOf } from './jetstream-open.ts'
import { quiet } from './open.ts'

for (const replicas of [1, 3] as const)
  t.test(replicas === 1 ? 'one server' : 'a cluster of three', async (t) => {
    const nats = await natsFor(t, replicas)
    const spec = jetStreamSpec(t, nats)
    await testBufferPort(t, (t) => openPort(t, spec))
  })

async function openPort(t: Test, spec: JetStreamSpec): Promise<BufferUnderTest> {
  const onFatal = (error: Error) => {
    throw error
  }
  const buffer = await openBuffer(spec, { log: quiet, onFatal })
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
      return await openPort(t, spec)
    },
  }
}
