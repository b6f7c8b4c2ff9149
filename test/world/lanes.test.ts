/**
 * Lanes do not wait for each other: one whose endpoint takes everything and never answers, one that hears one byte per
 * second, one that is refused. And lanes that together want more memory than there is take turns.
 */
import t, { type Test } from 'tap'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { audit, drained, readAll } from '../support/ledger.ts'
import { startProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'
import { balance, httpDestination, openSender } from './sender.ts'

const nothingWrong = { missing: [], outOfOrder: [], unknown: [] }

async function sinkFor(t: Test) {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  return sink
}

const pullDestination = { destination_type: 'destination_pull', destination_config: {} }

t.test('a healthy lane delivers everything beside lanes that hang, trickle and are refused', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'beside' })
  const [healthy, behind, refusing] = [await sinkFor(t), await sinkFor(t), await sinkFor(t)]
  const target = { host: '127.0.0.1', port: behind.port }
  const [hole, slow] = [await startProxy(target), await startProxy(target)]
  t.teardown(() => Promise.all([hole.stop(), slow.stop()]))
  hole.setMode({ kind: 'black_hole' })
  slow.setMode({ kind: 'trickle' })
  await refusing.halt()
  // A second is for those that never answer: an endpoint that takes longer on a busy machine would be sent it again.
  const attach = (url: string, timeoutMs = 30_000) =>
    daemon.createDestination(pipeId, httpDestination(url, { timeout_ms: timeoutMs }))
  const healthyId = await attach(healthy.url)
  const faulty = {
    'a black hole': await attach(`http://${hole.host}:${hole.port}`, 1_000),
    'a byte a second': await attach(`http://${slow.host}:${slow.port}`, 1_000),
    refused: await attach(refusing.url),
  }
  const pullId = await daemon.createDestination(pipeId, pullDestination)
  const sender = openSender(daemon, pipeId, { loops: 8 })

  for (let round = 0; round < 3; round += 1) {
    await sender.send(300)
    const lane = await drained(daemon, pipeId, healthyId)
    t.equal(Number(lane.delivered_records), sender.accepted.size, 'the healthy lane has delivered everything')
    for (const [name, id] of Object.entries(faulty)) {
      const waiting = await daemon.lane(pipeId, id)
      t.equal(waiting.delivered_records, 0, `${name}: nothing has come through meanwhile`)
      t.equal(balance(waiting, sender).accounted, sender.accepted.size, `${name}: the backlog waits`)
    }
  }
  for (const [name, id] of Object.entries(faulty)) {
    const lane = await until(
      `${name}: an attempt was ended and another made`,
      async () => {
        const now = await daemon.lane(pipeId, id)
        return Number(now.attempts) >= 2 ? now : null
      },
      { timeoutMs: 60_000 },
    )
    t.match(
      lane,
      { lane_state: 'retrying', last_error: { class: 'transient' } },
      `${name}: seen and transient`,
    )
  }
  // Control: with the faults gone the same lanes deliver the same backlog, so it was the faults that held them.
  hole.setMode({ kind: 'pass' })
  slow.setMode({ kind: 'pass' })
  await refusing.listen()
  const inOrder = (await readAll(daemon, pullId)).numbers
  for (const [name, id] of Object.entries(faulty)) {
    await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${id}/retry-now`)
    const lane = await drained(daemon, pipeId, id)
    t.equal(
      Number(lane.delivered_records),
      sender.accepted.size,
      `control: ${name} is over, all is delivered`,
    )
  }
  const numbersOf = (sink: typeof healthy) => sink.records().map((record) => Number(record.n))
  t.match(audit(sender, numbersOf(healthy), inOrder), { ...nothingWrong, repeats: 0 })
  t.match(audit(sender, numbersOf(refusing), inOrder), { ...nothingWrong, repeats: 0 })
})

t.test('lanes that want more memory than there is take turns, and none starves', async (t) => {
  const MiB = 1024 * 1024
  const daemon = await startDaemon({ env: { PIPECTL_DELIVERY_MAX_IN_FLIGHT_BYTES: '1MiB' } })
  t.teardown(() => daemon.close())
  const sink = await sinkFor(t)
  const hung = await sinkFor(t)
  // Holds its batch for as long as an attempt may last, again and again.
  hung.respondWith(() => ({ fault: 'never' }))
  const pipeId = await daemon.createPipe({ pipe_name: 'memory' })
  const ids: string[] = []
  for (let lane = 0; lane < 6; lane += 1) {
    ids.push(await daemon.createDestination(pipeId, httpDestination(`${sink.url}/${lane}`)))
  }
  const hungId = await daemon.createDestination(pipeId, httpDestination(hung.url, { timeout_ms: 1000 }))
  const sender = openSender(daemon, pipeId, { perMessage: 1, fill: 'x'.repeat(700_000) })
  let most = 0
  let isOver = false
  const watching = until(
    'all is delivered',
    async () => {
      most = Math.max(most, await inFlightBytes(daemon))
      return isOver
    },
    { timeoutMs: 120_000 },
  )
  await sender.send(20)
  // Larger than all the memory there is: goes alone.
  await daemon.ingest(pipeId, { n: -1, fill: 'x'.repeat(3 * MiB) })
  for (const id of ids) {
    const lane = await drained(daemon, pipeId, id)
    t.equal(Number(lane.delivered_records), sender.accepted.size + 1)
  }
  t.equal((await daemon.lane(pipeId, hungId)).delivered_records, 0)
  isOver = true
  await watching
  t.ok(most > 0, 'the bytes in flight were seen')
  t.ok(most < 3.5 * MiB, `at most ${most} bytes were in flight: one message over the limit, alone`)

  hung.respondWith(() => ({}))
  await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${hungId}/retry-now`)
  const lane = await drained(daemon, pipeId, hungId)
  t.equal(Number(lane.delivered_records), sender.accepted.size + 1, 'the one that hung has come through too')
})

t.test('negative control: with memory for all, much more is in flight at once', async (t) => {
  const MiB = 1024 * 1024
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const hung = await sinkFor(t)
  hung.respondWith(() => ({ fault: 'never' }))
  const pipeId = await daemon.createPipe({ pipe_name: 'memory' })
  for (let lane = 0; lane < 6; lane += 1) {
    await daemon.createDestination(pipeId, httpDestination(`${hung.url}/${lane}`))
  }
  await openSender(daemon, pipeId, { perMessage: 1, fill: 'x'.repeat(700_000) }).send(8)
  await until('6 lanes hold batches', async () => (await inFlightBytes(daemon)) > 3.5 * MiB)
})

async function inFlightBytes(daemon: TestDaemon): Promise<number> {
  const text = await (await fetch(daemon.metricsUrl)).text()
  const found = /^pipectl_delivery_in_flight_bytes(?:\{[^}]*\})? (\S+)$/m.exec(text)
  if (found === null) throw new Error('no metric of the bytes in flight')
  return Number(found[1])
}
