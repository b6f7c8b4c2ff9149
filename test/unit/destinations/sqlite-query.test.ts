/**
 * Queries on SQLite files, each in a process of its own: what they return, and that a hostile one reads no other file, changes
 * nothing, and ends in time and within its memory. Each rejected statement has a control: the query next to it that is allowed.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { createTableDirectory, tableFilePath } from '../../../src/destinations/sqlite/files.ts'
import {
  QueryFailedError,
  QueryProcesses,
  type TableFileQuery,
} from '../../../src/destinations/sqlite/query-processes.ts'
import { queryFault } from '../../../src/destinations/sqlite/read-only-sql.ts'
import { until } from '../../support/until.ts'

const tablesDir = path.join(t.testdir(), 'tables')
const workspaceId = '11111111-1111-4111-8111-111111111111'
const otherWorkspaceId = '22222222-2222-4222-8222-222222222222'
const own = createFile(
  workspaceId,
  'shop',
  "INSERT INTO orders VALUES (9007199254740993, 1.0, x'00ff', NULL, 'é \"x\"')",
)
const other = createFile(
  otherWorkspaceId,
  'other',
  "INSERT INTO orders (note) VALUES ('secret of the other')",
)

function createFile(workspace: string, name: string, insert: string): string {
  const file = tableFilePath(tablesDir, workspace, name)
  createTableDirectory(file)
  const database = new Database(file)
  database.pragma('journal_mode = WAL')
  database.exec('CREATE TABLE orders (id INTEGER, price REAL, raw BLOB, gone TEXT, note TEXT)')
  database.exec(insert)
  database.close()
  return file
}

const processes = new QueryProcesses(tablesDir)

function run(sql: string, changes: Partial<TableFileQuery> = {}): Promise<Buffer> {
  const limits = { maxRows: 1_000, maxBytes: 1_000_000, timeoutMs: 20_000 }
  return processes.run({ workspaceId, file: 'shop', sql, params: {}, ...limits, ...changes })
}

async function failure(sql: string, changes: Partial<TableFileQuery> = {}): Promise<QueryFailedError> {
  const error = await run(sql, changes).then(
    (result) => assert.fail(`${sql} returned ${result.toString().slice(0, 200)}`),
    (error: unknown) => error,
  )
  assert(error instanceof QueryFailedError, String(error))
  return error
}

t.test('the result has every value as it is stored', async (t) => {
  const text = (await run('SELECT *, id AS id, 2.5, 9e999, -0.0, 1e300 FROM orders')).toString()
  t.match(
    text,
    /"rows":\[\[9007199254740993,1\.0,\{"base64":"AP8="\},null,"é \\"x\\"",9007199254740993,2\.5,9e999,(-0\.0|0\.0),1e\+300\]\]/,
  )
  const { columns, truncated_by, query_ms } = JSON.parse(text)
  t.strictSame(columns.slice(0, 2), [
    { name: 'id', type: 'INTEGER' },
    { name: 'price', type: 'REAL' },
  ])
  t.strictSame(columns[6], { name: '2.5', type: null })
  t.equal(truncated_by, null)
  t.type(query_ms, 'number')
})

t.test('parameters are bound by name, and are never part of the statement', async (t) => {
  const rows = async (sql: string, params: TableFileQuery['params']) =>
    JSON.stringify(JSON.parse((await run(sql, { params })).toString()).rows)
  t.equal(
    await rows('SELECT typeof(:a), :a / 2, @b, $c, :d', { a: 5, b: "'; --", c: null, d: true }),
    '[["integer",2,"\'; --",null,1]]',
  )
  t.equal(await rows('SELECT count(*) FROM orders WHERE id = :id', { id: '9007199254740993' }), '[[1]]')
  t.equal(await rows('SELECT count(*) FROM orders WHERE id = :id', { id: '9007199254740992' }), '[[0]]')
  t.match(await failure('SELECT :nme', { params: { name: 1 } }), { reason: 'sql', message: /nme/ })
  t.match(await failure('SELECT ?'), { reason: 'sql' })
})

t.test('rows and bytes are limited, and the result says so', async (t) => {
  const numbers = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 100) SELECT i FROM r'
  const all = JSON.parse((await run(numbers, { maxRows: 100 })).toString())
  t.match(all, { truncated_by: null })
  t.equal(all.rows.length, 100)
  const some = JSON.parse((await run(numbers, { maxRows: 99 })).toString())
  t.match(some, { truncated_by: 'rows' })
  t.equal(some.rows.length, 99)
  const long = `SELECT printf('%.*c', 400, 'x') FROM (${numbers})`
  const cut = JSON.parse((await run(long, { maxBytes: 1_000 })).toString())
  t.match(cut, { truncated_by: 'bytes' })
  t.equal(cut.rows.length, 2)
  const none = JSON.parse((await run("SELECT printf('%.*c', 10000000, 'x')", { maxBytes: 1_000 })).toString())
  t.match(none, { truncated_by: 'bytes', rows: [] })
})

t.test('a statement that is not a query is rejected, and nothing is changed', async (t) => {
  const before = readFileSync(own)
  const file = path.join(tablesDir, 'new.db')
  const statements = [
    `ATTACH '${other}' AS other`,
    `attach database '${other}' as other`,
    `/* SELECT */ ATTACH '${other}' AS other`,
    `-- SELECT\nATTACH '${other}' AS other`,
    `EXPLAIN ATTACH '${other}' AS other`,
    `SELECT 1; ATTACH '${other}' AS other`,
    `ATTACH ':memory:' AS other`,
    `VACUUM INTO '${file}'`,
    'VACUUM',
    'DETACH main',
    'PRAGMA query_only = OFF',
    'PRAGMA database_list',
    'EXPLAIN PRAGMA query_only = OFF',
    'EXPLAIN QUERY PLAN PRAGMA writable_schema = ON',
    'PRAGMA journal_mode = DELETE',
    'PRAGMA temp_store_directory = "/"',
    'CREATE TABLE x (a)',
    'CREATE TEMP TABLE x (a)',
    'CREATE TEMP VIEW x AS SELECT 1',
    'INSERT INTO orders (id) VALUES (1) RETURNING id',
    'WITH x AS (SELECT 1) DELETE FROM orders RETURNING id',
    'WITH x AS (SELECT 1) UPDATE orders SET id = 2 RETURNING id',
    'REPLACE INTO orders (id) VALUES (1)',
    'DROP TABLE orders',
    'BEGIN',
    'BEGIN EXCLUSIVE',
    'COMMIT',
    'ANALYZE',
    'REINDEX',
    'SELECT_1',
    'SELECT 1\0; DROP TABLE orders',
    '',
    '-- nothing',
    "UPDATE sqlite_schema SET sql = ''",
  ]
  for (const sql of statements) t.equal((await failure(sql)).reason, 'sql', sql)
  t.ok(readFileSync(own).equals(before), 'the file is unchanged')
  t.notOk(existsSync(file))
  t.strictSame(
    readdirSync(path.dirname(own)).filter((name) => !/^shop\.sqlite(-wal|-shm)?$/.test(name)),
    [],
  )
  for (const sql of [
    '/* ATTACH */ -- PRAGMA\n\t select 1',
    "VALUES (1), ('ATTACH')",
    'WITH x AS (SELECT 1) SELECT * FROM x;',
    'EXPLAIN QUERY PLAN SELECT * FROM orders',
    'EXPLAIN /**/ SELECT 1',
    'SELECT(1)',
    'SELECT"id"FROM orders',
  ])
    t.match((await run(sql)).toString(), /^\{"columns"/, `control: ${sql}`)
})

t.test('no function and no table of SQLite reaches another file, or loads code', async (t) => {
  for (const sql of [
    "SELECT load_extension('x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT writefile('/tmp/x', 'x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT fts3_tokenizer('simple', x'00')",
    "SELECT edit('x', 'sh')",
    'SELECT * FROM sqlite_dbpage',
    "SELECT * FROM csv('/etc/passwd')",
    'SELECT * FROM other.orders',
    `SELECT * FROM "${other}".orders`,
    'SELECT * FROM pragma_journal_mode(1)',
    'SELECT * FROM pragma_writable_schema(1)',
    'SELECT * FROM pragma_query_only(0)',
    'SELECT * FROM pragma_wal_checkpoint',
  ])
    t.equal((await failure(sql)).reason, 'sql', sql)
  // SQLite allows these for bound parameters.
  for (const sql of ['SELECT fts3_tokenizer(:name)', 'SELECT hex(fts3_tokenizer(:name, :address))'])
    t.match(await failure(sql, { params: { name: 'simple', address: '12345678' } }), {
      reason: 'sql',
      message: /not available/,
    })
  const list = await run('SELECT * FROM pragma_database_list')
  t.match(JSON.parse(list.toString()), { rows: [] }, 'the path of the file is not shown')
  t.strictSame(JSON.parse((await run('SELECT query_only FROM pragma_query_only')).toString()).rows, [[1]])
})

t.test('a name of a file leaves its directory in no way', async (t) => {
  for (const file of [
    '../22222222-2222-4222-8222-222222222222/other',
    '..',
    'shop.sqlite',
    '',
    'a/b',
    'other\0',
  ])
    await t.rejects(run('SELECT 1', { file }), /not the name of a table file/, file)
  await t.rejects(run('SELECT 1', { workspaceId: '..' }), /not the id of a workspace/)
  t.equal((await failure('SELECT 1', { file: 'other' })).reason, 'missing', 'the file of another workspace')
  symlinkSync(other, tableFilePath(tablesDir, workspaceId, 'link'))
  await t.rejects(run('SELECT 1', { file: 'link' }), /symbolic link/)
  t.match(
    (await run('SELECT note FROM orders', { workspaceId: otherWorkspaceId, file: 'other' })).toString(),
    /secret/,
    'control',
  )
})

t.test('an endless query ends at its time limit, whatever SQLite does', async (t) => {
  const endless = [
    'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r',
    "SELECT printf('%.*c', 30000, 'a') LIKE '%' || replace(printf('%.*c', 12000, '_'), '_', 'a%') || 'b' FROM (WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i FROM r) WHERE 0 OR i < 0",
  ]
  for (const sql of endless)
    t.match(await failure(sql, { timeoutMs: 300 }), { reason: 'timeout' }, sql.slice(0, 60))
})

t.test('memory is limited outside of the heap too', async (t) => {
  const { queryMemoryBytes } = resourceLimits
  const number = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r)'
  for (const sql of [
    `SELECT length(hex(zeroblob(${queryMemoryBytes})))`,
    `SELECT length(randomblob(${queryMemoryBytes}))`,
    `SELECT length(printf('%.*c', ${queryMemoryBytes}, 'x'))`,
    `WITH RECURSIVE r(s) AS (SELECT 'abcdefgh' UNION ALL SELECT s || s FROM r) SELECT max(length(s)) FROM r`,
    `SELECT length(group_concat(zeroblob(1000000))) FROM (${number} SELECT i FROM r LIMIT 2000)`,
    `SELECT length(json_group_array(printf('%.*c', 1000000, 'x'))) FROM (${number} SELECT i FROM r LIMIT 2000)`,
    `SELECT randomblob(1000) AS x FROM (${number} SELECT i FROM r LIMIT 1000000) ORDER BY x`,
    `SELECT count(DISTINCT randomblob(1000)) FROM (${number} SELECT i FROM r LIMIT 1000000)`,
  ]) {
    const { reason, message } = await failure(sql)
    t.ok(reason === 'memory' || /too big/.test(message), `${sql.slice(0, 60)}: ${reason}, ${message}`)
  }
  t.match((await run('SELECT length(hex(zeroblob(20000000)))')).toString(), /40000000/, 'control')
})

t.test('only a few run at the same time, by workspace and in total', async (t) => {
  const few = new QueryProcesses(tablesDir)
  const forever = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r'
  const limits = { maxRows: 1, maxBytes: 100, timeoutMs: 60_000, params: {} }
  const query = { workspaceId, file: 'shop', sql: forever, ...limits }
  const { queriesPerWorkspace } = resourceLimits
  const running = Array.from({ length: queriesPerWorkspace }, () =>
    few.run(query).catch((error: unknown) => error),
  )
  t.match(await few.run(query).catch((error: unknown) => error), { reason: 'too_many' })
  const ofOther = few.run({ ...query, workspaceId: otherWorkspaceId, file: 'other', sql: 'SELECT 1' })
  t.match((await ofOther).toString(), /"rows":\[\[1\]\]/, 'another workspace can')
  few.close()
  for (const error of await Promise.all(running)) t.match(error, /SIGKILL/)
  t.match((await few.run({ ...query, sql: 'SELECT 1' })).toString(), /"rows":\[\[1\]\]/, 'and then again')
})

t.test('a query reads what is committed while the file is written', async (t) => {
  const writer = new Database(own)
  writer.exec('CREATE TABLE IF NOT EXISTS written (n INTEGER)')
  writer.exec('BEGIN IMMEDIATE; INSERT INTO written VALUES (1)')
  t.match((await run('SELECT count(*) FROM written')).toString(), /\[\[0\]\]/)
  writer.exec('COMMIT')
  t.match((await run('SELECT count(*) FROM written')).toString(), /\[\[1\]\]/)
  writer.close()
})

t.test('a file that is not a database has a reason', async (t) => {
  writeFileSync(tableFilePath(tablesDir, workspaceId, 'noise'), Buffer.alloc(8_192, 7))
  t.equal((await failure('SELECT 1 FROM sqlite_schema', { file: 'noise' })).reason, 'unreadable')
})

t.test('the environment of the daemon, with its secrets, is not passed on', async (t) => {
  const secret = 'PIPECTL_TEST_OF_ENVIRONMENT'
  process.env[secret] = 'x'
  const endless = run(
    'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r',
    { timeoutMs: 60_000 },
  )
  endless.catch(() => {})
  const child = Number(await until('the process runs', () => childOf(process.pid) ?? false))
  t.notMatch(readFileSync(`/proc/${child}/environ`, 'utf8'), secret)
  t.notMatch(readFileSync(`/proc/${child}/cmdline`, 'utf8'), 'RECURSIVE', 'SQL is in no list of processes')
  process.kill(child, 'SIGKILL')
  await t.rejects(endless, /SIGKILL/)
})

function childOf(parent: number): number | null {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const [, ppid] = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' ')
      const isQuery = readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('query-process')
      if (Number(ppid) === parent && isQuery) return Number(pid)
    } catch {}
  }
  return null
}

t.test('the check of a text takes linear time', async (t) => {
  const comments = '/**/'.repeat(4_000)
  t.equal(queryFault(`${comments}SELECT 1`), null)
  t.type(queryFault(`${comments}x`), 'string')
  t.type(queryFault(`${'/*'.repeat(8_000)}`), 'string')
  t.type(queryFault(`${'--\n'.repeat(5_000)}`), 'string')
})
