/** `exactly_once` on all dialects: the lane's row in the database decides what of a batch is sent. */
import '../buffer/typescript-workers.ts'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { isolatedDrivers } from '../../../src/delivery/isolated-driver.ts'
import {
  type Batch,
  DeliveryError,
  type DriverSettings,
  noProgress,
  unreplicated,
} from '../../../src/destinations/driver.ts'
import { checkDestination, openDriver } from '../../../src/destinations/drivers.ts'
import { anyKey, makeBatch, makeSpec, never, openSettings, sliceBatch } from '../../support/batches.ts'
import { startMariadb } from '../../support/mariadb.ts'
import { startPostgres } from '../../support/postgres.ts'
import { startTableFile, workspaceId } from '../../support/table-file.ts'
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.ts'
import { until } from '../../support/until.ts'

const settings: DriverSettings = { ...openSettings, timeline: 'directory/1/1' }

interface World {
  type: 'destination_database' | 'destination_sqlite'
  /** Without the table. */
  config: Record<string, unknown>
  settings: DriverSettings
  query(sql: string): Promise<Record<string, unknown>[]>
  /** Null: there is no server, and so no reply, no lock that a server keeps, and no user of its own. */
  server: Server | null
}

interface Server {
  proxy: TcpProxy
  /** An attempt whose client is gone can still be committed. */
  commitsAbandoned: boolean
  /** A part of the reply after which a batch is stored. */
  storedReply(exactlyOnce: boolean): string
  /** Keeps everybody from storing into the table until it is called. */
  lock(table: string): Promise<() => Promise<unknown>>
  /** Attempts that wait for a lock. */
  waiting(): Promise<number>
  /** A user with no right but INSERT on the table; with the port and so on as in `server`. */
  poorUser(table: string): Promise<{ username: string; password: string }>
}

type Config = Record<string, unknown>
/** MariaDB shows a snapshot, and makes a new one only when nobody has looked for a tenth of a second. */
const slowly = { everyMs: 250 }

async function failure(work: Promise<unknown>): Promise<DeliveryError> {
  const error = await work.then(
    () => new Error('the delivery succeeded'),
    (reason: unknown) => reason,
  )
  if (error instanceof DeliveryError) return error
  throw error
}

const record = (n: number) => ({ n })
/** Five messages of two records each, at seqs 11 to 15; the next ones follow. */
const five = makeBatch(
  [0, 2, 4, 6, 8].map((n) => [record(n), record(n + 1)]),
  11,
)
const next = makeBatch([[record(10)], [record(11)]], 16)
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)
/** As the buffer of this data directory would say. */
const knows = (...batches: Batch[]) => ({
  ...noProgress,
  beforeRequest: async () => {},
  stored: () => {},
  messageIdAt: async (seq: number) =>
    batches.flatMap(({ messages }) => messages).find((message) => message.seq === seq)?.msgId ?? null,
})

async function exactlyOnce(t: Test, world: World): Promise<void> {
  const { query, settings, server } = world
  /** What a file, as SQLite's, cannot show. */
  const testWithServer = async (name: string, test: (t: Test, server: Server) => Promise<void>) => {
    if (server !== null) await t.test(name, async (t) => await test(t, server))
  }
  let tables = 0
  const newTable = async (columns = 'n int') => {
    tables += 1
    const table = `once_${tables}`
    await query(`CREATE TABLE ${table} (${columns})`)
    return table
  }
  const specOf = (table: string, config: Config = {}, columns: Parameters<typeof makeSpec>[2] = []) => {
    const whole = { ...world.config, table, exactly_once: true, ...config }
    return { ...makeSpec(world.type, whole, columns), workspaceId }
  }
  const openFor = (t: Test, spec: ReturnType<typeof specOf>, using = settings) => {
    const driver = openDriver(spec, using, anyKey)
    t.teardown(() => driver.close())
    return driver
  }
  const numbers = async (table: string) =>
    (await query(`SELECT n FROM ${table} ORDER BY n`)).map(({ n }) => Number(n))
  const rows = async () => (await query('SELECT * FROM _pipectl_lanes')).length

  await testWithServer(
    'the reply to the commit is lost: one copy; without exactly_once two',
    async (t, { proxy, storedReply }) => {
      for (const exactly_once of [true, false]) {
        const table = await newTable()
        const driver = openFor(t, specOf(table, { exactly_once, port: proxy.port }))
        await driver.deliver(sliceBatch(five, 0, 1), never, knows(five))
        const cuts = proxy.cuts()
        proxy.setMode({ kind: 'cut_at_reply', text: storedReply(exactly_once), times: 1 })
        const rest = sliceBatch(five, 1, 5)
        t.match(await failure(driver.deliver(rest, never, knows(five))), { class: 'transient' })
        t.equal(proxy.cuts(), cuts + 1)
        t.same(await numbers(table), upTo(10), 'the server had stored it')
        await driver.deliver(rest, never, knows(five))
        await driver.deliver(next, never, knows(five))
        const again = exactly_once ? [] : upTo(10).slice(2)
        t.same(await numbers(table), sorted([...upTo(12), ...again]))
      }
    },
  )

  await t.test('a range that was stored and is cut again, smaller or larger', async (t) => {
    const table = await newTable()
    const open = () => openFor(t, specOf(table))
    await open().deliver(sliceBatch(five, 0, 3), never, knows(five))
    await open().deliver(sliceBatch(five, 0, 2), never, knows(five))
    t.same(await numbers(table), upTo(6), 'smaller: nothing to send')
    await open().deliver(sliceBatch(five, 1, 5), never, knows(five))
    t.same(await numbers(table), upTo(10), 'larger: what was not there')
    await open().deliver(sliceBatch(five, 4, 5), never, knows(five))
    await open().deliver(next, never, knows(five))
    t.same(await numbers(table), upTo(12))
  })

  await t.test('the same in a thread of its own, which asks the lane for the message', async (t) => {
    const table = await newTable()
    const apart = isolatedDrivers(settings).open(specOf(table), anyKey)
    const attempt = (batch: Batch, messageIdAt?: ReturnType<typeof knows>['messageIdAt']) =>
      apart.deliver(batch, never, { ...knows(), ...(messageIdAt && { messageIdAt }) })
    await attempt(five)
    await attempt(sliceBatch(five, 0, 2), knows(five).messageIdAt)
    t.same(await numbers(table), upTo(10))
    t.match(await failure(attempt(sliceBatch(five, 0, 2))), { code: 'lane_row_conflict' })
    const unreadable = async () => Promise.reject(new Error('the file cannot be read'))
    t.match(await failure(attempt(sliceBatch(five, 0, 2), unreadable)), { code: 'message_unreadable' })
  })

  await t.test('a primary that this directory has replaced was further than the replica', async (t) => {
    const table = await newTable()
    const replaced = openFor(t, specOf(table))
    await replaced.deliver(five, never, knows(five))
    // The replica ends within the batch at seq 13: 14 and 15 are lost, and a new epoch follows.
    const kept = sliceBatch(five, 1, 3)
    const added = makeBatch([[record(20)]], 1_000)
    const after = { ...knows(kept, added), messageIdAt: async () => unreplicated } as const
    const taken = () => openFor(t, specOf(table))
    await taken().deliver(kept, never, after)
    t.same(await numbers(table), upTo(10), 'what is in the replica was stored')
    const spanning = makeBatch([[record(20)]], 1_000)
    const both = { ...spanning, firstSeq: kept.firstSeq, messages: [...kept.messages, ...added.messages] }
    await taken().deliver(both, never, after)
    t.same(await numbers(table), [...upTo(10), 20], 'and what follows is new')
    const late = makeBatch([[record(30)]], 16)
    t.match(await failure(replaced.deliver(late, never, knows(five))), { code: 'lane_row_conflict' })
    t.same(await numbers(table), [...upTo(10), 20], 'the replaced one stores nothing')
  })

  await testWithServer(
    'the second attempt waits for the first, which the server is still at',
    async (t, { proxy, lock, waiting, commitsAbandoned }) => {
      for (const exactly_once of [true, false]) {
        const table = await newTable()
        const spec = specOf(table, { exactly_once, port: proxy.port })
        await openFor(t, spec).deliver(sliceBatch(five, 0, 1), never, knows(five))
        const unlock = await lock(table)
        const rest = sliceBatch(five, 1, 5)
        const stop = new AbortController()
        const first = failure(openFor(t, spec).deliver(rest, stop.signal, knows(five)))
        await until('the first attempt waits', async () => (await waiting()) === 1, slowly)
        // The server does not learn that its client is gone.
        proxy.setMode({ kind: 'freeze' })
        stop.abort()
        t.match(await first, { code: 'aborted' })
        const second = openFor(t, specOf(table, { exactly_once })).deliver(rest, never, knows(five))
        await until('the second waits, too', async () => (await waiting()) === 2, slowly)
        await unlock()
        await second
        proxy.setMode({ kind: 'pass' })
        await until('nobody is at it', async () => (await waiting()) === 0, slowly)
        if (commitsAbandoned) {
          const again = exactly_once ? [] : upTo(10).slice(2)
          t.same(await numbers(table), sorted([...upTo(10), ...again]))
        } else t.same(await numbers(table), upTo(10), 'MySQL stores nothing of it without its COMMIT')
      }
    },
  )

  await t.test('a rewind delivers again; an attempt from before it does not', async (t) => {
    const table = await newTable()
    const driver = openFor(t, specOf(table))
    await driver.deliver(five, never, knows(five))
    const rewound = { ...sliceBatch(five, 3, 5), generation: 1_763_765_000_000 }
    await driver.deliver(rewound, never, knows(five))
    t.same(await numbers(table), sorted([...upTo(10), 6, 7, 8, 9]))
    await driver.deliver(rewound, never, knows(five))
    await openFor(t, specOf(table)).deliver(rewound, never, knows(five))
    t.equal((await numbers(table)).length, 14, 'once for each rewind')
    const error = await failure(openFor(t, specOf(table)).deliver(five, never, knows(five)))
    t.match(error, { class: 'permanent', code: 'lane_row_conflict', message: /later rewind/ })
    t.equal(error.failedSeq, five.firstSeq, 'no message is searched for')
    t.equal((await numbers(table)).length, 14)
  })

  await t.test('messages that were skipped, and a row that somebody deleted', async (t) => {
    const table = await newTable()
    const driver = openFor(t, specOf(table))
    await driver.deliver(sliceBatch(five, 0, 2), never, knows(five))
    await driver.deliver(sliceBatch(five, 3, 4), never, knows(five))
    t.same(await numbers(table), [0, 1, 2, 3, 6, 7])
    await query('DELETE FROM _pipectl_lanes')
    await driver.deliver(sliceBatch(five, 4, 5), never, knows(five))
    t.same(await numbers(table), [0, 1, 2, 3, 6, 7, 8, 9])
    await query('DROP TABLE _pipectl_lanes')
    await openFor(t, specOf(table)).deliver(next, never, knows(five))
    t.same(await numbers(table), [0, 1, 2, 3, 6, 7, 8, 9, 10, 11], 'the table is made again')
  })

  await t.test('whose row: another destination, data directory, restore or table has its own', async (t) => {
    const [table, other] = [await newTable(), await newTable()]
    const before = await rows().catch(() => 0)
    await openFor(t, specOf(table)).deliver(five, never, knows(five))
    await openFor(t, specOf(table), { ...settings, timeline: 'directory/2/900' }).deliver(five, never)
    await openFor(t, { ...specOf(table), destinationId: 'another' }).deliver(five, never)
    await openFor(t, specOf(other)).deliver(five, never)
    t.equal((await numbers(table)).length, 30)
    t.same(await numbers(other), upTo(10))
    t.equal(await rows(), before + 4)
  })

  await t.test('a copied data directory: the same ids and seqs, other messages', async (t) => {
    const table = await newTable()
    await openFor(t, specOf(table)).deliver(five, never, knows(five))
    const copied = makeBatch(
      [0, 2, 4, 6, 8].map((n) => [record(100 + n)]),
      11,
    )
    for (const [batch, known] of [
      [copied, knows(copied)],
      [sliceBatch(copied, 0, 3), knows(copied)],
      [sliceBatch(copied, 0, 3), knows(sliceBatch(copied, 0, 3))],
    ] as const) {
      const error = await failure(openFor(t, specOf(table)).deliver(batch, never, known))
      t.match(error, { class: 'permanent', code: 'lane_row_conflict', message: /seq 15.*copy.*rewind/ })
      t.equal(error.failedSeq, 11)
    }
    t.same(await numbers(table), upTo(10), 'nothing was left out in silence, and nothing stored')
    await openFor(t, specOf(table)).deliver({ ...copied, generation: 1 }, never, knows(copied))
    t.equal((await numbers(table)).length, 15, 'after a rewind, as the message says')
  })

  await t.test('a message that is refused, in a batch of which a part is stored already', async (t) => {
    const table = await newTable('n int primary key')
    const bad = makeBatch([[record(20)], [record(21)], [{ n: 'none' }], [record(22)]], 31)
    await openFor(t, specOf(table)).deliver(sliceBatch(bad, 0, 1), never, knows(bad))
    const driver = openFor(t, specOf(table))
    t.match(await failure(driver.deliver(bad, never, knows(bad))), { class: 'permanent', failedSeq: 33 })
    t.same(await numbers(table), [20])
    await driver.deliver(sliceBatch(bad, 1, 2), never, knows(bad))
    await driver.deliver(sliceBatch(bad, 3, 4), never, knows(bad))
    t.same(await numbers(table), [20, 21, 22])
  })

  await t.test('an upsert: a repeated batch does not bring old values back', async (t) => {
    for (const exactly_once of [true, false]) {
      const table = await newTable('n int primary key, v int')
      const columns = [
        {
          column_name: 'n',
          column_type: 'number' as const,
          source_field: 'n',
          semantic_role: 'dedupe_id' as const,
        },
        { column_name: 'v', column_type: 'number' as const },
      ]
      const spec = specOf(table, { exactly_once }, columns)
      const batch = makeBatch([[{ n: 1, v: 1 }], [{ n: 1, v: 2 }]], 41)
      await openFor(t, spec).deliver(batch, never, knows(batch))
      await query(`UPDATE ${table} SET v = 9`)
      await openFor(t, spec).deliver(batch, never, knows(batch))
      t.same(
        (await query(`SELECT v FROM ${table}`)).map(({ v }) => Number(v)),
        [exactly_once ? 9 : 2],
      )
    }
  })

  await t.test('a row that holds nonsense is not believed', async (t) => {
    const table = await newTable()
    await openFor(t, specOf(table)).deliver(five, never, knows(five))
    await query(`UPDATE _pipectl_lanes SET last_seq = 9223372036854775807 WHERE target = '${table}'`)
    const error = await failure(openFor(t, specOf(table)).deliver(next, never, knows(five, next)))
    t.match(error, { code: 'lane_row_conflict', message: /Delete the row/ })
    t.same(await numbers(table), upTo(10))
  })

  await testWithServer(
    'a user who may not make the table: the error and the test have what to run',
    async (t, { poorUser }) => {
      const table = await newTable()
      await query('DROP TABLE IF EXISTS _pipectl_lanes')
      const poor = await poorUser(table)
      const spec = specOf(table, poor)
      const error = await failure(openFor(t, spec).deliver(five, never, knows(five)))
      t.match(error, { class: 'permanent', code: 'lane_table_unusable', failedSeq: 11 })
      t.same(await numbers(table), [])
      const check = async () =>
        (await checkDestination(spec, settings, never, null)).find(({ name }) => name === 'exactly_once')
      t.match(await check(), { ok: false, message: error.message })
      const byHand = /administrator: (CREATE TABLE .*;) (GRANT .*;) The error of the server/.exec(
        error.message,
      )
      for (const sql of byHand?.slice(1) ?? []) await query(sql)
      t.match(await check(), { ok: true })
      await openFor(t, spec).deliver(five, never, knows(five))
      t.same(await numbers(table), upTo(10), 'after it was run')
    },
  )

  await t.test('the test of a destination says what will be made, and makes nothing', async (t) => {
    const table = await newTable()
    await query('DROP TABLE IF EXISTS _pipectl_lanes')
    const check = async (config: Config = {}) =>
      (await checkDestination(specOf(table, config), settings, never, { recent: null })).find(
        ({ name }) => name === 'exactly_once',
      )
    t.match(await check(), { ok: true, message: /_pipectl_lanes/ })
    t.equal(await check({ exactly_once: false }), undefined)
    await t.rejects(rows(), 'the lane table is not there')
    await openFor(t, specOf(table)).deliver(five, never, knows(five))
    t.match(await check(), { ok: true })
  })
}

const sorted = (list: readonly number[]) => [...list].sort((a, b) => a - b)

const pg = await startPostgres()
const pgProxy = await startProxy(pg)
const maria = await startMariadb()
const mariaProxy = await startProxy(maria)
t.teardown(async () => {
  await Promise.all([pgProxy.stop(), mariaProxy.stop()])
  await Promise.all([pg.stop(), maria.stop()])
})

const configOf = ({ host, port, database, user: username, password }: typeof pg | typeof maria) => ({
  ...{ host, port, database, username, password },
})

t.test('PostgreSQL', (t) =>
  exactlyOnce(t, {
    type: 'destination_database',
    config: configOf(pg),
    settings,
    query: (sql) => pg.query(sql),
    server: {
      proxy: pgProxy,
      commitsAbandoned: true,
      storedReply: (exactlyOnce) => (exactlyOnce ? 'SELECT 1' : 'INSERT 0 8'),
      async lock(table) {
        const session = new Client({ ...pg })
        await session.connect()
        await session.query(`BEGIN; LOCK TABLE ${table} IN SHARE MODE`)
        return () => session.end()
      },
      waiting: async () =>
        (await pg.query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).length,
      async poorUser(table) {
        await pg.query(`CREATE USER poor PASSWORD 'its own'; GRANT INSERT ON ${table} TO poor`)
        return { username: 'poor', password: 'its own' }
      },
    },
  }),
)

t.test('PostgreSQL: a foreign table is refused by name', async (t) => {
  await pg.query('CREATE EXTENSION IF NOT EXISTS file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw')
  await pg.query("CREATE FOREIGN TABLE far (n int) SERVER files OPTIONS (filename '/nowhere')")
  const { host, port, user: username, password, database } = pg
  const spec = makeSpec('destination_database', {
    ...{ host, port, database, username, password, table: 'far', exactly_once: true },
  })
  const driver = openDriver(spec, settings, anyKey)
  t.teardown(() => driver.close())
  t.match(await failure(driver.deliver(five, never)), { code: 'table_not_transactional', message: /"far"/ })
})

t.test('MariaDB', (t) =>
  exactlyOnce(t, {
    type: 'destination_database',
    config: { ...configOf(maria), dialect: 'mysql' },
    settings,
    query: (sql) => maria.query(sql),
    server: {
      proxy: mariaProxy,
      commitsAbandoned: false,
      // An OK packet, number 1, no rows, and the status flags of a session that is in no transaction any more.
      storedReply: () => '\x07\0\0\x01\0\0\0\0\0\0\0',
      async lock(table) {
        const session = await maria.connect()
        await session.query(`LOCK TABLES ${table} READ`)
        return () => session.end()
      },
      waiting: async () =>
        (
          await maria.query(
            "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for%' AND COMMAND = 'Execute' UNION ALL SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'",
          )
        ).length,
      async poorUser(table) {
        await maria.query("CREATE USER poor IDENTIFIED BY 'its own'")
        await maria.query(`GRANT INSERT ON ${maria.database}.${table} TO poor`)
        return { username: 'poor', password: 'its own' }
      },
    },
  }),
)

t.test('MariaDB: tables without transactions are refused by name, in the test and at run time', async (t) => {
  const { host, port, user: username, password, database } = maria
  const attempt = async (table: string) => {
    const config = { host, port, database, username, password, table, dialect: 'mysql', exactly_once: true }
    const spec = makeSpec('destination_database', config)
    const driver = openDriver(spec, settings, anyKey)
    t.teardown(() => driver.close())
    const checks = await checkDestination(spec, settings, never, null)
    return {
      error: await failure(driver.deliver(five, never)),
      check: checks.find(({ name }) => name === 'exactly_once'),
    }
  }
  await maria.query('DROP TABLE IF EXISTS _pipectl_lanes')
  await maria.query('CREATE TABLE old (n int) ENGINE = MyISAM')
  const old = await attempt('old')
  t.match(old.error, { class: 'permanent', code: 'table_not_transactional', failedSeq: 11 })
  t.match(old.error.message, /\.old is of the engine MyISAM.*ALTER TABLE/)
  t.match(old.check, { ok: false, message: old.error.message })
  t.same(await maria.query('SELECT * FROM old'), [])

  await maria.query('CREATE TABLE fine (n int)')
  await maria.query('CREATE VIEW seen AS SELECT * FROM fine')
  t.match((await attempt('seen')).error, { code: 'table_not_transactional', message: /a view/ })

  await maria.query('CREATE TABLE _pipectl_lanes (destination_id varchar(64)) ENGINE = MyISAM')
  const lanes = await attempt('fine')
  t.match(lanes.error, { code: 'table_not_transactional', message: /_pipectl_lanes is of the engine MyISAM/ })
  t.match(lanes.check, { ok: false, message: lanes.error.message })
  await maria.query('DROP TABLE _pipectl_lanes')
})

t.test('SQLite', async (t) => {
  const world = startTableFile()
  t.teardown(() => world.stop())
  const query = async (sql: string) => world.query(sql)
  const { settings } = world
  await exactlyOnce(t, {
    ...{ type: 'destination_sqlite', config: { file: world.file }, settings, query, server: null },
  })
})
