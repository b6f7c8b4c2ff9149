/** The status of a buffer in JetStream while the stream rejects requests or does not respond. */
import { jetstreamManager } from '@nats-io/jetstream'
import { headers } from '@nats-io/transport-node'
import t, { type Test } from 'tap'
import {
  encodeHead,
  frameSubject,
  messagesPerFrame,
  seqOf,
  streamName,
} from '../../../src/cluster/jetstream/frames.ts'
import { openJetStreamBuffer } from '../../../src/cluster/jetstream/open-buffer.ts'
import { BufferUnavailableError } from '../../../src/log/buffer.ts'
import { openBufferContact, openPortAppender } from '../../../src/stores/open-log.ts'
import { until } from '../../support/until.ts'
import { jetStreamSpec, natsFor } from './jetstream-open.ts'
import { message, newPipeId, quiet } from './open.ts'

const nats = await natsFor(t)

async function open(t: Test) {
  const spec = jetStreamSpec(t, nats)
  const buffer = await openJetStreamBuffer(spec, {
    log: quiet,
    onFatal(error) {
      throw error
    },
  })
  t.teardown(() => buffer.close())
  const connection = await nats.connect()
  t.teardown(() => connection.close())
  return { spec, buffer, connection }
}

for (const from of ['main', 'another thread'] as const)
  t.test(`after a rejected append of ${from} the status says so, until the stream answers`, async (t) => {
    const { spec, buffer, connection } = await open(t)
    const appender = from === 'main' ? buffer.appender : await openPortAppender(buffer.shareAppender())
    await appender.append(message(newPipeId(), 'first'))
    t.equal((await buffer.status()).unavailableReason, null)
    const manager = await jetstreamManager(connection)
    const { config } = await manager.streams.info(streamName(spec.cluster))
    await manager.streams.delete(streamName(spec.cluster))
    await t.rejects(appender.append(message(newPipeId(), 'second')), BufferUnavailableError)
    await until('it says so', async () => (await buffer.status()).unavailableReason === 'write_failed')
    if (from === 'main') {
      await t.rejects(appender.append(message(newPipeId(), 'third')), BufferUnavailableError)
      t.equal((await buffer.status()).unavailableReason, 'write_failed', 'at once')
    }
    await manager.streams.add(config)
    await until('it takes records', async () => (await buffer.status()).unavailableReason === null)
    if (from !== 'main') await appender.drain()
  })

t.test('a newest message that is no frame is a gap', async (t) => {
  const { spec, buffer, connection } = await open(t)
  const { cluster } = spec
  const manager = await jetstreamManager(connection)
  await buffer.appender.append(message(newPipeId(), 'first'))
  const wrongCount = headers()
  wrongCount.append('Pipectl-Count', 'many')
  const tooMany = encodeHead({
    workspaceId: '',
    messages: 5_000,
    records: 1,
    bytes: 1,
    firstMs: 1,
    lastMs: 1,
  })
  const subject = frameSubject({ cluster, pipeId: newPipeId() })
  const elsewhere = subject.replace(/\.f$/, '.y.z')
  for (const [name, to, options] of [
    ['no headers', subject, {}],
    ['a header that is no number', subject, { headers: wrongCount }],
    ['more messages than a frame can have', subject, { headers: tooMany }],
    ['another subject', elsewhere, {}],
  ] as const) {
    connection.publish(to, '{"x":1}', options)
    await connection.flush()
    const { state } = await manager.streams.info(streamName(cluster))
    t.equal(await buffer.headSeq(), seqOf(state.last_seq, messagesPerFrame - 1), name)
  }
  const { seq } = await buffer.appender.append(message(newPipeId(), 'next'))
  t.equal(await buffer.headSeq(), seq)
})

t.test('a contact is lost while the stream does not answer, although the server does', async (t) => {
  const { spec, connection } = await open(t)
  const contact = await openBufferContact(spec)
  t.teardown(() => contact?.close())
  t.equal(contact?.now.isLost, false)
  await (await jetstreamManager(connection)).streams.delete(streamName(spec.cluster))
  await until('it is lost', () => contact?.now.isLost === true)
})
