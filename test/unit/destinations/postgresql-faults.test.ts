/** PostgreSQL driver and a bad world: TLS rule, servers that are down, silent or lost, replies that never come. */
import t from 'tap'
import {
  DeliveryError,
  type DestinationDriver,
  type DriverSettings,
} from '../../../src/destinations/driver.ts'
import { postgresql } from '../../../src/destinations/postgresql/driver.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { startPostgres } from '../../support/postgres.ts'
import { startProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'

const pg = await startPostgres()
const proxy = await startProxy(pg)
const opened: DestinationDriver[] = []
t.teardown(async () => {
  await Promise.all(opened.map((driver) => driver.close()))
  await proxy.stop()
  await pg.stop()
})
t.afterEach(async () => {
  proxy.setMode({ kind: 'pass' })
  await Promise.all(opened.splice(0).map((driver) => driver.close()))
})
await pg.query(`CREATE TABLE keyed (id text PRIMARY KEY, v int); CREATE TABLE plain (v int)`)

function open(
  table: string,
  config: Record<string, unknown> = {},
  settings: DriverSettings = openSettings,
): DestinationDriver {
  const columns =
    table === 'keyed'
      ? [{ column_name: 'id', semantic_role: 'dedupe_id' as const }, { column_name: 'v' }]
      : []
  const { host, port, database, user: username, password } = pg
  const spec = makeSpec(
    'destination_database',
    { host, port, database, username, password, table, ...config },
    columns,
  )
  const driver = postgresql.open(spec, settings, anyKey)
  opened.push(driver)
  return driver
}
const viaProxy = (table: string) => open(table, { port: proxy.port })
async function failure(work: Promise<unknown>): Promise<DeliveryError> {
  try {
    await work
  } catch (error) {
    if (error instanceof DeliveryError) return error
    throw error
  }
  throw new Error('the delivery succeeded')
}
const batch = makeBatch([[{ v: 1 }, { v: 2 }], [{ v: 3 }]])
const countOf = async (table: string) => (await pg.query(`SELECT v FROM ${table}`)).length
const ownSessions = () =>
  pg.query(`SELECT ssl FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) WHERE application_name = 'pipectl'`)
const noSession = () => until('no connection of the driver', async () => (await ownSessions()).length === 0)

t.test(
  'TLS unless the host is localhost or 127.0.0.1; DESTINATION_DB_SSL turns it on there too',
  async (t) => {
    const cases: [string, boolean, boolean][] = [
      ['127.0.0.1', false, false],
      ['localhost', false, false],
      ['127.0.0.1', true, true],
      ['localhost', true, true],
      ['127.0.0.2', false, true],
    ]
    for (const [host, databaseTls, ssl] of cases) {
      await noSession()
      const driver = open('plain', { host }, { ...openSettings, databaseTls })
      await driver.deliver(batch, never)
      t.same(await ownSessions(), [{ ssl }], `${host}, setting ${databaseTls}`)
      await driver.close()
    }
  },
)

t.test('a server without TLS where TLS is due: permanent, and it says so', async (t) => {
  const bare = await startPostgres({ ssl: false })
  t.teardown(() => bare.stop())
  const error = await failure(
    open('plain', { host: '127.0.0.2', port: bare.port, password: bare.password }).deliver(batch, never),
  )
  t.match(error, { class: 'permanent', code: 'tls_unavailable', failedSeq: 1 })
})

t.test('one connection a lane, kept for the next batch', async (t) => {
  await noSession()
  const driver = open('plain')
  t.same(await ownSessions(), [], 'opening a driver does no I/O')
  for (let round = 0; round < 3; round += 1) await driver.deliver(batch, never)
  t.equal((await ownSessions()).length, 1)
  await driver.close()
  await noSession()
})

t.test('unknown outcome: the reply to COMMIT is lost and the same batch goes again', async (t) => {
  await pg.query('TRUNCATE keyed, plain')
  for (const [table, copies] of [
    ['keyed', 1],
    ['plain', 2],
  ] as const) {
    const driver = viaProxy(table)
    const cutsBefore = proxy.cuts()
    proxy.setMode({ kind: 'cut_at_reply', text: 'INSERT 0 3', times: 1 })
    const error = await failure(driver.deliver(batch, never))
    t.equal(error.class, 'transient')
    t.equal(proxy.cuts(), cutsBefore + 1)
    t.equal(await countOf(table), 3, 'the server had stored it')
    await driver.deliver(batch, never)
    t.equal(
      await countOf(table),
      3 * copies,
      table === 'plain' ? 'negative control: no dedupe_id' : 'one copy',
    )
  }
})

t.test('cut, reset or refused connections are transient, and the next attempt succeeds', async (t) => {
  await pg.query('TRUNCATE plain')
  const driver = viaProxy('plain')
  proxy.setMode({ kind: 'reset' })
  t.equal((await failure(driver.deliver(batch, never))).class, 'transient')
  for (const bytes of [0, 1, 30, 400]) {
    proxy.setMode({ kind: 'cut_after', bytes })
    t.equal((await failure(driver.deliver(batch, never))).class, 'transient', `cut after ${bytes} bytes`)
  }
  t.match(await failure(open('plain', { port: 1 }).deliver(batch, never)), {
    class: 'transient',
    code: 'ECONNREFUSED',
  })
  t.match(await failure(open('plain', { host: 'no-such-host.invalid' }).deliver(batch, never)), {
    class: 'transient',
  })
  t.equal(await countOf('plain'), 0)
  proxy.setMode({ kind: 'pass' })
  await driver.deliver(batch, never)
  t.equal(await countOf('plain'), 3)
})

t.test('silence: the signal ends the attempt at once and destroys the socket', async (t) => {
  const fresh = viaProxy('plain')
  const busy = viaProxy('plain')
  for (const [driver, mode] of [
    [fresh, 'black_hole'],
    [busy, 'freeze'],
    [fresh, 'trickle'],
  ] as const) {
    if (driver === busy) await busy.deliver(batch, never)
    proxy.setMode({ kind: mode })
    const controller = new AbortController()
    const attempt = failure(driver.deliver(batch, controller.signal))
    await until('a connection through the proxy', () => proxy.connections() > 0)
    controller.abort()
    t.match(await attempt, { class: 'transient', code: 'aborted' }, mode)
    await until('the socket is gone', () => proxy.connections() === 0)
    proxy.setMode({ kind: 'pass' })
  }
  await busy.deliver(batch, never)
})

t.test('a paused server (SIGSTOP): nothing is lost, delivery goes on after it wakes', async (t) => {
  await pg.query('TRUNCATE keyed')
  const driver = open('keyed')
  await driver.deliver(makeBatch([[{ v: 0 }]], 90), never)
  pg.pause()
  const controller = new AbortController()
  const attempt = failure(driver.deliver(batch, controller.signal))
  controller.abort()
  t.match(await attempt, { class: 'transient', code: 'aborted' })
  pg.resume()
  await driver.deliver(batch, never)
  t.equal(await countOf('keyed'), 4)
})

t.test('a stopped server and a terminated backend are transient; the driver connects again', async (t) => {
  await pg.query('TRUNCATE plain')
  const driver = open('plain')
  await driver.deliver(batch, never)
  await pg.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pipectl'`)
  await until('the driver is let in again', () => driver.deliver(batch, never).then(() => true))
  await pg.halt()
  t.equal((await failure(driver.deliver(batch, never))).class, 'transient')
  t.match(await failure(driver.deliver(batch, never)), { class: 'transient', code: 'ECONNREFUSED' })
  await pg.start()
  await driver.deliver(batch, never)
  t.equal(await countOf('plain'), 9)
})

t.test('what the server says of itself is transient: cancelled statements, deadlocks, locks', async (t) => {
  await pg.query(`CREATE TABLE grumpy (state text);
    CREATE FUNCTION grumble() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'as told' USING ERRCODE = NEW.state; END $$;
    CREATE TRIGGER grumble BEFORE INSERT ON grumpy FOR EACH ROW EXECUTE FUNCTION grumble()`)
  const driver = open('grumpy')
  for (const state of ['08006', '40001', '40P01', '53100', '53300', '55P03', '57014', '57P03']) {
    t.match(await failure(driver.deliver(makeBatch([[{ state }]]), never)), {
      class: 'transient',
      code: state,
      timedOut: state === '57014' ? 'rolled_back' : undefined,
    })
  }
  for (const state of ['P0001', '22012', '0A000', '42501']) {
    t.match(await failure(driver.deliver(makeBatch([[{ state }]]), never)), {
      class: 'permanent',
      code: state,
    })
  }
})

t.test('egress: a rejected database host is permanent, and nothing is dialled', async (t) => {
  const before = proxy.accepted()
  const denying = {
    ...openSettings,
    egress: { allow: [], deny: ['127.0.0.0/8', '::1'], private: 'allow' as const },
  }
  for (const host of ['127.0.0.1', 'localhost', '127.1', '/var/run/postgresql', '169.254.169.254']) {
    const error = await failure(open('plain', { host, port: proxy.port }, denying).deliver(batch, never))
    t.match(error, { class: 'permanent', code: 'egress_denied', failedSeq: 1 }, host)
  }
  t.equal(proxy.accepted(), before)
  await open('plain', { port: proxy.port }).deliver(batch, never)
  t.equal(proxy.accepted(), before + 1, 'negative control: the open policy dials')
})
