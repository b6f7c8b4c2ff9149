/** Several threads of ingest are one daemon: its limits, its keys, its pipes and its end are those of one. */
import { rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { Pool } from 'undici'
import { acknowledged } from '../crash/ledger-daemon.ts'
import { startDaemon } from '../support/daemon.ts'
import { drained, readAll, startProducer } from '../support/ledger.ts'
import { connectRaw, type RawConnection } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

const limits = {
  pl_ingest_max_records_per_request: 10,
  pl_ingest_max_records_per_second: 1_000_000,
  pl_ingest_max_records_per_day: 3_000,
  pl_delivery_max_records_per_flush: 1_000,
  pl_delivery_max_bytes_per_flush: 1_000_000,
  pl_delivery_max_seconds_per_flush: 1,
}

const workers = (count: number) => ({ PIPECTL_INGEST_WORKERS: String(count) })

/** Fresh ones: the system spreads them over the threads. With 24, one of three threads has none once in 6,000 runs. */
const connections = (url: string, count = 24) =>
  Promise.all(Array.from({ length: count }, () => connectRaw(url)))

async function statuses(raw: readonly RawConnection[], request: string): Promise<number[]> {
  for (const connection of raw) connection.write(request)
  return await Promise.all(raw.map(async (connection) => (await connection.answer()).status))
}

const post = (pipe: string, key: string) =>
  `POST /v1/ingest/${pipe} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n` +
  'Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}'

t.test('10,000 requests to four threads: exactly the limit is accepted, and counted', async (t) => {
  const daemon = await startDaemon({ env: workers(4) })
  t.teardown(() => daemon.close())
  const pipe = await daemon.createPipe({ pipe_name: 'limited' })
  await daemon.api('PUT', `/v1/pipes/${pipe}/limits`, limits)
  const pool = new Pool(daemon.dataUrl, { connections: 48 })
  t.teardown(() => pool.close())
  const found = new Map<number, number>()
  let left = 10_000
  const sender = async () => {
    while (left-- > 0) {
      const { statusCode, body } = await pool.request({
        path: `/v1/ingest/${pipe}`,
        method: 'POST',
        headers: { authorization: `Bearer ${daemon.apiKey}`, 'content-type': 'application/json' },
        body: '{"a":1}',
      })
      await body.dump()
      found.set(statusCode, (found.get(statusCode) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 48 }, sender))
  t.same(Object.fromEntries(found), { 202: 3_000, 429: 7_000 })
  const { body } = await daemon.api<{ usage_by_pipe: Record<string, Record<string, unknown>> }>(
    'GET',
    '/v1/pipes',
  )
  t.match(body.usage_by_pipe[pipe], {
    ingest_requests: 3_000,
    ingest_records: 3_000,
    rejected_requests: 7_000,
  })
  const metrics = await (await fetch(daemon.metricsUrl)).text()
  t.match(
    metrics,
    new RegExp(`pipectl_ingest_requests_total\\{pipe_id="${pipe}",pipe="[a-z-]+"\\} 3000\n`),
    'summed, without a label',
  )
  t.match(metrics, /pipectl_ingest_in_flight_bytes 0\n/)
})

t.test('a change is seen by every thread before management answers', async (t) => {
  const daemon = await startDaemon({ env: workers(3) })
  t.teardown(() => daemon.close())
  const pipe = await daemon.createPipe({ pipe_name: 'changed' })
  const raw = await connections(daemon.dataUrl)
  const all = async (key: string) => [...new Set(await statuses(raw, post(pipe, key)))]
  const made = await daemon.api<{ api_key_id: string; api_key: string }>('POST', '/v1/api-keys', {
    api_key_name: 'other',
  })
  const { api_key: key, api_key_id: keyId } = made.body
  t.same(await all(key), [202], 'a new key')
  t.equal((await daemon.api('DELETE', `/v1/api-keys/${keyId}`)).status, 204)
  t.same(await all(key), [401], 'a revoked key')
  await daemon.api('PATCH', `/v1/pipes/${pipe}`, { pipe_status: 'paused' })
  t.same(await all(daemon.apiKey), [404], 'a paused pipe')
  await daemon.api('PATCH', `/v1/pipes/${pipe}`, { pipe_status: 'active' })
  const one = { ...limits, pl_ingest_max_records_per_day: 1 }
  await daemon.api('PUT', `/v1/pipes/${pipe}/limits`, one)
  t.same(await all(daemon.apiKey), [429], 'what was accepted without limits counts')
  await daemon.api('DELETE', `/v1/pipes/${pipe}/limits`)
  await daemon.api('POST', `/v1/pipes/${pipe}/allowed-origins`, { origin_domain: 'https://a.example' })
  const withOrigin = post(pipe, daemon.apiKey).replace('Host: x', 'Host: x\r\nOrigin: https://b.example')
  t.same([...new Set(await statuses(raw, withOrigin))], [403], 'an origin that is not listed')
  await daemon.api('DELETE', `/v1/pipes/${pipe}`)
  t.same(await all(daemon.apiKey), [404], 'a deleted pipe')
  // An Idempotency-Key is one over all of them.
  const again = await daemon.createPipe({ pipe_name: 'again' })
  const keyed = post(again, daemon.apiKey).replace('Host: x', 'Host: x\r\nIdempotency-Key: k')
  for (const connection of raw) connection.write(keyed)
  const answers = await Promise.all(raw.map(async (one) => JSON.parse((await one.answer()).body).msg_id))
  t.equal(new Set(answers).size, 1)
})

t.test('kill -9 under load, three threads: nothing acknowledged is lost, and the order holds', async (t) => {
  const daemon = await startDaemon({ env: workers(3) })
  t.teardown(() => daemon.close())
  const pipe = await daemon.createPipe({ pipe_name: 'ledger' })
  const pull = await daemon.createDestination(pipe, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const producer = startProducer(daemon, pipe, { loops: 24 })
  for (let round = 0; round < 3; round++) {
    await acknowledged(producer, 600)
    await daemon.kill()
    await daemon.start()
  }
  await acknowledged(producer, 600)
  // And the end that loses nothing either.
  const stopped = daemon.stop()
  t.equal(await stopped, 0)
  await daemon.start()
  await acknowledged(producer, 60)
  await producer.stop()
  const all = await readAll(daemon, pull)
  const kept = new Set(all.messages)
  t.same(
    [...producer.messages].filter((id) => !kept.has(id)),
    [],
  )
  t.equal(kept.size, all.messages.length, 'a msg_id is there once')
  t.same(
    all.seqs,
    [...all.seqs].sort((a, b) => a - b),
  )
  t.ok(await drained(daemon, pipe, pull))
  t.notOk(daemon.log.some(({ msg }) => msg === 'shutdown.step_failed'))
})

t.test(
  'one thread that is busy holds up its own connections alone; one that fails ends the process',
  async (t) => {
    const fault = `${t.testdir()}/fault`
    const hook = fileURLToPath(new URL('../support/ingest-thread-fault.cjs', import.meta.url))
    const daemon = await startDaemon({
      env: { ...workers(3), NODE_OPTIONS: `--require=${hook}`, INGEST_THREAD_FAULT: fault },
    })
    t.teardown(() => daemon.close())
    const raw = await connections(daemon.url, 30)
    writeFileSync(`${fault}.hang`, '')
    let answered = 0
    const health = 'GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n'
    const first = raw.map(async (connection) => {
      connection.write(health)
      const { status } = await connection.answer()
      if (status === 200) answered++
    })
    await until('those of the other threads are answered', () => answered >= 5)
    rmSync(`${fault}.hang`)
    await Promise.all(first)
    t.equal(answered, 30)

    writeFileSync(`${fault}.throw`, '')
    t.equal(await daemon.exit, 70)
    const failed = daemon.log.find(({ msg }) => msg === 'daemon.failed')
    t.match(failed, { part: 'ingest', err: { message: /a fault of the test/ } })
    t.same(daemon.noise, [], 'and nothing aborted')
  },
)

t.test('the service manager is not told of a daemon with a thread of ingest that hangs', async (t) => {
  const fault = `${t.testdir()}/fault`
  const hook = fileURLToPath(new URL('../support/ingest-thread-fault.cjs', import.meta.url))
  // Nobody listens there, and there is nothing to tell it with: what is told shows in the log as well as what is not.
  const manager = { NOTIFY_SOCKET: '/nowhere', WATCHDOG_USEC: '400000', PATH: '' }
  const daemon = await startDaemon({
    env: { ...workers(3), ...manager, NODE_OPTIONS: `--require=${hook}`, INGEST_THREAD_FAULT: fault },
  })
  t.teardown(() => daemon.close())
  const heard = (event: string) => daemon.log.filter(({ msg }) => msg === event)
  const tells = async () => {
    const before = heard('service_manager.unreachable').length
    await until('it is told', () => heard('service_manager.unreachable').length > before + 2)
  }
  await tells()
  t.same(heard('service_manager.watchdog_withheld'), [], 'negative control: nothing hangs')
  writeFileSync(`${fault}.hang`, '')
  await until('it is withheld', () => heard('service_manager.watchdog_withheld').length > 1)
  t.match(heard('service_manager.watchdog_withheld'), [{ part: 'ingest' }, { part: 'ingest' }])
  rmSync(`${fault}.hang`)
  await tells()
})

t.test('metrics: a label for each thread where it is wanted', async (t) => {
  const daemon = await startDaemon({ env: { ...workers(3), PIPECTL_METRICS_WORKER_LABEL: 'true' } })
  t.teardown(() => daemon.close())
  const pipe = await daemon.createPipe({ pipe_name: 'labelled' })
  const raw = await connections(daemon.dataUrl)
  t.same([...new Set(await statuses(raw, post(pipe, daemon.apiKey)))], [202])
  t.same([...new Set(await statuses(raw, post(pipe, 'ppl1_no_such_key')))], [401])
  const counts = async (name: string) => {
    const text = await (await fetch(daemon.metricsUrl)).text()
    const lines = text.matchAll(
      new RegExp(`^${name}\\{pipe_id="${pipe}",pipe="labelled",worker="(\\d)"\\} (\\d+)$`, 'gm'),
    )
    return Object.fromEntries([...lines].map(([, worker, count]) => [worker, Number(count)]))
  }
  const sum = (of: Record<string, number>) => Object.values(of).reduce((all, one) => all + one, 0)
  const accepted = await counts('pipectl_ingest_requests_total')
  t.same(Object.keys(accepted), ['0', '1', '2'])
  t.equal(sum(accepted), raw.length)
  await until(
    'the rejected ones are counted',
    async () => sum(await counts('pipectl_ingest_rejected_requests_total')) === raw.length,
  )
  t.same(await counts('pipectl_ingest_rejected_requests_total'), accepted, 'each of the same connection')
})

t.test('what cannot share an address says so', async (t) => {
  const env = { PIPECTL_HTTP_ENGINE: 'node' }
  await t.rejects(
    startDaemon({ env: { ...env, ...workers(2) } }),
    /ended with 78.*ingest\.workers.*http\.engine node/s,
  )
  const daemon = await startDaemon({ env: { ...env, PIPECTL_INGEST_WORKERS: 'auto' } })
  t.equal(daemon.log.find(({ msg }) => msg === 'daemon.ready')?.ingest_workers, 1)
  t.equal(await daemon.stop(), 0)
  await daemon.close()
})
