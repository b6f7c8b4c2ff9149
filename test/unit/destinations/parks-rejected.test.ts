/** Tables while the lane parks what is rejected: one bad record of a thousand costs one record. On all dialects. */
import '../buffer/typescript-workers.ts'
import t, { type Test } from 'tap'
import {
  type Batch,
  type DriverSettings,
  noProgress,
  type RejectedRecord,
} from '../../../src/destinations/driver.ts'
import { openDriver } from '../../../src/destinations/drivers.ts'
import { anyKey, failureOf, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { startMariadb } from '../../support/mariadb.ts'
import { startPostgres } from '../../support/postgres.ts'
import { startTableFile, workspaceId } from '../../support/table-file.ts'
import { startProxy, type TcpProxy } from '../../support/tcp-proxy.ts'

const settings: DriverSettings = { ...openSettings, timeline: 'directory/1/1' }

interface World {
  type: 'destination_database' | 'destination_sqlite'
  /** Without the table. */
  config: Record<string, unknown>
  settings: DriverSettings
  /** A config with which nothing can be stored. */
  stranger: Record<string, unknown>
  /** The definition of a column of at most three characters. */
  short(name: string): string
  /** A number that the integers of the table cannot hold. */
  tooLarge: number
  query(sql: string): Promise<Record<string, unknown>[]>
  /** Null: there is no server whose reply could be lost. */
  proxy: TcpProxy | null
  /** A part of the error about a text that is longer than its column. */
  tooLong: string
  /** A part of the reply to a COMMIT. */
  commitReply: string
  /** Rows whose name is `no` are refused with an error that no table of codes knows. */
  refuseBy(table: string): Promise<void>
}
type Columns = Parameters<typeof makeSpec>[2]

const mapped: Columns = [{ column_name: 'id' }, { column_name: 'name' }]
const upserted: Columns = [
  { column_name: 'id', source_field: 'id', semantic_role: 'dedupe_id' },
  { column_name: 'name' },
]
const thousand = 1_000
/** Messages of ten records each, `id` counts through; of the bad ones the name is longer than its column. */
function batchWith(bad: readonly number[], records = thousand, firstSeq = 1): Batch {
  const refused = new Set(bad)
  const record = (id: number) => ({ id: `r${id}`, name: refused.has(id) ? `bad ${id}` : 'x', other: 'y' })
  const message = (at: number) => Array.from({ length: 10 }, (_, index) => record(at * 10 + index))
  return makeBatch(
    Array.from({ length: records / 10 }, (_, at) => message(at)),
    firstSeq,
  )
}
function keeper(keep: () => Promise<void> = async () => {}) {
  const kept: RejectedRecord[] = []
  const sizes: number[] = []
  return {
    kept,
    sizes,
    places: () => kept.map(({ seq, recordIndex }) => (seq - 1) * 10 + recordIndex!),
    progress: {
      ...noProgress,
      beforeRequest: async () => {},
      stored() {},
      messageIdAt: async () => null,
      async park(rejected: readonly RejectedRecord[]) {
        sizes.push(rejected.length)
        kept.push(...rejected)
        await keep()
      },
    },
  }
}
const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

async function parks(t: Test, world: World): Promise<void> {
  const { query, short } = world
  let tables = 0
  const newTable = async (columns = `id varchar(20) primary key, ${short('name')}`) => {
    tables += 1
    const table = `aside_${tables}`
    await query(`CREATE TABLE ${table} (${columns})`)
    return table
  }
  const driverFor = (table: string, columns: Columns, config: Record<string, unknown> = {}) => {
    const spec = { ...makeSpec(world.type, { ...world.config, table, ...config }, columns), workspaceId }
    const driver = openDriver(spec, world.settings, anyKey)
    t.teardown(() => driver.close())
    return driver
  }
  const stored = async (table: string) =>
    (await query(`SELECT id FROM ${table}`))
      .map(({ id }) => Number(String(id).slice(1)))
      .sort((one, other) => one - other)
  const laneRow = async (table: string) =>
    (await query(`SELECT last_seq FROM _pipectl_lanes WHERE target = '${table}'`)).map(({ last_seq }) =>
      Number(last_seq),
    )

  const cases: [string, number[]][] = [
    ['the first', [0]],
    ['the last', [thousand - 1]],
    ['one in the middle', [517]],
    ['several', [0, 3, 4, 99, 100, 511, 512, 998, 999]],
    ['none', []],
  ]
  const kinds: [string, Columns][] = [
    ['plain', mapped],
    ['upsert', upserted],
    ['by name', []],
  ]
  for (const [kind, columns] of kinds) {
    for (const exactly_once of [false, true]) {
      await t.test(`${kind}${exactly_once ? ', exactly_once' : ''}: bad ones cost themselves`, async (t) => {
        for (const [name, bad] of cases) {
          const table = await newTable()
          const driver = driverFor(table, columns, { exactly_once })
          const { kept, places, progress } = keeper()
          await driver.deliver(batchWith(bad), never, progress)
          t.strictSame(places(), bad, `${name}: handed over, in order`)
          t.strictSame(await stored(table), without(bad), `${name}: all others are stored`)
          for (const [at, rejected] of kept.entries()) {
            t.match(rejected, { code: world.tooLong, column: 'name', value: `bad ${bad[at]}` })
            t.notMatch(rejected.message, /r\d/, 'nothing else of the record')
          }
          await driver.deliver(makeBatch([[{ id: 'r1000', name: 'x' }]], 101), never, progress)
          t.strictSame(await stored(table), [...without(bad), thousand], `${name}: and it goes on`)
          if (exactly_once) t.strictSame(await laneRow(table), [101])
        }
      })

      await t.test(`${kind}${exactly_once ? ', exactly_once' : ''}: all of them are bad`, async (t) => {
        const table = await newTable()
        const { sizes, places, progress } = keeper()
        const driver = driverFor(table, columns, { exactly_once })
        await driver.deliver(batchWith(upTo(1_500), 1_500), never, progress)
        t.strictSame(places(), upTo(1_500))
        t.strictSame(sizes, [1_000, 500], 'at most a thousand a call')
        t.strictSame(await stored(table), [])
        if (exactly_once) t.strictSame(await laneRow(table), [150])
      })

      await t.test(`${kind}${exactly_once ? ', exactly_once' : ''}: nothing is parked unasked`, async (t) => {
        const table = await newTable()
        const driver = driverFor(table, columns, { exactly_once })
        const error = await failureOf(driver.deliver(batchWith([517, 700]), never))
        t.match(error, { class: 'permanent', code: world.tooLong, fault: 'records', failedSeq: 52 })
        t.match(error.rejected, { seq: 52, recordIndex: 7, column: 'name', value: 'bad 517' })
        t.strictSame(await stored(table), [], 'all or nothing')
      })
    }
  }

  await t.test(
    'what cannot be kept is not passed over: nothing is stored, and the next attempt does it',
    async (t) => {
      for (const exactly_once of [false, true]) {
        const table = await newTable()
        const driver = driverFor(table, mapped, { exactly_once })
        const failing = keeper(() => Promise.reject(new Error('disk full')))
        t.match(await failureOf(driver.deliver(batchWith([517]), never, failing.progress)), {
          class: 'transient',
          code: 'not_set_aside',
        })
        t.strictSame(await stored(table), [])
        const { places, progress } = keeper(async () => {
          t.strictSame(await stored(table), [], 'not committed before it is kept')
        })
        await driver.deliver(batchWith([517]), never, progress)
        t.strictSame(places(), [517])
        t.strictSame(await stored(table), without([517]))
      }
    },
  )

  const { proxy } = world
  await t.test(
    'the reply to the commit is lost: kept already, and with exactly_once nothing is repeated',
    { skip: proxy === null && 'no network: test/crash/exactly-once.test.ts kills the daemon there' },
    async (t) => {
      const table = await newTable(`id varchar(20), ${short('name')}`)
      const driver = driverFor(table, mapped, { exactly_once: true, port: proxy!.port })
      // One more connection than the lane's: the row is made, the table read.
      await driver.deliver(makeBatch([[{ id: 'r9999', name: 'x' }]], 1), never, keeper().progress)
      const lost = keeper(async () => {
        proxy!.setMode({ kind: 'cut_at_reply', text: world.commitReply, times: 1 })
      })
      const batch = batchWith([17], 100, 2)
      t.match(await failureOf(driver.deliver(batch, never, lost.progress)), { class: 'transient' })
      t.equal(lost.kept.length, 1)
      const again = keeper()
      const known = { ...again.progress, messageIdAt: async () => batch.messages.at(-1)!.msgId }
      await driver.deliver(batch, never, known)
      t.strictSame(again.kept, [], 'the row says that all of it is done with')
      t.equal((await stored(table)).length, 100, '99 and the one before, once each')
    },
  )

  await t.test('what else a record may be refused for', async (t) => {
    const columns = 'id varchar(20) primary key, n int, m int NOT NULL, c int CHECK (c > 0)'
    const table = await newTable(columns)
    const map: Columns = ['id', 'n', 'm', 'c'].map((column_name) => ({ column_name }))
    const good = (id: string) => ({ id, n: 1, m: 1, c: 1 })
    const batch = makeBatch([
      [good('r1'), { ...good('r2'), n: 'abc' }, { ...good('r3'), n: world.tooLarge }],
      [{ ...good('r4'), m: null }, { ...good('r5'), c: -1 }, good('r1')],
      [{ ...good('r6'), other: 'a\u0000b' }, good('r7')],
    ])
    const { kept, progress } = keeper()
    await driverFor(table, map).deliver(batch, never, progress)
    t.strictSame(await stored(table), [1, 6, 7], 'text that the server cannot read is where no column is')
    t.match(kept.map(({ seq, recordIndex }) => [seq, recordIndex]).sort(), [
      [1, 1],
      [1, 2],
      [2, 0],
      [2, 1],
      [2, 2],
    ])
    const at = (seq: number, index: number) =>
      kept.find((rejected) => rejected.seq === seq && rejected.recordIndex === index)
    t.match(at(1, 1), { column: 'n', value: 'abc' })
    t.match(at(1, 2), { column: 'n', value: String(BigInt(world.tooLarge)) })
    t.match(at(2, 0), { column: 'm' })
    for (const { message } of kept) t.notMatch(message, /Failing row|r5/)
  })

  await t.test('by name: many columns, and a record that has none of them', async (t) => {
    const names = Array.from({ length: 120 }, (_, at) => `c${at}`)
    const table = await newTable(`id varchar(20), ${names.map(short).join(', ')}`)
    const wide = (id: number) => ({ id: `r${id}`, ...Object.fromEntries(names.map((name) => [name, 'x'])) })
    const batch = makeBatch([
      [wide(1), { nothing: 1 }, wide(2)],
      [
        { ...wide(3), c119: 'too long' },
        { id: 'r4', c7: 'x' },
      ],
    ])
    const { kept, progress } = keeper()
    await driverFor(table, []).deliver(batch, never, progress)
    t.strictSame(await stored(table), [1, 2, 4])
    t.match(kept, [
      { seq: 1, recordIndex: 1, code: 'no_matching_column' },
      { seq: 2, recordIndex: 0, code: world.tooLong, column: 'c119', value: 'too long' },
    ])
    t.match(await failureOf(driverFor(table, []).deliver(batch, never)), {
      ...{ code: 'no_matching_column', fault: 'records' },
      rejected: { seq: 1, recordIndex: 1 },
    })
    const none = keeper()
    await driverFor(table, []).deliver(makeBatch([[{ nothing: 1 }, { nothing: 2 }]]), never, none.progress)
    t.equal(none.kept.length, 2, 'none at all')
  })

  await t.test('what is wrong with the destination parks nothing', async (t) => {
    const { kept, progress } = keeper()
    const attempts: [string, Record<string, unknown>, Columns][] = [
      ['gone', {}, mapped],
      [await newTable(), world.stranger, mapped],
      [await newTable(), {}, [{ column_name: 'nowhere' }]],
    ]
    for (const [table, config, columns] of attempts) {
      const driver = driverFor(table, columns, config)
      const error = await failureOf(driver.deliver(batchWith([3]), never, progress))
      t.match(error, { class: 'permanent', fault: 'destination', rejected: undefined })
    }
    t.strictSame(kept, [])
  })

  await t.test(
    'an error of no known kind: a record’s where others are taken, else the destination’s',
    async (t) => {
      const table = await newTable()
      await world.refuseBy(table)
      const { places, progress } = keeper()
      // The trigger's error has a code that nobody knows.
      await driverFor(table, mapped).deliver(batchNamed([3, 17], 'no', 100), never, progress)
      t.strictSame(places(), [3, 17])
      const all = keeper()
      const error = await failureOf(
        driverFor(table, mapped).deliver(batchNamed(upTo(100), 'no', 100), never, all.progress),
      )
      t.match(error, { class: 'permanent', fault: 'destination', rejected: undefined, failedSeq: 1 })
      t.strictSame(all.kept, [])
      const unasked = await failureOf(driverFor(table, upserted).deliver(batchNamed([17], 'no', 100), never))
      t.match(unasked, { fault: 'records', rejected: { seq: 2, recordIndex: 7 } })
    },
  )
}

const without = (bad: readonly number[]) => upTo(thousand).filter((id) => !bad.includes(id))
function batchNamed(bad: readonly number[], name: string, records: number): Batch {
  return makeBatch(
    upTo(records / 10).map((at) =>
      upTo(10).map((index) => ({
        id: `r${at * 10 + index}`,
        name: bad.includes(at * 10 + index) ? name : 'x',
      })),
    ),
  )
}

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
const ofServers = {
  stranger: { password: 'wrong' },
  short: (name: string) => `${name} varchar(3)`,
  tooLarge: 99_999_999_999,
}

t.test('PostgreSQL', (t) =>
  parks(t, {
    ...{
      type: 'destination_database',
      config: configOf(pg),
      settings,
      query: (sql) => pg.query(sql),
      proxy: pgProxy,
    },
    ...ofServers,
    ...{ tooLong: '22001', commitReply: 'COMMIT' },
    async refuseBy(table) {
      await pg.query(`CREATE OR REPLACE FUNCTION refuse_no() RETURNS trigger AS $$
        BEGIN IF NEW.name = 'no' THEN RAISE EXCEPTION 'no' USING ERRCODE = 'ZZ999'; END IF; RETURN NEW; END $$ LANGUAGE plpgsql`)
      await pg.query(
        `CREATE TRIGGER refuse BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION refuse_no()`,
      )
    },
  }),
)

t.test('MariaDB', (t) =>
  parks(t, {
    ...{ type: 'destination_database', settings, query: (sql) => maria.query(sql), proxy: mariaProxy },
    ...{ ...ofServers, config: { ...configOf(maria), dialect: 'mysql' } },
    ...{ tooLong: 'ER_DATA_TOO_LONG', commitReply: '\x07\0\0\x01\0\0\0\0\0\0\0' },
    async refuseBy(table) {
      await maria.query(
        `CREATE TRIGGER refuse_${table} BEFORE INSERT ON ${table} FOR EACH ROW BEGIN IF NEW.name = 'no' THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1999, MESSAGE_TEXT = 'no'; END IF; END`,
      )
    },
  }),
)

t.test('SQLite', async (t) => {
  const world = startTableFile()
  t.teardown(() => world.stop())
  const query = async (sql: string) => world.query(sql)
  await parks(t, {
    ...{
      type: 'destination_sqlite',
      config: { file: world.file },
      settings: world.settings,
      query,
      proxy: null,
    },
    ...{ stranger: { file: 'another' }, tooLarge: 1e20, commitReply: '' },
    short: (name) => `${name} text CHECK (length(${name}) <= 3)`,
    tooLong: 'SQLITE_CONSTRAINT_CHECK',
    refuseBy: async (table) => {
      world.query(
        `CREATE TRIGGER refuse_${table} BEFORE INSERT ON ${table} WHEN NEW.name = 'no' BEGIN SELECT RAISE(ABORT, 'no'); END`,
      )
    },
  })
})
