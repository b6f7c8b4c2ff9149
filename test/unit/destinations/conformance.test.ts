/** The driver port's promises, kept by each driver against a real server. */
import '../buffer/typescript-workers.ts'
import { gunzipSync } from 'node:zlib'
import { jetstreamManager } from '@nats-io/jetstream'
import t from 'tap'
import { startHttpSink } from '../../support/http-sink.ts'
import { startMariadb } from '../../support/mariadb.ts'
import { startNats } from '../../support/nats.ts'
import { startPostgres } from '../../support/postgres.ts'
import { startSigV4Receiver } from '../../support/s3.ts'
import { startTableFile, workspaceId } from '../../support/table-file.ts'
import { conform } from './conformance.ts'

const keyed = [
  { column_name: 'id', semantic_role: 'dedupe_id' as const },
  { column_name: 'n', column_type: 'number' as const },
]

t.test('PostgreSQL', async (t) => {
  const pg = await startPostgres()
  t.teardown(() => pg.stop())
  await pg.query('CREATE TABLE kept (place serial, id text PRIMARY KEY, n int)')
  const { host, port, database, user: username, password } = pg
  await conform(t, {
    type: 'destination_database',
    config: { host, port, database, username, password, table: 'kept' },
    columns: keyed,
    nobodyThere: { port: 1 },
    stranger: { password: 'wrong' },
    strangerClass: 'permanent',
    clear: () => pg.query('TRUNCATE kept'),
    stored: async () => (await pg.query('SELECT n FROM kept ORDER BY place')).map(({ n }) => Number(n)),
    isIdempotent: true,
    async stall() {
      await pg.query(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(30); RETURN NEW; END';
        CREATE TRIGGER waits BEFORE INSERT ON kept FOR EACH ROW EXECUTE FUNCTION wait()`)
      return () =>
        pg.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pipectl';
          DROP TRIGGER waits ON kept; DROP FUNCTION wait`)
    },
    poison: { n: 'not a number' },
    connections: async () =>
      (await pg.query(`SELECT 1 FROM pg_stat_activity WHERE application_name = 'pipectl'`)).length,
  })
})

t.test('MariaDB', async (t) => {
  const maria = await startMariadb()
  t.teardown(() => maria.stop())
  await maria.query('CREATE TABLE kept (place int AUTO_INCREMENT UNIQUE, id varchar(80) PRIMARY KEY, n int)')
  const { host, port, database, user: username, password } = maria
  const others = () =>
    maria.query(
      `SELECT 1 FROM information_schema.PROCESSLIST WHERE USER = '${username}' AND ID <> CONNECTION_ID()`,
    )
  const before = (await others()).length
  await conform(t, {
    type: 'destination_database',
    config: { host, port, database, username, password, table: 'kept', dialect: 'mariadb' },
    columns: keyed,
    nobodyThere: { port: 1 },
    stranger: { password: 'wrong' },
    strangerClass: 'permanent',
    clear: () => maria.query('DELETE FROM kept'),
    stored: async () => (await maria.query('SELECT n FROM kept ORDER BY place')).map(({ n }) => Number(n)),
    isIdempotent: true,
    async stall() {
      await maria.query('CREATE TRIGGER waits BEFORE INSERT ON kept FOR EACH ROW SET @waited = SLEEP(30)')
      return async () => {
        for (const { ID } of await maria.query(
          `SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT%'`,
        ))
          await maria.query(`KILL ${ID}`).catch(() => [])
        await maria.query('DROP TRIGGER waits')
      }
    },
    poison: { n: 'not a number' },
    connections: async () => (await others()).length - before,
  })
})

t.test('SQLite', async (t) => {
  const world = startTableFile()
  t.teardown(() => world.stop())
  world.query('CREATE TABLE kept (place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, n INTEGER) STRICT')
  await conform(t, {
    type: 'destination_sqlite',
    config: { file: world.file, table: 'kept' },
    columns: keyed,
    settings: world.settings,
    workspaceId,
    nobodyThere: null,
    stranger: { file: 'another' },
    strangerClass: 'permanent',
    clear: async () => world.query('DELETE FROM kept'),
    stored: async () => world.query('SELECT n FROM kept ORDER BY place').map(({ n }) => Number(n)),
    isIdempotent: true,
    stall: async () => world.lock(),
    poison: { n: 'not a number' },
    connections: async () => world.connections(),
  })
})

t.test('object store', async (t) => {
  const account = { bucket: 'events', region: 'eu-west-1', accessKey: 'AKIDTEST', secretKey: 'secret' }
  const store = await startSigV4Receiver(account)
  t.teardown(() => store.stop())
  await conform(t, {
    type: 'destination_object_store',
    config: {
      bucket: account.bucket,
      region: account.region,
      endpoint: store.endpoint,
      access_key: account.accessKey,
      secret_key: account.secretKey,
    },
    nobodyThere: { endpoint: 'http://127.0.0.1:1' },
    stranger: { secret_key: 'wrong' },
    strangerClass: 'permanent',
    async clear() {
      store.objects.clear()
      store.requests.length = 0
    },
    stored: async () =>
      [...store.objects]
        .sort(([one], [other]) => (one < other ? -1 : 1))
        .flatMap(([, { body }]) =>
          gunzipSync(body)
            .toString()
            .trim()
            .split('\n')
            .map((line) => JSON.parse(line).n),
        ),
    isIdempotent: true,
    async stall() {
      store.faults.push('silence')
      return () => {
        store.faults.length = 0
      }
    },
    // A store does not look into objects.
    poison: null,
    connections: () => store.connections(),
  })
})

t.test('NATS JetStream', async (t) => {
  const nats = await startNats({ auth: { user: 'loader', password: 'known' } })
  t.teardown(() => nats.stop())
  const [server] = nats.servers
  const connection = await nats.connect()
  t.teardown(() => connection.close())
  const manager = await jetstreamManager(connection)
  await conform(t, {
    type: 'destination_nats',
    config: { url: server?.proxyUrl, subject: 'events', username: 'loader', password: 'known' },
    nobodyThere: { url: 'nats://127.0.0.1:1' },
    stranger: { password: 'wrong' },
    strangerClass: 'permanent',
    // With the stream goes what it remembers of ids.
    async clear() {
      await manager.streams.delete('EVENTS').catch(() => false)
      await manager.streams.add({ name: 'EVENTS', subjects: ['events'] })
    },
    async stored() {
      const { state } = await manager.streams.info('EVENTS')
      const all = Array.from({ length: state.messages }, (_, at) => state.first_seq + at)
      const messages = await Promise.all(all.map((seq) => manager.streams.getMessage('EVENTS', { seq })))
      return messages.map((message) => message?.json<{ n: number }>().n ?? -1)
    },
    isIdempotent: true,
    async stall() {
      server?.proxy.setMode({ kind: 'hold' })
      return () => server?.proxy.setMode({ kind: 'pass' })
    },
    // Records before the one that is refused are stored.
    poison: null,
    connections: async () => server?.proxy.connections() ?? 0,
  })
})

t.test('HTTP endpoint', async (t) => {
  const sink = await startHttpSink()
  t.teardown(() => sink.stop())
  let isStalled = false
  const stored: number[] = []
  await conform(t, {
    type: 'destination_http_endpoint',
    config: { url: sink.url, auth_header: 'Bearer known', body_format: 'json_array' },
    nobodyThere: { url: 'http://127.0.0.1:1/' },
    stranger: { auth_header: 'Bearer stranger' },
    strangerClass: 'permanent',
    async clear() {
      stored.length = 0
      sink.respondWith(({ headers, text }) => {
        if (isStalled) return { fault: 'never' }
        if (headers.authorization !== 'Bearer known') return { status: 401 }
        stored.push(...JSON.parse(text).map(({ n }: { n: number }) => n))
        return {}
      })
    },
    stored: async () => [...stored],
    // The receiver can tell a repetition by its webhook-id; nobody does it for it.
    isIdempotent: false,
    async stall() {
      isStalled = true
      return () => {
        isStalled = false
      }
    },
    // Which record of an array was wrong, an endpoint cannot say.
    poison: null,
    connections: async () => sink.connections(),
  })
})
