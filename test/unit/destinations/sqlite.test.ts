/** SQLite files: every digit, the file under the lane's feet, its size, and who can reach it. */
import '../buffer/typescript-workers.ts'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import { type AttemptProgress, DeliveryError, noProgress } from '../../../src/destinations/driver.ts'
import {
  checkDestination,
  forgetDestination,
  openDriver,
  unavailableFault,
} from '../../../src/destinations/drivers.ts'
import {
  listTableFiles,
  openTableFileReadOnly,
  tableFilePath,
} from '../../../src/destinations/sqlite/files.ts'
import { anyKey, failureOf, makeBatch, makeSpec, never, openSettings } from '../../support/batches.ts'
import { smallDisk } from '../../support/small-disk.ts'
import { startTableFile, type TableWorld, workspaceId } from '../../support/table-file.ts'
import { until } from '../../support/until.ts'

type Columns = Parameters<typeof makeSpec>[2]

function startFile(t: Test): TableWorld {
  const world = startTableFile()
  t.teardown(() => world.stop())
  return world
}

function specOf(world: TableWorld, table: string, config: object = {}, columns: Columns = []) {
  return { ...makeSpec('destination_sqlite', { file: world.file, table, ...config }, columns), workspaceId }
}

function driverOf(t: Test, world: TableWorld, table: string, config: object = {}, columns: Columns = []) {
  const driver = openDriver(specOf(world, table, config, columns), world.settings, anyKey)
  t.teardown(() => driver.close())
  return driver
}

/** Runs `act` after the rows are inserted and before they are committed. */
const beforeCommit = (act: () => void): AttemptProgress => ({ ...noProgress, park: async () => act() })

t.test('every digit is kept, or the record is rejected by name', async (t) => {
  const world = startFile(t)
  const kinds = { i: 'INTEGER', r: 'REAL', t: 'TEXT', a: 'ANY', b: 'BLOB' }
  const declared = Object.entries(kinds).map(([name, type]) => `${name} ${type}`)
  world.query(`CREATE TABLE strict (${declared.join(', ')}) STRICT`)
  world.query('CREATE TABLE loose (i int, r double, t varchar(2), a, b blob, n decimal(10,2), d date)')
  const kept: [json: string, column: string, stored: unknown][] = [
    ['9223372036854775807', 'i', 9223372036854775807n],
    ['-9223372036854775808', 'i', -9223372036854775808n],
    ['1.0', 'i', 1],
    ['1e3', 'i', 1000],
    ['"12"', 'i', 12],
    ['true', 'i', 1],
    ['1.1', 'r', 1.1],
    ['5', 'r', 5],
    ['12345678901234567890', 't', '12345678901234567890'],
    ['1.10', 't', '1.10'],
    ['"007"', 't', '007'],
    ['true', 't', 'true'],
    ['{"a": 1.10}', 't', '{"a": 1.10}'],
    ['"a\\u0000b"', 't', 'a\0b'],
    ['9223372036854775807', 'a', 9223372036854775807n],
    ['12345678901234567890', 'a', '12345678901234567890'],
    ['0.1', 'a', 0.1],
    ['1.2345678901234567890', 'a', '1.2345678901234567890'],
    ['"5"', 'a', '5'],
    ['"é"', 'b', Buffer.from('é')],
  ]
  const looseOnly: typeof kept = [
    ['1.10', 'n', 1.1],
    ['"19.99"', 'n', 19.99],
    ['"2026-01-02"', 'd', '2026-01-02'],
  ]
  const rejected: [json: string, column: string][] = [
    ['9223372036854775808', 'i'],
    ['1.5', 'i'],
    ['"x"', 'i'],
    ['""', 'i'],
    ['[1]', 'i'],
    ['12345678901234567890', 'r'],
    ['1e400', 'r'],
    ['"\\ud800"', 't'],
    ['"\\ud800"', 'a'],
  ]
  const looseRejected: typeof rejected = [
    ['12345678901234567890', 'n'],
    ['"12345678901234567890"', 'd'],
  ]
  for (const table of ['strict', 'loose']) {
    const driver = driverOf(t, world, table)
    for (const [json, column, stored] of [...kept, ...(table === 'loose' ? looseOnly : [])]) {
      world.query(`DELETE FROM ${table}`)
      await driver.deliver(makeBatch([[`{"${column}":${json}}`]]), never)
      t.same(
        world.query(`SELECT ${column} AS v FROM ${table}`),
        [{ v: stored }],
        `${table} ${column}: ${json}`,
      )
    }
    world.query(`DELETE FROM ${table}`)
    for (const [json, column] of [...rejected, ...(table === 'loose' ? looseRejected : [])]) {
      const error = await failureOf(driver.deliver(makeBatch([[`{"${column}":${json}}`]]), never))
      t.match(error, { code: 'invalid_value', fault: 'records', failedSeq: 1 }, `${table} ${column}: ${json}`)
      t.match(error.rejected, { column, recordIndex: 0 })
    }
    t.same(world.query(`SELECT * FROM ${table}`), [])
  }
})

t.test('an upsert; another unique key is not overwritten; a repeat stores nothing twice', async (t) => {
  const world = startFile(t)
  world.query('CREATE TABLE kept (id TEXT PRIMARY KEY, mail TEXT UNIQUE, at INTEGER) STRICT')
  const driver = driverOf(t, world, 'kept', {}, [
    { column_name: 'ID', source_field: 'id', semantic_role: 'dedupe_id' },
    { column_name: 'mail' },
    { column_name: 'at', column_type: 'number', semantic_role: 'received_at' },
  ])
  const batch = makeBatch([
    [
      { id: 'a', mail: 'x' },
      { id: 'A', mail: 'y' },
      { id: 'a', mail: 'z' },
    ],
  ])
  await driver.deliver(batch, never)
  await driver.deliver(batch, never)
  t.same(world.query('SELECT id, mail FROM kept ORDER BY mail'), [
    { id: 'A', mail: 'y' },
    { id: 'a', mail: 'z' },
  ])
  t.match(world.query('SELECT DISTINCT at FROM kept'), [{ at: batch.messages[0]!.receivedMs }])
  const clash = await failureOf(driver.deliver(makeBatch([[{ id: 'b', mail: 'y' }]]), never))
  t.match(clash, { code: 'SQLITE_CONSTRAINT_UNIQUE', fault: 'records' })
  t.match(clash.rejected, { column: 'mail', value: 'y' })
  const none = await failureOf(driver.deliver(makeBatch([[{ mail: 'q' }]]), never))
  t.match(none, { code: 'no_dedupe_value' })
})

t.test('readers see whole batches while a lane writes, and do not stop it', async (t) => {
  const world = startFile(t)
  world.query('CREATE TABLE seen (n INTEGER) STRICT')
  const driver = driverOf(t, world, 'seen')
  await driver.deliver(makeBatch([[{ n: 1 }]]), never)
  const reader = openTableFileReadOnly(world.path)
  reader.exec('BEGIN')
  const count = () => reader.prepare('SELECT count(*) AS n FROM seen').get()
  t.same(count(), { n: 1 })
  await driver.deliver(makeBatch([[{ n: 2 }], [{ n: 3 }]], 2), never)
  t.same(count(), { n: 1 }, 'its snapshot')
  reader.exec('COMMIT')
  t.same(count(), { n: 3 })
  t.throws(() => reader.exec('DELETE FROM seen'), /readonly|read-only/)
  reader.close()
})

t.test('a program that holds a write transaction: the lane waits, and says so', async (t) => {
  const world = startFile(t)
  world.query('CREATE TABLE held (n INTEGER) STRICT')
  const driver = driverOf(t, world, 'held')
  const release = world.lock()
  t.match(await failureOf(driver.deliver(makeBatch([[{ n: 1 }]]), never)), {
    class: 'transient',
    code: 'SQLITE_BUSY',
  })
  release()
  await driver.deliver(makeBatch([[{ n: 1 }]]), never)
  t.equal(world.query('SELECT * FROM held').length, 1)
})

t.test('the file is deleted, replaced or moved during a batch: it is not counted as stored', async (t) => {
  const columns: Columns = [{ column_name: 'n', column_type: 'number' }]
  const batch = makeBatch([[{ n: 1 }, { n: 'x' }]])
  const away = (world: TableWorld) => {
    for (const ending of ['', '-wal', '-shm']) rmSync(`${world.path}${ending}`, { force: true })
  }
  const acts: [name: string, act: (world: TableWorld) => void, repair: (world: TableWorld) => void][] = [
    ['deleted', away, (world) => world.query('CREATE TABLE moved (n INTEGER) STRICT')],
    [
      'moved',
      (world) => {
        for (const ending of ['', '-wal', '-shm'])
          renameSync(`${world.path}${ending}`, `${world.path}.old${ending}`)
      },
      (world) => world.query('CREATE TABLE moved (n INTEGER) STRICT'),
    ],
    ['its WAL deleted', (world) => unlinkSync(`${world.path}-wal`), () => {}],
    [
      'replaced',
      (world) => {
        away(world)
        world.query('CREATE TABLE moved (n INTEGER) STRICT')
      },
      () => {},
    ],
  ]
  for (const exactly_once of [true, false]) {
    for (const [name, act, repair] of acts) {
      const world = startFile(t)
      world.query('CREATE TABLE moved (n INTEGER) STRICT')
      const driver = driverOf(t, world, 'moved', { exactly_once }, columns)
      const error = await failureOf(
        driver.deliver(
          batch,
          never,
          beforeCommit(() => act(world)),
        ),
      )
      t.match(error, { class: 'transient', code: 'table_file_replaced' }, name)
      repair(world)
      await driver.deliver(
        batch,
        never,
        beforeCommit(() => {}),
      )
      // The rows of the first attempt can be in the file only if its mark is not.
      const rows = world.query('SELECT n FROM moved')
      if (exactly_once || name !== 'its WAL deleted')
        t.same(rows, [{ n: 1 }], `${name}, exactly_once ${exactly_once}`)
      else t.ok(rows.length >= 1, name)
      await driver.close()
    }
  }
})

t.test('deleted between batches: an error, nothing is created; restored: the lane continues', async (t) => {
  const world = startFile(t)
  world.query('CREATE TABLE gone (n INTEGER) STRICT')
  const driver = driverOf(t, world, 'gone', { exactly_once: true })
  const known = (...batches: ReturnType<typeof makeBatch>[]) => ({
    ...noProgress,
    messageIdAt: async (seq: number) =>
      batches.flatMap(({ messages }) => messages).find((message) => message.seq === seq)?.msgId ?? null,
  })
  const [first, second] = [makeBatch([[{ n: 1 }]], 1), makeBatch([[{ n: 2 }]], 2)]
  await driver.deliver(first, never, known(first))
  const copy = `${world.path}.copy`
  // As a backup of it has it.
  world.query(`VACUUM INTO '${copy}'`)
  for (const ending of ['', '-wal', '-shm']) rmSync(`${world.path}${ending}`, { force: true })
  const error = await failureOf(driver.deliver(second, never, known(first, second)))
  t.match(error, { class: 'permanent', code: 'no_such_table', fault: 'destination', failedSeq: 2 })
  t.notOk(existsSync(world.path))
  copyFileSync(copy, world.path)
  await driver.deliver(second, never, known(first, second))
  await driver.deliver(second, never, known(first, second))
  t.same(world.query('SELECT n FROM gone'), [{ n: 1 }, { n: 2 }])
  // An older file: the batch at the lane's position is complete, the one before is not sent again.
  for (const ending of ['-wal', '-shm']) rmSync(`${world.path}${ending}`, { force: true })
  renameSync(copy, world.path)
  const third = makeBatch([[{ n: 3 }]], 3)
  await driver.deliver(third, never, known(first, second, third))
  t.same(world.query('SELECT n FROM gone'), [{ n: 1 }, { n: 3 }])
})

t.test('a damaged file, one that is no database, a link: permanent errors of the destination', async (t) => {
  const cases: [code: RegExp, act: (world: TableWorld) => void][] = [
    [/SQLITE_NOTADB/, ({ path }) => overwrite(path, 0, 'this is no database at all')],
    [/SQLITE_CORRUPT/, ({ path }) => overwrite(path, 4096, '\xff'.repeat(4096))],
    [
      /not_a_file/,
      ({ path }) => {
        renameSync(path, `${path}.real`)
        symlinkSync(`${path}.real`, path)
      },
    ],
    [
      /not_a_file/,
      ({ path }) => {
        rmSync(path)
        mkdirSync(path)
      },
    ],
    [
      /not_a_table/,
      (world) => world.query('ALTER TABLE bad RENAME TO real;\nCREATE VIEW bad AS SELECT * FROM real'),
    ],
  ]
  for (const [code, act] of cases) {
    const world = startFile(t)
    world.query('CREATE TABLE bad (n INTEGER) STRICT')
    act(world)
    const driver = driverOf(t, world, 'bad')
    const error = await failureOf(driver.deliver(makeBatch([[{ n: 1 }]]), never))
    t.match(error, { class: 'permanent', code, fault: 'destination', failedSeq: 1 })
    const checks = await checkDestination(specOf(world, 'bad'), world.settings, never, null)
    t.match(
      checks.find(({ ok }) => !ok),
      { message: error.message },
    )
  }
})

function overwrite(file: string, at: number, text: string): void {
  writeSync(openSync(file, 'r+'), text, at, 'latin1')
}

t.test(
  'the size limit: a transient error, nothing stored; deleted rows or a higher limit let it continue',
  async (t) => {
    const world = startFile(t)
    world.query('CREATE TABLE big (n INTEGER, s TEXT) STRICT')
    const large = (n: number) =>
      makeBatch([Array.from({ length: 8 }, () => ({ n, s: 'x'.repeat(100_000) }))], n)
    const driver = driverOf(t, world, 'big', { size_limit_mib: 1 })
    await driver.deliver(large(1), never)
    const error = await failureOf(driver.deliver(large(2), never))
    t.match(error, {
      class: 'transient',
      code: 'table_file_full',
      message: /shop\.sqlite.* 1 MiB.*size_limit_mib/,
    })
    t.same(world.query('SELECT DISTINCT n FROM big'), [{ n: 1 }])
    await driverOf(t, world, 'big', { size_limit_mib: 2 }).deliver(large(2), never)
    t.match(await failureOf(driver.deliver(large(3), never)), { code: 'table_file_full' })
    world.query('DELETE FROM big')
    await driver.deliver(large(3), never)
    t.same(world.query('SELECT DISTINCT n FROM big'), [{ n: 3 }])
  },
)

t.test('a full disk: nothing stored, and the space that messages need is not used', async (t) => {
  const dir = smallDisk(t, 8 * 1024 * 1024)
  const world = startFile(t)
  const place = tableFilePath(dir, workspaceId, 'shop')
  mkdirSync(path.dirname(place), { recursive: true })
  world.query('CREATE TABLE tight (n INTEGER, s TEXT) STRICT')
  copyFileSync(world.path, place)
  const open = (minFreeBytes: number) => {
    const driver = openDriver(
      specOf(world, 'tight'),
      { ...world.settings, tables: { dir, minFreeBytes } },
      anyKey,
    )
    t.teardown(() => driver.close())
    return driver
  }
  const batch = (n: number) =>
    makeBatch([Array.from({ length: 5 }, () => ({ n, s: 'x'.repeat(100_000) }))], n)
  const kept = open(7 * 1024 * 1024)
  t.match(await failureOf(kept.deliver(batch(1), never)), { class: 'transient', code: 'disk_nearly_full' })
  const driver = open(0)
  let stored = 0
  let error: DeliveryError | undefined
  for (let n = 1; n < 40 && error === undefined; n++) {
    error = await driver.deliver(batch(n), never).then(
      () => {
        stored += 1
        return undefined
      },
      (reason: unknown) => (reason instanceof DeliveryError ? reason : undefined),
    )
  }
  t.match(error, { class: 'transient', code: 'disk_nearly_full' })
  const reader = openTableFileReadOnly(place)
  t.same(reader.prepare('SELECT count(DISTINCT n) AS n, count(*) AS rows FROM tight').get(), {
    n: stored,
    rows: stored * 5,
  })
  reader.close()
})

t.test('an attempt that is aborted stores nothing, also not later', async (t) => {
  const world = startFile(t)
  world.query('CREATE TABLE stopped (n INTEGER) STRICT')
  const driver = driverOf(t, world, 'stopped', {}, [{ column_name: 'n', column_type: 'number' }])
  const stop = new AbortController()
  const error = await failureOf(
    driver.deliver(makeBatch([[{ n: 1 }, { n: 'x' }]]), stop.signal, {
      ...noProgress,
      park: async () => stop.abort(),
    }),
  )
  t.match(error, { class: 'transient', code: 'aborted', timedOut: 'rolled_back' })
  await driver.deliver(makeBatch([[{ n: 2 }]], 2), never)
  t.same(world.query('SELECT n FROM stopped'), [{ n: 2 }])
})

t.test('workspaces: the same name is another file; several lanes write tables of one file', async (t) => {
  const world = startFile(t)
  world.query('CREATE TABLE one (n INTEGER) STRICT;\nCREATE TABLE two (n INTEGER) STRICT')
  const other = '5b0f3c1e-7d2a-4c44-8d88-00000000000b'
  const stranger = openDriver({ ...specOf(world, 'one'), workspaceId: other }, world.settings, anyKey)
  t.match(await failureOf(stranger.deliver(makeBatch([[{ n: 1 }]]), never)), { code: 'no_such_table' })
  const drivers = ['one', 'two', 'one', 'two'].map((table, at) => {
    const driver = openDriver(
      { ...specOf(world, table, { exactly_once: at < 2 }), destinationId: `lane-${at}` },
      world.settings,
      anyKey,
    )
    t.teardown(() => driver.close())
    return driver
  })
  await Promise.all(
    drivers.map(async (driver) => {
      for (let n = 1; n <= 20; n++) await driver.deliver(makeBatch([[{ n }], [{ n }]], n * 2), never)
    }),
  )
  for (const table of ['one', 'two'])
    t.same(world.query(`SELECT count(*) AS n FROM ${table}`), [{ n: 80 }], table)
  t.match(listTableFiles(world.settings.tables!.dir), [{ workspaceId, file: 'shop', path: world.path }])
  t.same(listTableFiles(world.settings.tables!.dir, other), [])
  for (const name of ['../shop', 'a/b', '', '.', 'a.b', 'a\0b'])
    t.throws(() => tableFilePath('/data/tables', workspaceId, name), name)
  for (const owner of ['..', 'a/b', '']) t.throws(() => tableFilePath('/data/tables', owner, 'shop'), owner)
})

t.test('a deleted destination: its mark goes, file and rows stay', async (t) => {
  const world = startFile(t)
  world.query('CREATE TABLE mine (n INTEGER) STRICT')
  const spec = specOf(world, 'mine', { exactly_once: true })
  await driverOf(t, world, 'mine', { exactly_once: true }).deliver(makeBatch([[{ n: 1 }]]), never)
  t.equal(world.query('SELECT * FROM _pipectl_lanes').length, 1)
  await forgetDestination(spec, world.settings, never)
  t.equal(world.query('SELECT * FROM _pipectl_lanes').length, 0)
  t.same(world.query('SELECT n FROM mine'), [{ n: 1 }])
})

t.test('in a cluster: rejected when it is saved, and a lane that got there says so', async (t) => {
  const settings = { ...openSettings, tables: null }
  t.match(unavailableFault('destination_sqlite', settings), ['file', /cluster/])
  t.equal(unavailableFault('destination_pull', settings), null)
  const world = startFile(t)
  t.equal(unavailableFault('destination_sqlite', world.settings), null)
  const driver = openDriver(specOf(world, 'any'), settings, anyKey)
  t.match(await failureOf(driver.deliver(makeBatch([[{ n: 1 }]]), never)), {
    class: 'permanent',
    code: 'sqlite_in_cluster',
    failedSeq: 1,
  })
})

t.test('connections are closed with their lanes, and at most sixteen are kept', async (t) => {
  const world = startFile(t)
  world.query('CREATE TABLE many (n INTEGER) STRICT')
  const drivers = Array.from({ length: 20 }, (_, at) =>
    openDriver({ ...specOf(world, 'many'), destinationId: `lane-${at}` }, world.settings, anyKey),
  )
  for (const driver of drivers) await driver.deliver(makeBatch([[{ n: 1 }]]), never)
  t.equal(world.connections(), 16)
  await Promise.all(drivers.map((driver) => driver.close()))
  await until('all are closed', async () => world.connections() === 0)
  t.equal(world.query('SELECT * FROM many').length, 20)
})
