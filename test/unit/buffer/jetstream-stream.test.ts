/** The streams are made once, taken over when they are ours, and refused with what is wrong when they are not. */
import { spawn } from 'node:child_process'
import { connect } from 'node:net'
import { jetstreamManager } from '@nats-io/jetstream'
import t, { type Test } from 'tap'
import { v4 } from 'uuid'
import { streamName, totalsStreamName } from '../../../src/cluster/jetstream/frames.ts'
import { openJetStreamBuffer } from '../../../src/cluster/jetstream/open-buffer.ts'
import { BufferUnavailableError } from '../../../src/log/buffer.ts'
import type { JetStreamSpec } from '../../../src/log/buffer-spec.ts'
import { ConfigError } from '../../../src/platform/config-error.ts'
import { announcing } from '../../support/announced-version.ts'
import { freePort } from '../../support/free-port.ts'
import { startNats, type TestNats } from '../../support/nats.ts'
import { programFile } from '../../support/programs.ts'
import { until } from '../../support/until.ts'
import { jetStreamSpec, natsFor } from './jetstream-open.ts'
import { MiB, message, newPipeId, quiet } from './open.ts'

const onFatal = (error: Error) => {
  throw error
}

async function open(t: Test, spec: JetStreamSpec) {
  const buffer = await openJetStreamBuffer(spec, { log: quiet, onFatal })
  t.teardown(() => buffer.close())
  return buffer
}

async function refused(t: Test, spec: JetStreamSpec, ...said: RegExp[]) {
  const error: unknown = await openJetStreamBuffer(spec, { log: quiet, onFatal }).catch((error) => error)
  t.ok(error instanceof ConfigError, String(error))
  for (const text of said) t.match((error as Error).message, text)
}

async function managerOf(t: Test, nats: TestNats) {
  const connection = await nats.connect()
  t.teardown(() => connection.close())
  return await jetstreamManager(connection)
}

t.test('one server', async (t) => {
  const nats = await natsFor(t)
  const identity = { dataDirId: v4(), epoch: 1 }

  t.test('nodes that start at once make one stream', async (t) => {
    const spec = jetStreamSpec(t, nats, { identity })
    const nodes = await Promise.all([open(t, spec), open(t, spec), open(t, spec)])
    const pipeId = newPipeId()
    for (const { appender } of nodes) await appender.append(message(pipeId, 'x'))
    const { state, config } = await (await managerOf(t, nats)).streams.info(streamName(spec.cluster))
    t.equal(state.messages, 3)
    t.match(config, {
      discard: 'new',
      storage: 'file',
      num_replicas: 1,
      max_bytes: spec.maxBytes,
      allow_direct: true,
    })
    t.equal(config.max_age, 168 * 3_600 * 1_000_000_000)
  })

  t.test('what settings may change is taken over, and nothing is lost', async (t) => {
    const spec = jetStreamSpec(t, nats, { identity })
    const first = await open(t, spec)
    const { seq } = await first.appender.append(message(newPipeId(), 'x'))
    await first.close()
    const again = await open(t, { ...spec, maxBytes: 512 * MiB, undeliveredHours: 24, knownSeq: seq })
    t.equal(await again.headSeq(), seq)
    const { config } = await (await managerOf(t, nats)).streams.info(streamName(spec.cluster))
    t.equal(config.max_bytes, 512 * MiB)
    t.equal(config.max_age, 24 * 3_600 * 1_000_000_000)
  })

  t.test("somebody else's stream is refused with every difference, and left as it is", async (t) => {
    const spec = jetStreamSpec(t, nats, { identity })
    const manager = await managerOf(t, nats)
    const name = streamName(spec.cluster)
    await manager.streams.add({ name, subjects: ['elsewhere'], max_msgs: 5 })
    await refused(t, spec, /was not made by pipectl/, /cluster\.name/)
    const ours = JSON.stringify({ pipectl: 1, data_dir_id: identity.dataDirId })
    await manager.streams.update(name, { description: ours })
    await refused(
      t,
      spec,
      /subjects is \["elsewhere"\]/,
      /max_msgs is 5, not -1/,
      /discard is "old", not "new"/,
    )
    await manager.streams.update(name, { description: JSON.stringify({ pipectl: 1, data_dir_id: 'other' }) })
    await refused(t, spec, /belongs to the metadata other/)
    await manager.streams.update(name, { description: JSON.stringify({ pipectl: 2, data_dir_id: 'other' }) })
    await refused(t, spec, /has format 2/, /upgrade/)
    t.same((await manager.streams.info(name)).config.subjects, ['elsewhere'])
  })

  t.test('subjects that another stream takes, and replicas without a cluster', async (t) => {
    const spec = jetStreamSpec(t, nats)
    const manager = await managerOf(t, nats)
    await manager.streams.add({ name: `taken-${spec.cluster}`, subjects: [`pipectl.${spec.cluster}.>`] })
    await refused(t, spec, /another stream has the subjects/, /cluster\.name/)
    await refused(t, jetStreamSpec(t, nats, { replicas: 3 }), /cluster\.replicas is 3/, /three are needed/)
  })

  t.test('max_payload must hold the largest body and its head', async (t) => {
    const spec = jetStreamSpec(t, nats, { maxBodyBytes: 16 * MiB })
    await refused(
      t,
      spec,
      /16777216 bytes/,
      /max_payload: 16781312/,
      /lower ingest\.max_body_bytes to 16773120/,
    )
    await open(t, jetStreamSpec(t, nats, { maxBodyBytes: 16 * MiB - 4096 }))
  })

  t.test('a stream with more room than the servers have', async (t) => {
    await refused(t, jetStreamSpec(t, nats, { maxBytes: 2 ** 50 }), /no room/, /Lower buffer\.max_bytes/)
  })

  t.test('a stream that ends before what lanes have delivered is refused', async (t) => {
    const spec = jetStreamSpec(t, nats, { identity })
    const before = await open(t, spec)
    const pipeId = newPipeId()
    let knownSeq = 0
    for (let n = 0; n < 5; n += 1) knownSeq = (await before.appender.append(message(pipeId, 'x'))).seq
    await before.close()
    const manager = await managerOf(t, nats)
    await open(t, { ...spec, knownSeq }).then((buffer) => buffer.close())

    const name = streamName(spec.cluster)
    await manager.streams.delete(name)
    await refused(
      t,
      { ...spec, knownSeq },
      /ends with frame 0/,
      /delivered frame 5/,
      /pipectl nodes renumber/,
    )
    await refused(t, { ...spec, knownSeq }, /ends with frame 0/)
  })

  t.test(
    'a stream that is made anew while a node runs ends the node, and nothing is acknowledged',
    async (t) => {
      const spec = jetStreamSpec(t, nats, { identity })
      const fatal: Error[] = []
      const buffer = await openJetStreamBuffer(spec, { log: quiet, onFatal: (error) => fatal.push(error) })
      t.teardown(() => buffer.close())
      for (let n = 0; n < 3; n += 1) await buffer.appender.append(message(newPipeId(), 'x'))
      const manager = await managerOf(t, nats)
      await manager.streams.delete(streamName(spec.cluster))
      await t.rejects(buffer.appender.append(message(newPipeId(), 'x')), BufferUnavailableError)
      t.equal(fatal.length, 0, 'no stream is no new stream')
      await open(t, spec)
      await t.rejects(buffer.appender.append(message(newPipeId(), 'x')), BufferUnavailableError)
      t.match(fatal[0]?.message, /was created again/)
      await t.rejects(buffer.appender.append(message(newPipeId(), 'x')), BufferUnavailableError)
    },
  )

  t.test('the stream of totals outlives the messages by a day', async (t) => {
    const spec = jetStreamSpec(t, nats, { identity })
    await open(t, spec)
    const { config } = await (await managerOf(t, nats)).streams.info(totalsStreamName(spec.cluster))
    t.equal(config.max_age, (168 + 24) * 3_600 * 1_000_000_000)
  })
})

t.test('a server that wants a password says so, and the password is in no message', async (t) => {
  const nats = await startNats({ auth: { user: 'pipectl', password: 'right' }, maxPayload: 16 * MiB })
  t.teardown(() => nats.stop())
  const spec = jetStreamSpec(t, nats)
  const servers = nats.servers.map(({ url }) => url)
  await refused(t, { ...spec, nats: { ...spec.nats, servers } }, /user and password/)
  const wrong = { ...spec.nats, servers, user: 'pipectl', password: 'wrong-one' }
  const error: unknown = await openJetStreamBuffer({ ...spec, nats: wrong }, { log: quiet, onFatal }).catch(
    (e) => e,
  )
  t.match((error as Error).message, /rejects the user pipectl/)
  t.notMatch((error as Error).message, /wrong-one/)
  await open(t, { ...spec, nats: { ...wrong, password: 'right' } })
})

t.test('a server without JetStream is named', async (t) => {
  const port = await freePort()
  const child = spawn(programFile('nats-server'), ['-a', '127.0.0.1', '-p', String(port)], {
    stdio: 'ignore',
  })
  t.teardown(() => child.kill('SIGKILL'))
  await until('it takes connections', () => connects(port))
  const one = { url: `nats://127.0.0.1:${port}`, servers: [{}] } as TestNats
  await refused(t, jetStreamSpec(t, one, { maxBodyBytes: 1_000 }), /JetStream is not enabled/, /-js/)
})

t.test('a cluster of three', async (t) => {
  const nats = await natsFor(t, 3)
  const identity = { dataDirId: v4(), epoch: 1 }

  t.test('one copy becomes three, and three are not made one in silence', async (t) => {
    const one = jetStreamSpec(t, nats, { identity, replicas: 1 })
    await open(t, one).then((buffer) => buffer.close())
    const three = { ...one, replicas: 3 }
    const nodes = await Promise.all([open(t, three), open(t, three), open(t, three)])
    const { config } = await (await managerOf(t, nats)).streams.info(streamName(one.cluster))
    t.equal(config.num_replicas, 3)
    await nodes[0]!.appender.append(message(newPipeId(), 'x'))
    await refused(t, one, /cluster\.replicas is 1/, /has 3/)
  })

  t.test(
    'an old server: replicas are not begun on it, those that are there go on, with a warning',
    async (t) => {
      const [first, second, third] = nats.servers.map(({ port, url }) => ({ port, url }))
      const withOld = async (spec: JetStreamSpec) => {
        const servers = [first!.url, await announcing(t, second!.port, '2.9.10'), third!.url]
        return { ...spec, nats: { ...spec.nats, servers } }
      }
      const spec = jetStreamSpec(t, nats, { identity })
      await refused(
        t,
        await withOld(spec),
        /:\d+ is nats-server 2\.9\.10: three replicas need 2\.10\.27 or newer/,
        /cluster\.replicas = 1/,
      )
      const manager = await managerOf(t, nats)
      await t.rejects(manager.streams.info(streamName(spec.cluster)), 'nothing is made')
      await open(t, await withOld({ ...spec, replicas: 1 })).then((buffer) => buffer.close())
      await refused(t, await withOld(spec), /three replicas need/)
      await open(t, spec).then((buffer) => buffer.close())
      const buffer = await open(t, await withOld(spec))
      await buffer.appender.append(message(newPipeId(), 'x'))
    },
  )

  t.test('without a majority a start waits, and says what it waits for', async (t) => {
    const spec = jetStreamSpec(t, nats, { identity })
    await open(t, spec).then((buffer) => buffer.close())
    const manager = await managerOf(t, nats)
    const [alive, ...others] = nats.servers
    await Promise.all(others.map((server) => server.kill()))
    // Until the remaining server notices the loss, it answers from what it knows.
    await until('the loss is noticed', () =>
      manager.streams.info(streamName(spec.cluster)).then(
        () => false,
        () => true,
      ),
    )
    const waiting = openJetStreamBuffer(
      { ...spec, nats: { ...spec.nats, servers: [alive!.url] } },
      { log: quiet, onFatal },
    )
    const first = await Promise.race([waiting.then(() => 'opened', String), onceDue(3_000)])
    t.equal(first, 'waits')
    await Promise.all(others.map((server) => server.restart()))
    const buffer = await waiting
    await buffer.appender.append(message(newPipeId(), 'x'))
    await buffer.close()
  })
})

function connects(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false))
    socket.once('close', () => socket.destroy())
    socket.once('connect', () => socket.end())
  })
}

function onceDue(ms: number): Promise<string> {
  return new Promise((resolve) => setTimeout(() => resolve('waits'), ms))
}
