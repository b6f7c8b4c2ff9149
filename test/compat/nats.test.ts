/** NATS JetStream as a destination, in several versions. */
import { spawnSync } from 'node:child_process'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { debianProgram } from '../support/debian-programs.ts'
import { drained, readAll } from '../support/ledger.ts'
import { startNats, type TestNats } from '../support/nats.ts'
import { until } from '../support/until.ts'
import { tried, versionIn } from './results.ts'

const daemon = await startDaemon()
t.teardown(() => daemon.close())

async function stored(nats: TestNats): Promise<number[]> {
  const connection = await nats.connect()
  try {
    const manager = await jetstreamManager(connection)
    const { state } = await manager.streams.info('EVENTS')
    const numbers = []
    for (let seq = state.first_seq; seq <= state.last_seq; seq += 1) {
      const message = await manager.streams.getMessage('EVENTS', { seq })
      if (message !== null) numbers.push(message.json<{ n: number }>().n)
    }
    return numbers
  } finally {
    await connection.close()
  }
}

for (const release of ['trixie', 'sid'] as const)
  await tried(t, `nats-${release}`, async (t) => {
    const program = debianProgram(release, { packages: ['nats-server'], file: 'usr/sbin/nats-server' })
    const nats = await startNats({ program, syncAlways: true })
    t.teardown(() => nats.stop())
    const connection = await nats.connect()
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name: 'EVENTS', subjects: ['events.>'] })
    await connection.close()
    const [server] = nats.servers
    const pipeId = await daemon.createPipe({ pipe_name: release })
    const pull = { destination_type: 'destination_pull', destination_config: {} }
    const pullId = await daemon.createDestination(pipeId, pull)
    const id = await daemon.createDestination(pipeId, {
      destination_type: 'destination_nats',
      destination_config: { url: nats.url, subject: 'events.{pipe_name}', stream: 'EVENTS' },
      on_permanent_error: 'park',
    })
    let sent = 0
    const send = (count: number, more: object = {}) =>
      daemon.ingest(
        pipeId,
        Array.from({ length: count }, () => ({ n: sent++, ...more })),
      )
    await send(300)
    for (let message = 0; message < 20; message += 1) await send(1)
    await drained(daemon, pipeId, id)

    const sending = (async () => {
      for (let message = 0; message < 40; message += 1) await send(5)
    })()
    await server?.kill()
    await sending
    await send(50)
    await until('the lane retries', async () => (await daemon.lane(pipeId, id)).lane_state === 'retrying')
    await server?.restart()
    await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${id}/retry-now`)
    await drained(daemon, pipeId, id)

    // More than the server's max_payload of 1 MiB.
    const tooLarge = sent
    await send(1, { fill: 'x'.repeat(1 << 20) })
    await send(10)
    const lane = await drained(daemon, pipeId, id)
    t.match(lane, { parked_records: 1, delivered_records: sent - 1, dropped_messages: 0 })
    const { numbers } = await readAll(daemon, pullId)
    t.equal(numbers.length, sent)
    t.same(
      await stored(nats),
      numbers.filter((n) => n !== tooLarge),
      'each record once and in order',
    )
    return versionIn(spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout)
  })
