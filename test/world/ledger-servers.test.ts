/**
 * The ledger while servers misbehave: PostgreSQL and MariaDB stopped, killed and paused, an endpoint that answers
 * anything but 200. Whatever happens, per lane accepted = delivered + skipped + dropped + pending, the order is kept,
 * tables with a generated dedupe_id hold every record once, and a lane beside them notices nothing.
 */
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { type Responder, startHttpSink } from '../support/http-sink.ts'
import { audit, drained, readAll } from '../support/ledger.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'
import { balance, httpDestination, openSender, tableDestination } from './sender.ts'

const patient = { timeoutMs: 90_000 }
const nothingWrong = { missing: [], outOfOrder: [], unknown: [] }

async function openWorld(t: { teardown(fn: () => unknown): void }) {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'ledger' })
  const healthy = await startHttpSink()
  t.teardown(() => healthy.stop())
  const healthyId = await daemon.createDestination(pipeId, httpDestination(healthy.url))
  const pullId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const sender = openSender(daemon, pipeId)
  return {
    daemon,
    pipeId,
    healthy,
    healthyId,
    pullId,
    sender,
    lane: (id: string) => daemon.lane(pipeId, id),
    /** The lane has failed since it last came through. */
    failing: (id: string, attempts = 1) =>
      until(
        `lane ${id} has failed ${attempts} times`,
        async () => Number((await daemon.lane(pipeId, id)).attempts) >= attempts,
        patient,
      ),
    drained: (id: string) => drained(daemon, pipeId, id),
  }
}

t.test('databases that are stopped, killed and paused for a while', async (t) => {
  const world = await openWorld(t)
  const { daemon, pipeId, sender, healthyId } = world
  const postgres = await startPostgres()
  t.teardown(() => postgres.stop())
  const mariadb = await startMariadb()
  t.teardown(() => mariadb.stop())
  await postgres.query('CREATE TABLE ledger (place bigserial, message text PRIMARY KEY, n int)')
  await mariadb.query(
    'CREATE TABLE ledger (place bigint AUTO_INCREMENT UNIQUE, message varchar(100) PRIMARY KEY, n int)',
  )
  const columns = [
    { column_name: 'message', column_type: 'string', semantic_role: 'dedupe_id' },
    { column_name: 'n', column_type: 'number' },
  ]
  const postgresId = await daemon.createDestination(
    pipeId,
    tableDestination(postgres, 'postgresql', 'ledger', columns),
  )
  const mariadbId = await daemon.createDestination(
    pipeId,
    tableDestination(mariadb, 'mariadb', 'ledger', columns),
  )
  await sender.send(40)
  await world.drained(postgresId)
  await world.drained(mariadbId)

  for (const [how, down, up] of [
    ['stopped', () => Promise.all([postgres.shutDown(), mariadb.shutDown()]), start],
    ['killed', () => Promise.all([postgres.halt(), mariadb.halt()]), start],
  ] as const) {
    // In the middle of deliveries, not between them.
    const sending = sender.send(60)
    await down()
    await sending
    await sender.send(20)
    await world.failing(postgresId, 2)
    await world.failing(mariadbId, 2)
    for (const id of [postgresId, mariadbId]) {
      const lane = await world.lane(id)
      t.match(
        lane,
        { lane_state: 'retrying', last_error: { class: 'transient' } },
        `${how}: a transient error`,
      )
      t.ok(Number(lane.pending_messages) >= 20, `${how}: the backlog waits`)
      const { accepted, accounted } = balance(lane, sender)
      t.equal(accounted, accepted, `${how}: accepted = delivered + skipped + dropped + pending`)
    }
    await world.drained(healthyId)
    await up()
    await world.drained(postgresId)
    await world.drained(mariadbId)
    t.pass(`${how} and started again: the lanes have drained by themselves`)
  }

  postgres.pause()
  mariadb.pause()
  await sender.send(40)
  await world.drained(healthyId)
  t.pass('paused: the healthy lane has delivered everything meanwhile')
  for (const id of [postgresId, mariadbId]) {
    const lane = await world.lane(id)
    t.ok(Number(lane.pending_messages) >= 40, 'paused: the backlog waits')
    t.equal(balance(lane, sender).accounted, sender.accepted.size)
  }
  postgres.resume()
  mariadb.resume()

  for (const id of [postgresId, mariadbId, healthyId]) {
    const lane = await world.drained(id)
    t.match(lane, { lane_state: 'idle', skipped_messages: 0, dropped_messages: 0, blocking_msg_id: null })
    t.equal(Number(lane.delivered_records), sender.accepted.size)
  }
  const inOrder = (await readAll(daemon, world.pullId)).numbers
  const inPostgres = await postgres.query('SELECT n FROM ledger ORDER BY place')
  const inMariadb = await mariadb.query('SELECT n FROM ledger ORDER BY place')
  for (const [name, rows] of [
    ['PostgreSQL', inPostgres],
    ['MariaDB', inMariadb],
  ] as const) {
    const arrived = rows.map((row) => Number(row.n))
    t.match(audit(sender, arrived, inOrder), { ...nothingWrong, repeats: 0 }, `${name} has every record once`)
  }
  const healthyArrived = world.healthy.records().map((record) => Number(record.n))
  t.match(
    audit(sender, healthyArrived, inOrder),
    { ...nothingWrong, repeats: 0 },
    'the healthy lane: each once',
  )
  t.equal(await failedAttempts(world.daemon, healthyId), 0, 'the healthy lane has not failed once')

  t.test('negative control: a row that is taken away or written twice is noticed', async (t) => {
    const [{ n }] = (await postgres.query(
      'DELETE FROM ledger WHERE place = (SELECT min(place) FROM ledger) RETURNING n',
    )) as [{ n: number }]
    await postgres.query("INSERT INTO ledger (message, n) SELECT 'again', max(n) FROM ledger")
    const arrived = (await postgres.query('SELECT n FROM ledger ORDER BY place')).map((row) => Number(row.n))
    t.match(audit(sender, arrived, inOrder), { missing: [n], repeats: 1 })
  })

  async function start() {
    await Promise.all([postgres.start(), mariadb.start()])
  }
})

const faults: { name: string; respond: Responder; code: RegExp; stores: boolean }[] = [
  { name: 'answers 500', respond: () => ({ status: 500 }), code: /http_500/, stores: false },
  {
    name: 'answers 429 with Retry-After',
    respond: () => ({ status: 429, headers: { 'retry-after': '1' } }),
    code: /http_429/,
    stores: false,
  },
  { name: 'is slower than timeout_ms', respond: () => ({ delayMs: 30_000 }), code: /timeout/, stores: true },
  { name: 'answers garbage', respond: () => ({ fault: 'garbage' }), code: /./, stores: true },
  { name: 'loses its replies', respond: () => ({ fault: 'before' }), code: /./, stores: true },
]

t.test('an endpoint that answers anything but 200 for a while', async (t) => {
  const world = await openWorld(t)
  const { daemon, pipeId, sender, healthyId } = world
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const id = await daemon.createDestination(pipeId, httpDestination(sink.url, { timeout_ms: 1000 }))
  /** The records that the endpoint has kept, in its order, whether its reply arrived or not. */
  const stored: number[] = []
  const identities: string[] = []
  const record = (text: string) => {
    for (const line of text.trim().split('\n')) stored.push(JSON.parse(line).n)
  }
  const becomeWell = () =>
    sink.respondWith((delivery) => {
      record(delivery.text)
      return {}
    })
  becomeWell()
  await sender.send(20)
  await world.drained(id)

  for (const fault of faults) {
    const before = stored.length
    sink.respondWith((delivery, index) => {
      if (fault.stores) record(delivery.text)
      identities.push(String(delivery.headers['webhook-id']))
      return fault.respond(delivery, index)
    })
    await sender.send(20)
    await world.failing(id, 2)
    await world.drained(healthyId)
    const lane = await world.lane(id)
    t.match(
      lane,
      { lane_state: 'retrying', last_error: { class: 'transient', code: fault.code } },
      fault.name,
    )
    t.equal(balance(lane, sender).accounted, sender.accepted.size, `${fault.name}: the books balance`)
    t.equal(new Set(identities.splice(0)).size, 1, `${fault.name}: every retry has the same webhook-id`)
    becomeWell()
    await world.drained(id)
    t.ok(stored.length > before, `${fault.name}: over, and the lane goes on by itself`)
  }

  await sink.halt()
  await sender.send(20)
  await world.failing(id, 2)
  await world.drained(healthyId)
  await sink.listen()
  await world.drained(id)
  t.pass('connections reset and refused: over, and the lane goes on by itself')

  sink.respondWith(() => ({ status: 301, headers: { location: 'http://127.0.0.1:1/elsewhere' } }))
  const attemptsBefore = sink.deliveries.length
  await sender.send(20)
  const blocked = await until('the lane is blocked', async () => {
    const lane = await world.lane(id)
    return lane.blocking_msg_id === null ? null : lane
  })
  t.match(blocked, { last_error: { class: 'permanent', code: 'http_301' } }, '301 is permanent')
  const blocking = await daemon.api('GET', `/v1/pipes/${pipeId}/destinations/${id}/blocking-message`)
  t.match(blocking, { status: 200, body: { msg_id: blocked.blocking_msg_id } })
  await world.drained(healthyId)
  t.equal(balance(await world.lane(id), sender).accounted, sender.accepted.size, '301: the books balance')
  t.ok(
    sink.deliveries.length - attemptsBefore <= 12,
    'what concerns the whole endpoint is not searched for long',
  )
  becomeWell()
  const retried = await daemon.api('POST', `/v1/pipes/${pipeId}/destinations/${id}/retry-now`)
  t.match(retried, {
    status: 200,
    body: { retried: true, msg_id: blocked.blocking_msg_id, status: 'retried' },
  })
  const lane = await world.drained(id)
  t.match(
    lane,
    { lane_state: 'idle', skipped_messages: 0, dropped_messages: 0 },
    'retry-now: the lane goes on',
  )
  t.equal(Number(lane.delivered_records), sender.accepted.size)

  const inOrder = (await readAll(daemon, world.pullId)).numbers
  t.match(audit(sender, stored, inOrder), nothingWrong, 'the endpoint has every record, in order')
  const healthyArrived = world.healthy.records().map((one) => Number(one.n))
  t.match(
    audit(sender, healthyArrived, inOrder),
    { ...nothingWrong, repeats: 0 },
    'the healthy lane: each once',
  )
  t.equal(await failedAttempts(daemon, healthyId), 0, 'the healthy lane has not failed once')

  t.test('negative control: a record that the endpoint forgets or mixes up is noticed', async (t) => {
    const first = stored[0] ?? -1
    t.same(
      audit(
        sender,
        stored.filter((n) => n !== first),
        inOrder,
      ).missing,
      [first],
    )
    t.same(audit(sender, [...stored.slice(1), first], inOrder).outOfOrder, [first])
    const fewer = { ...lane, delivered_records: Number(lane.delivered_records) - 1 }
    t.not(balance(fewer, sender).accounted, sender.accepted.size)
  })
})

/** Attempts of a lane that failed since the daemon began, by its metrics. */
async function failedAttempts(daemon: { metricsUrl: string }, destinationId: string): Promise<number> {
  const text = await (await fetch(daemon.metricsUrl)).text()
  const lines = text.split('\n').filter((line) => line.includes(destinationId) && /attempts/.test(line))
  if (lines.length === 0) throw new Error(`no metric about the attempts of ${destinationId}`)
  return lines
    .filter((line) => /outcome="(transient|permanent)"/.test(line))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}
