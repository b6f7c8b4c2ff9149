/** `pipectl lanes rewind` says what goes again before it asks, and checks what it was given before anything else. */
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

const daemon = await startDaemon()
const sink = await startHttpSink()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  await sink.stop()
  removeHome(home)
})
const env = cliEnv(daemon, home)
const pipeId = await daemon.createPipe({ pipe_name: 'orders' })
const id = await daemon.createDestination(pipeId, {
  ...{ destination_type: 'destination_http_endpoint', destination_name: 'shop' },
  destination_config: { url: `${sink.url}/orders` },
})
const rewind = (to: string, ...more: string[]) =>
  runCli(['lanes', 'rewind', 'orders/shop', '--to', to, ...more], { env })
const lane = async () => await daemon.lane(pipeId, id)
const untilIdle = () => until('the lane is idle', async () => (await lane()).lane_state === 'idle')

await daemon.ingest(pipeId, [{ n: 1 }, { n: 2 }])
await daemon.ingest(pipeId, { n: 3 })
await until('all are delivered', async () => (await lane()).delivered_records === 3)

t.test('a point that is none is rejected before anything is asked', async (t) => {
  const away = { env: { ...env, PIPECTL_URL: 'http://127.0.0.1:1' } }
  for (const to of ['tomorrow', '-1', '2x', 'x 7', '']) {
    const ran = await runCli(['lanes', 'rewind', 'orders/shop', '--to', to], away)
    t.match(ran, { code: 2, stderr: /--to is .*\n.*yesterday/ }, to)
  }
})

t.test('the question says how many records go again, and what becomes of copies', async (t) => {
  for (const to of ['earliest', '0', '2h', '-24h', 'yesterday', '2020-01-01T00:00:00Z']) {
    const { code, stderr } = await rewind(to)
    t.equal(code, 2, to)
    t.match(stderr, /Deliver 3 records \(2 messages, received \S+Z to \S+Z\) again to orders\/shop\?/, to)
    t.match(stderr, 'It receives them a second time.')
  }
  const { body } = await daemon.api<{ messages: { stream_seq: number }[] }>(
    'GET',
    `/v1/pipes/${pipeId}/messages`,
  )
  const [, first] = body.messages
  t.match((await rewind(String(first?.stream_seq))).stderr, /Deliver 1 record \(1 message, /)
})

t.test('of a table: whether its dedupe_id keeps one copy', async (t) => {
  for (const [name, role, words] of [
    ['keyed', 'dedupe_id', /one copy of each stays/],
    ['plain', null, /stored a second time/],
  ] as const) {
    const of = await daemon.createPipe({ pipe_name: name })
    await daemon.ingest(of, { id: 1 })
    const table = await daemon.createDestination(of, {
      destination_type: 'destination_database',
      destination_config: {
        host: '127.0.0.1',
        port: 1,
        database: 'd',
        username: 'u',
        password: 'p',
        table: 't',
      },
      columns: [{ column_name: 'id', column_type: 'number', semantic_role: role }],
      start_from: 'now',
    })
    t.equal(Number((await daemon.lane(of, table)).cursor_seq) > 0, true)
    const ran = await runCli(['lanes', 'rewind', `${name}/database`, '--to', 'earliest'], { env })
    t.match(ran.stderr, words)
  }
})

t.test('a rewind delivers again; where nothing would go again, it is exit code 6', async (t) => {
  await untilIdle()
  const before = sink.deliveries.length
  const ran = await rewind('earliest', '--yes')
  t.match(ran, {
    code: 0,
    stderr:
      /^Delivers 3 records \(2 messages, received \S+Z to \S+Z\) again to orders\/shop\. It receives them a second time\.\n.*continues after stream_seq/,
  })
  await until('it is delivered again', () => sink.deliveries.length > before)
  await untilIdle()
  for (const to of ['2099-01-01T00:00:00Z', String((await lane()).cursor_seq)])
    t.match(await rewind(to, '--yes'), { code: 6, stderr: /nothing to deliver again/ }, to)
  t.match(await rewind('999999999', '--yes'), { code: 2, stderr: /only goes back/ })
})

t.test('a misspelt pipe: the one that was probably meant', async (t) => {
  t.match(await runCli(['pipes', 'get', 'order'], { env }), { code: 3, stderr: /did you mean "orders"\?/ })
  t.match(await runCli(['lanes', 'list', 'ordres'], { env }), { code: 3, stderr: /did you mean "orders"\?/ })
  t.notMatch((await runCli(['pipes', 'get', 'warehouse'], { env })).stderr, /did you mean/)
})

t.test('why of a message that an endpoint rejects speaks of the endpoint', async (t) => {
  sink.respondWith(() => ({ status: 422 }))
  const { msg_id } = await daemon.ingest(pipeId, { bad: 1 })
  await until('it is stuck', async () => (await lane()).blocking_msg_id === msg_id)
  t.match((await runCli(['why', msg_id], { env })).stderr, /fix the endpoint, or skip the message/)
})
