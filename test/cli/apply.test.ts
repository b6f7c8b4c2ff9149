import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { cliEnv, makeHome, removeHome, runCli } from '../support/cli.ts'
import { createWorkspace, startDaemon } from '../support/daemon.ts'

const daemon = await startDaemon()
const home = makeHome()
t.teardown(async () => {
  await daemon.close()
  removeHome(home)
})
const env = { ...cliEnv(daemon, home), SHOP_DB: 'pw', HOOK: 'tok' }
const file = path.join(home, 'pipectl.yaml')
const run = (command: string[], text: string, extra: Record<string, string> = {}) => {
  writeFileSync(file, text)
  return runCli([...command, '-f', file], { env: { ...env, ...extra } })
}

const wanted = `pipes:
  - pipe_name: orders
    pipe_description: of the shop
    pipe_ingest_geo_city_field: town
    limits:
      pl_ingest_max_records_per_request: 100
      pl_ingest_max_records_per_second: 100
      pl_ingest_max_records_per_day: 100000
      pl_delivery_max_records_per_flush: 100
      pl_delivery_max_bytes_per_flush: 100000
      pl_delivery_max_seconds_per_flush: 1
    allowed_origins: [https://Shop.example.com]
    destinations:
      - destination_type: destination_database
        destination_status: blocked
        destination_config: {host: 127.0.0.1, port: 1, database: shop, username: u, table: orders, password: "\${SHOP_DB}"}
        columns:
          - {column_name: id, column_type: number, semantic_role: dedupe_id}
          - {column_name: at, column_type: string, source_field: time}
      - destination_type: destination_http_endpoint
        destination_status: blocked
        destination_config: {url: "http://127.0.0.1:9/hook", auth_header: "Bearer \${HOOK}", headers: {X-A: b}}
  - pipe_name: clicks
    pipe_status: paused
    destinations:
      - destination_type: destination_pull
`

t.test('apply makes the workspace as the file says; applied twice it changes nothing', async (t) => {
  const differs = await run(['diff'], wanted)
  t.equal(differs.code, 1)
  t.match(differs.stdout, /^\+ pipe orders\n\+ limits of orders.*\n\+ origin https:\/\/shop\.example\.com/)
  const dry = await run(['apply', '--dry-run'], wanted)
  t.equal(dry.code, 0)
  t.equal(dry.stdout, differs.stdout, 'the plan is printed')
  t.same(
    (await daemon.api<{ pipes: unknown[] }>('GET', '/v1/pipes')).body.pipes,
    [],
    'and nothing was changed',
  )

  const applied = await run(['apply'], wanted)
  t.equal(applied.code, 0, applied.stderr)
  const same = await run(['diff'], wanted)
  t.equal(same.code, 0, same.stdout)
  t.equal(same.stdout, '')
  const updated = (await daemon.api<{ pipes: { pipe_updated_ts: string }[] }>('GET', '/v1/pipes')).body.pipes
  const again = await run(['apply'], wanted)
  t.equal(again.code, 0)
  t.equal(again.stdout, '')
  t.match(again.stderr, /Nothing to change/)
  t.same((await daemon.api<{ pipes: unknown[] }>('GET', '/v1/pipes')).body.pipes, updated, 'not even touched')
})

t.test('a change is one step; a changed target keeps the lane; secrets change only when asked', async (t) => {
  const list = async () =>
    JSON.parse((await runCli(['destinations', 'list', 'orders'], { env })).stdout).destinations
  const ids = (await list()).map((one: { destination_id: string }) => one.destination_id)
  const changed = wanted.replace('of the shop', 'of all shops').replace('database: shop', 'database: shop2')
  const plan = await run(['apply'], changed)
  t.equal(plan.code, 0, plan.stderr)
  t.equal(
    plan.stdout.replaceAll(/\([0-9a-f]{8}\)/g, '(id)'),
    '~ pipe orders: pipe_description "of the shop" → "of all shops"\n' +
      '~ destination database of orders (id): database "shop" → "shop2"\n',
  )
  t.same(
    (await list()).map((one: { destination_id: string }) => one.destination_id),
    ids,
  )
  const secrets = await run(['diff', '--update-secrets'], changed)
  t.equal(secrets.code, 1)
  t.match(secrets.stdout, /password sent anew\n.*auth_header sent anew/)
  t.notMatch(secrets.stdout, /tok/)
})

t.test('what the file does not have stays, and goes with --prune, which asks', async (t) => {
  const less = 'pipes:\n  - pipe_name: orders\n    allowed_origins: []\n    destinations: []\n'
  const kept = await run(['diff'], less)
  t.equal(kept.code, 0)
  t.match(kept.stderr, /stays: pipe clicks/)
  const unasked = await run(['apply', '--prune'], less)
  t.equal(unasked.code, 2)
  t.match(unasked.stderr, /add --yes/)
  const pruned = await run(['apply', '--prune', '--yes'], less)
  t.equal(pruned.code, 0, pruned.stderr)
  const { pipes } = JSON.parse((await runCli(['pipes', 'list'], { env })).stdout)
  t.same(
    pipes.map((one: { pipe_name: string }) => one.pipe_name),
    ['orders'],
  )
  t.equal((await run(['diff', '--prune'], less)).code, 0)
})

t.test('mistakes are named with their line before anything changes', async (t) => {
  const cases: [string, RegExp][] = [
    [wanted.replace('pipe_description', 'pipe_descripton'), /line 3: unknown key "pipe_descripton"/],
    [wanted.replace('port: 1,', 'port: 1, prt: 2,'), /line 16: destination_config\.prt: Unknown field/],
    [wanted.replace('_per_second: 100', '_per_second: many'), /line 7: pl_ingest_max_records_per_second: /],
    [wanted.replace(/"\$\{SHOP_DB\}"/, 'hunter2'), /line 16: password must be a reference/],
    [
      wanted.replace('SHOP_DB', 'UNSET_VARIABLE'),
      /line 16: the environment variable UNSET_VARIABLE is not set/,
    ],
    [wanted.replace('pipe_name: clicks', 'pipe_name: orders'), /line 23: pipe orders is there twice/],
    [wanted.replace('column_type: number', 'column_type: int'), /line 18: columns\.0\.column_type/],
    ['pipes: [', /line \d+: /],
    ['pipe: []', /it holds no list `pipes`/],
  ]
  const ran = await Promise.all(
    cases.map(([text], index) => {
      const own = path.join(home, `wrong-${index}.yaml`)
      writeFileSync(own, text)
      return runCli(['diff', '-f', own], { env })
    }),
  )
  for (const [index, [, message]] of cases.entries()) {
    t.equal(ran[index]?.code, 2, String(message))
    t.match(ran[index]?.stderr, message)
    t.notMatch(ran[index]?.stderr, /hunter2/)
  }
  t.equal((await run(['diff'], wanted, { PIPECTL_API_KEY: 'wrong' })).code, 4, 'errors are more than 1')
})

t.test('an export applied to an empty workspace makes the same one', async (t) => {
  t.equal((await run(['apply'], wanted)).code, 0)
  const exported = await runCli(['export'], { env })
  t.match(exported.stdout, /password: \$\{ORDERS_DATABASE_PASSWORD\}/)
  t.match(exported.stderr, /ORDERS_DATABASE_PASSWORD, ORDERS_HTTP_ENDPOINT_AUTH_HEADER/)
  const other = await createWorkspace(daemon.dataDir, 'other')
  const there = {
    PIPECTL_API_KEY: other.api_key,
    ORDERS_DATABASE_PASSWORD: 'pw',
    ORDERS_HTTP_ENDPOINT_AUTH_HEADER: 'Bearer tok',
  }
  const applied = await run(['apply'], exported.stdout, there)
  t.equal(applied.code, 0, applied.stderr)
  t.equal((await runCli(['export'], { env: { ...env, ...there } })).stdout, exported.stdout)
})
