/**
 * `egress.private = "auto"`: a second workspace ends what destinations may do on the operator's network, at once and while
 * the daemon runs.
 */
import { createServer, type Server } from 'node:net'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { until } from '../support/until.ts'

const home = makeHome()
t.teardown(() => removeHome(home))

/** Counts who connects and says nothing: what a database driver dials. */
async function startListener(): Promise<{ port: number; count(): number; server: Server }> {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.on('error', () => {}).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return { port: typeof address === 'object' ? (address?.port ?? 0) : 0, count: () => connections, server }
}

const endpoint = (url: string) => ({
  destination_type: 'destination_http_endpoint',
  destination_config: { url },
})
const database = (port: number) => ({
  destination_type: 'destination_database',
  destination_config: { host: '127.0.0.1', port, database: 'd', username: 'u', password: 'p', table: 't' },
})

const createWorkspace = (daemon: TestDaemon, env = {}) =>
  runCli(['workspaces', 'create', 'second', '--json', '--data-dir', daemon.dataDir], {
    env: { ...cliEnv(daemon, home), ...env },
  })
const ruleShown = async (daemon: TestDaemon, key?: string) =>
  (await daemon.api('GET', '/v1/pipes', undefined, key === undefined ? {} : { key })).body.egress_private

t.test('a second workspace', async (t) => {
  const daemon = await startDaemon({ env: { PIPECTL_EGRESS_PRIVATE: 'auto' } })
  t.teardown(() => daemon.close())
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const listener = await startListener()
  t.teardown(() => listener.server.close())
  const pipe = await daemon.createPipe({ pipe_name: 'orders' })
  const destination = await daemon.createDestination(pipe, endpoint(sink.url))
  const lane = async () => {
    const found = await daemon.api('GET', `/v1/pipes/${pipe}/destinations/${destination}`)
    return Object(found.body.destination).lane
  }
  await daemon.ingest(pipe, { n: 1 })
  await until('it is delivered', () => sink.deliveries.length === 1)
  t.equal(await ruleShown(daemon), 'allow')

  const created = await createWorkspace(daemon)
  const stranger = JSON.parse(created.stdout).api_key
  t.match(created.stderr, /there are 2 workspaces now/)
  t.match(created.stderr, /egress\.allow lists exceptions/)
  t.match(created.stderr, `default: orders ${destination}`, 'which destinations it denies')

  t.equal(await ruleShown(daemon, stranger), 'deny', 'before its first request is served')
  const own = await daemon.api('POST', '/v1/pipes', { pipe_name: 'own' }, { key: stranger })
  const base = `/v1/pipes/${own.body.pipe_id}/destinations`
  for (const path of [base, `${base}/test`]) {
    const refused = await daemon.api('POST', path, endpoint(sink.url), { key: stranger })
    t.equal(refused.body.error, 'validation_error')
    t.match(Object(refused.body.errors)['destination_config.url'], /egress\.private/)
  }
  const denied = await daemon.api('POST', `${base}/test`, database(listener.port), { key: stranger })
  t.match(Object(denied.body.errors)['destination_config.host'], /egress\.allow/)
  t.equal(listener.count(), 0, 'a database on loopback is not dialed')

  await daemon.ingest(pipe, { n: 2 })
  const failed = await until('the lane fails', async () => {
    const now = await lane()
    return now.last_error === null ? null : now
  })
  t.match(failed.last_error, { code: 'egress_denied', message: /egress\.allow or egress\.private/ })
  t.equal(sink.deliveries.length, 1, 'not over the connection that was open either')
  t.ok(
    await until('the operator is told', () =>
      daemon.log.find((line) => line.msg === 'egress.private_denied'),
    ),
  )

  t.test('commands show the rule in effect', async (t) => {
    const env = { ...cliEnv(daemon, home), PIPECTL_DATA_DIR: daemon.dataDir }
    const settings = await runCli(['config', 'show', '-o', 'json'], { env })
    const rows: { setting: string }[] = JSON.parse(settings.stdout).settings
    t.same(
      rows.find((row) => row.setting === 'egress.private'),
      { setting: 'egress.private', value: 'auto', in_effect: 'deny' },
    )
    t.match(
      (await runCli(['config', 'show', '-o', 'table'], { env })).stdout,
      /egress\.private +auto \(in effect: deny\)/,
    )
    const doctor = await runCli(['doctor', '-o', 'json'], { env })
    const checks: { name: string }[] = JSON.parse(doctor.stdout).checks
    t.match(
      checks.find((check) => check.name === 'egress'),
      { result: 'ok', detail: /egress\.private is auto: with 2 workspaces private addresses are denied/ },
    )
    const status = await runCli(['status', '-o', 'json'], { env })
    t.equal(JSON.parse(status.stdout).egress_private, 'deny')
  })

  t.test('the same after a restart, and what is allowed by name is delivered', async (t) => {
    await daemon.stop()
    const listed = await startDaemon({
      dataDir: daemon.dataDir,
      env: {
        PIPECTL_EGRESS_PRIVATE: 'auto',
        PIPECTL_EGRESS_ALLOW: [`127.0.0.1:${new URL(sink.url).port}`, `127.0.0.1:${listener.port}`].join(),
      },
    })
    t.teardown(() => listed.stop())
    const key = daemon.apiKey
    t.equal(await ruleShown(listed, key), 'deny')
    await listed.api('POST', `/v1/pipes/${pipe}/destinations/${destination}/retry-now`, {}, { key })
    await until('what waited is delivered', () => sink.deliveries.length === 2)
    t.match(sink.records(), [{ n: 1 }, { n: 2 }])
    const at = `/v1/pipes/${pipe}/destinations/test`
    await listed.api('POST', at, database(listener.port), { key })
    t.ok(listener.count() > 0, 'a database that is listed with its port is dialed')
    const other = await listed.api('POST', at, database(1), { key })
    t.match(Object(other.body.errors)['destination_config.host'], /egress\.allow/, 'another port is not')
  })
})

t.test('with allow a second workspace changes nothing, and is told what that means', async (t) => {
  const env = { PIPECTL_EGRESS_PRIVATE: 'allow' }
  const daemon = await startDaemon({ env })
  t.teardown(() => daemon.close())
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  const created = await createWorkspace(daemon, env)
  t.match(created.stderr, /destinations of every workspace can connect to/)
  const { api_key: key } = JSON.parse(created.stdout)
  t.equal(await ruleShown(daemon, key), 'allow')
  const own = await daemon.api('POST', '/v1/pipes', { pipe_name: 'own' }, { key })
  const base = `/v1/pipes/${own.body.pipe_id}/destinations`
  const tested = await daemon.api('POST', `${base}/test`, endpoint(sink.url), { key })
  t.equal(tested.body.ok, true)
})
