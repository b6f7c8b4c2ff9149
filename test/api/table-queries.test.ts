/**
 * POST …/destinations/{id}/query and GET …/tables on the real daemon, and `pipectl query`: what they return, who can use them, and
 * that they change and reveal nothing else. Hostile statements have a test of their own: test/unit/destinations/sqlite-query.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import t from 'tap'
import { cliEnv, runCli } from '../support/cli.ts'
import { startDaemon } from '../support/daemon.ts'
import { until } from '../support/until.ts'
import { checkedApi, created, pullDestination } from './management-client.ts'

const daemon = await startDaemon()
const home = mkdtempSync(path.join(os.tmpdir(), 'pipectl-query-'))
t.teardown(async () => {
  await daemon.close()
  rmSync(home, { recursive: true, force: true })
})
const api = checkedApi(daemon)
const cli = (...args: string[]) => runCli(args, { env: cliEnv(daemon, home) })

const pipeId = await created(api, '/v1/pipes', { pipe_name: 'orders', pipe_add_ingest_ts: false }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
// As text: JavaScript would round the last one.
const sent = await runCli(['ingest', 'orders'], {
  env: cliEnv(daemon, home),
  input: [
    '{"id":1,"name":"tea","price":1.5}',
    '{"id":2,"name":"a \\"cup\\"\\nand more","price":3}',
    '{"id":9007199254740995,"name":"big","price":2.5}',
  ].join('\n'),
})
assert.equal(sent.code, 0, sent.stderr)
const create = await cli(
  'destinations',
  'create',
  'orders',
  '--type',
  'sqlite',
  '--infer',
  '--create-table',
  '--dedupe',
  'id',
)
assert.equal(create.code, 0, create.stderr)
const { destinations } = (await api('GET', `/v1/pipes/${pipeId}`)).body
const id = String(Object(destinations)[0].destination_id)
const queryPath = `${base}/${id}/query`
const query = (body: object, options?: { key: string }) => api('POST', queryPath, body, options)

await until('all rows are delivered', async () => {
  const { body } = await query({ sql: 'SELECT count(*) FROM orders' })
  return JSON.stringify(body.rows) === '[[3]]'
})

t.test('the rows have every digit, and the columns their names and types', async (t) => {
  const { text, body } = await query({
    sql: 'SELECT id, price, name AS name, 1 AS id FROM orders ORDER BY orders.id DESC LIMIT 1',
  })
  t.match(text, '"rows":[[9007199254740995,2.5,"big",1]]')
  t.strictSame(body.columns, [
    { name: 'id', type: 'INTEGER' },
    { name: 'price', type: 'REAL' },
    { name: 'name', type: 'TEXT' },
    { name: 'id', type: null },
  ])
  t.equal(body.truncated_by, null)
  const counted = await query({
    sql: 'SELECT count(*) FROM orders WHERE id = :id',
    params: { id: '9007199254740995' },
  })
  t.strictSame(counted.body.rows, [[1]])
  t.match((await query({ sql: 'SELECT id FROM orders', limit: 2 })).body, { truncated_by: 'rows' })
})

t.test('a request that is not valid says which part', async (t) => {
  const cases: [body: object, field: string, message: RegExp][] = [
    [{}, 'sql', /required/i],
    [{ sql: '' }, 'sql', /./],
    [{ sql: 'SELECT 1', limit: 0 }, 'limit', /1/],
    [{ sql: 'SELECT 1', limit: 10_001 }, 'limit', /10,?000/],
    [{ sql: 'SELECT 1', timeout_seconds: 31 }, 'timeout_seconds', /30/],
    [{ sql: 'SELECT 1', file: 'x' }, 'file', /unknown/i],
    [{ sql: 'SELECT amount FROM orders' }, 'sql', /no such column: amount/],
    [{ sql: 'SELECT :n' }, 'sql', /n/],
    [{ sql: 'DELETE FROM orders' }, 'sql', /only reads/],
    [{ sql: `ATTACH '${daemon.dataDir}/metadata.db' AS other` }, 'sql', /only reads/],
  ]
  for (const [body, field, message] of cases) {
    const answer = await query(body)
    t.equal(answer.body.error, 'validation_error', answer.text)
    t.match(Object(answer.body.errors)[field], message, JSON.stringify(body))
  }
  const nested = await query({ sql: 'SELECT :a', params: { a: [1] } })
  t.equal(nested.body.error, 'validation_error', nested.text)
  t.strictSame((await query({ sql: 'SELECT count(*) FROM orders' })).body.rows, [[3]], 'nothing was changed')
})

t.test('only a SQLite destination with a file can be queried', async (t) => {
  const pull = await created(api, base, pullDestination, 'destination_id')
  const other = await api('POST', `${base}/${pull}/query`, { sql: 'SELECT 1' })
  t.match(other.body, { error: 'not_queryable', message: /SQLite/ })
  t.equal((await api('GET', `${base}/${pull}/tables`)).body.error, 'not_queryable')
  const config = { file: 'later', table: 'orders' }
  const columns = [{ column_name: 'id', source_field: 'id', column_type: 'number', nullable: true }]
  const body = { destination_type: 'destination_sqlite', destination_config: config, columns }
  const later = await api('POST', base, body)
  const missing = await api('POST', `${base}/${later.body.destination_id}/query`, { sql: 'SELECT 1' })
  t.match(missing.body, { error: 'not_queryable', message: /does not exist yet/ }, later.text)
  const tables = path.join(daemon.dataDir, 'tables')
  writeFileSync(path.join(tables, readdirSync(tables)[0]!, 'later.sqlite'), 'no database'.repeat(1_000))
  const damaged = await api('GET', `${base}/${later.body.destination_id}/tables`)
  t.match(damaged, { status: 422, body: { error: 'query_failed' } }, damaged.text)
  t.equal(
    (await api('POST', `${base}/${pipeId}/query`, { sql: 'SELECT 1' })).body.error,
    'destination_not_found',
  )
})

t.test('a query that takes too long is stopped, and says so', async (t) => {
  const endless = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r'
  const late = await query({ sql: endless, timeout_seconds: 1 })
  t.match(late.body, { error: 'query_failed', reason: 'timeout' })
  const answers = await Promise.all([1, 2, 3].map(() => query({ sql: endless, timeout_seconds: 5 })))
  t.strictSame(answers.map(({ body }) => body.error).sort(), [
    'query_concurrency_exceeded',
    'query_failed',
    'query_failed',
  ])
  t.ok(answers.some(({ headers }) => headers['retry-after'] === '1'))
  const running = [1, 2].map(() => query({ sql: endless, timeout_seconds: 5 }))
  const list = await until('the list of tables waits for no query', async () => {
    const answer = await api('GET', `${base}/${id}/tables`)
    return answer.status === 200 ? null : answer
  })
  t.match(list, { status: 429, body: { error: 'query_concurrency_exceeded' } })
  await Promise.all(running)
  t.equal((await query({ sql: 'SELECT 1' })).status, 200)
})

t.test('a key needs the scope read, and all pipes', async (t) => {
  const key = async (fields: object) => {
    const { body } = await api('POST', '/v1/api-keys', {
      api_key_name: JSON.stringify(fields).slice(0, 60),
      ...fields,
    })
    return { key: String(body.api_key) }
  }
  const sql = 'SELECT count(*) FROM orders'
  t.equal((await query({ sql }, await key({ api_key_scopes: ['read'] }))).status, 200)
  for (const scopes of [['ingest'], ['pull']]) {
    const answer = await query({ sql }, await key({ api_key_scopes: scopes }))
    t.match(answer.body, { error: 'forbidden', message: /scope read/ })
  }
  const bound = await query({ sql }, await key({ api_key_scopes: ['read'], api_key_pipe_ids: [pipeId] }))
  t.match(bound.body, { error: 'forbidden', message: /limited to some pipes/ })
})

t.test('reads are not audited', async (t) => {
  const { body } = await api('GET', '/v1/audit')
  const operations = Object(body.audit).map((entry: { operation: string }) => entry.operation)
  t.ok(operations.includes('createDestination'), 'control')
  t.notOk(operations.includes('queryDestination'))
})

t.test('the tables are listed without those of pipectl', async (t) => {
  const { body } = await api('GET', `${base}/${id}/tables`)
  t.strictSame(body, {
    file: 'orders',
    tables: [
      {
        table: 'orders',
        kind: 'table',
        columns: [
          { name: 'id', type: 'INTEGER' },
          { name: 'name', type: 'TEXT' },
          { name: 'price', type: 'REAL' },
        ],
      },
    ],
  })
  const listed = await cli('query', 'orders/sqlite', '-o', 'table')
  t.match(listed.stdout, /^TABLE +KIND +COLUMNS\norders +table +id INTEGER, name TEXT, price REAL\n$/)
})

t.test('pipectl query prints a row per line, or what -o says', async (t) => {
  const sql = 'SELECT id, name, NULL AS none FROM orders WHERE id > 1 ORDER BY id'
  const lines = await cli('query', 'orders/sqlite', sql)
  t.equal(lines.code, 0, lines.stderr)
  t.equal(
    lines.stdout.split('\n')[0],
    '{"id":2,"name":"a \\"cup\\"\\nand more","none":null}',
    'without a terminal: one row per line',
  )
  t.match(lines.stdout, '{"id":9007199254740995,"name":"big","none":null}')
  t.match(
    (await cli('query', 'orders/sqlite', sql, '-o', 'table')).stdout,
    /^id +name +none\n2 +a "cup" and more +NULL\n/,
  )
  t.match((await cli('query', 'orders/sqlite', sql, '-o', 'name')).stdout, /\n9007199254740995\n$/)
  t.match((await cli('query', 'orders/sqlite', sql, '-o', 'json')).stdout, /^\{"columns":\[/)
  const twice = await cli('query', 'orders/sqlite', 'SELECT 1 AS id, 2 AS id, 3 AS id_2')
  t.equal(twice.stdout, '{"id":1,"id_3":2,"id_2":3}\n', 'no value is lost to another of the same name')
  const params = await cli(
    'query',
    'orders/sqlite',
    'SELECT :a AS a, :b AS b, :c AS c, :d AS d, :e AS e',
    ...['a=1', 'b=x=y', 'c="1"', 'd=12345678901234567', 'e=null'].flatMap((one) => ['--param', one]),
  )
  t.equal(params.stdout, '{"a":1,"b":"x=y","c":"1","d":"12345678901234567","e":null}\n', params.stderr)
  const cut = await cli('query', 'orders/sqlite', sql, '--limit', '1')
  t.match(cut.stderr, /Only the first 1 row: there are more/)
  t.equal((await cli('query', 'orders/sqlite', 'SELECT x')).code, 2)
  t.equal((await cli('query', 'orders/sqlite', 'SELECT 1', '--param', '=x')).code, 2)
})

t.test('a query leaves no process behind', async (t) => {
  const left = () =>
    readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes('query-process'))
  await until('no process of a query is left', () => left().length === 0)
  t.strictSame(left(), [])
})

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
