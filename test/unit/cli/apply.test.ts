import { writeFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import {
  type TransformOptions,
  transformSettings,
} from '../../../src/apps/cli/destinations/transform-options.ts'
import { cliEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { createWorkspace, startDaemon } from '../../support/daemon.ts'

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
    JSON.parse((await runCli(['destinations', 'list', 'orders', '-o', 'json'], { env })).stdout).destinations
  const ids = (await list()).map((one: { destination_id: string }) => one.destination_id)
  const changed = wanted.replace('of the shop', 'of all shops').replace('database: shop', 'database: shop2')
  const plan = await run(['apply'], changed)
  t.equal(plan.code, 0, plan.stderr)
  t.equal(
    plan.stdout,
    '~ pipe orders: pipe_description "of the shop" → "of all shops"\n' +
      '~ destination orders/database: database "shop" → "shop2"\n',
  )
  t.match(plan.stderr, /Without destination_name in the file: .*orders\/database \(by its kind\)/)
  t.same(
    (await list()).map((one: { destination_id: string }) => one.destination_id),
    ids,
  )
  const secrets = await run(['diff', '--update-secrets'], changed)
  t.equal(secrets.code, 1)
  t.match(secrets.stdout, /password sent again\n.*auth_header sent again/)
  t.notMatch(secrets.stdout, /tok/)
  const moved = await run(['apply'], changed.replace('127.0.0.1:9/hook', '127.0.0.1:10/hook'))
  t.equal(moved.code, 0, moved.stderr)
  t.match(moved.stdout, /url .*auth_header sent again/, 'another server needs them, asked for or not')
  t.equal((await run(['apply'], changed)).code, 0)
})

t.test('what the file does not have stays, and goes with --prune, which asks', async (t) => {
  const less = 'pipes:\n  - pipe_name: orders\n    allowed_origins: []\n    destinations: []\n'
  const kept = await run(['diff'], less)
  t.equal(kept.code, 0)
  t.match(kept.stderr, /kept: pipe clicks/)
  const unasked = await run(['apply', '--prune'], less)
  t.equal(unasked.code, 2)
  t.match(unasked.stderr, /add --yes/)
  const pruned = await run(['apply', '--prune', '--yes'], less)
  t.equal(pruned.code, 0, pruned.stderr)
  const { pipes } = JSON.parse((await runCli(['pipes', 'list', '-o', 'json'], { env })).stdout)
  t.same(
    pipes.map((one: { pipe_name: string }) => one.pipe_name),
    ['orders'],
  )
  t.equal((await run(['diff', '--prune'], less)).code, 0)
})

t.test('a named destination stays the same whatever changes; with another name it is renamed', async (t) => {
  const text = (name: string, table: string) => `pipes:
  - pipe_name: named
    destinations:
      - destination_name: ${name}
        destination_type: destination_database
        destination_config: {host: 127.0.0.1, port: 1, database: shop, username: u, table: ${table}, password: "\${SHOP_DB}"}
`
  t.match(await run(['apply'], text('warehouse', 'a')), { code: 0 })
  const idOf = async (name: string) =>
    JSON.parse((await runCli(['destinations', 'get', `named/${name}`, '-o', 'json'], { env })).stdout)
      .destination.destination_id
  const id = await idOf('warehouse')
  const plan = await run(['diff', '--prune'], text('warehouse', 'b'))
  t.match(plan, { code: 1, stdout: /^~ destination named\/warehouse: table "a" → "b"\n(- .*\n)*$/ })
  t.equal((await run(['apply'], text('warehouse', 'b'))).code, 0)
  const renamed = await run(['apply'], text('lake', 'b'))
  t.match(renamed, {
    code: 0,
    stdout: '~ destination named/warehouse: destination_name "warehouse" → "lake"\n',
  })
  t.equal(await idOf('lake'), id, 'the lane is the same one')
  const other = text('lake', 'b').replace(/destination_database\n.*/, 'destination_pull')
  t.match(await run(['apply'], other), {
    code: 2,
    stderr: /named\/lake is a database, but a pull in the file/,
  })
  t.equal((await runCli(['pipes', 'delete', 'named', '--yes'], { env })).code, 0)
})

t.test('names, delivery settings and secret headers go out and come back the same', async (t) => {
  const text = `pipes:
  - pipe_name: settings
    destinations:
      - destination_name: hook
        destination_type: destination_http_endpoint
        flush:
          max_records: 10
          max_bytes: 1000
          max_seconds: 2
        rate:
          requests_per_second: 2.5
        concurrency: 4
        destination_config:
          url: http://127.0.0.1:9/hook
          secret_headers:
            x-key: \${SETTINGS_HOOK_SECRET_HEADERS_X_KEY}
      - destination_name: a
        destination_type: destination_pull
        destination_config: {}
      - destination_name: b
        destination_type: destination_pull
        destination_config: {}
`
  const keyed = { SETTINGS_HOOK_SECRET_HEADERS_X_KEY: 'k1' }
  const applied = await run(['apply'], text, keyed)
  t.equal(applied.code, 0, applied.stderr)
  const exported = await runCli(['export'], { env })
  t.ok(exported.stdout.includes(text.replace('pipes:\n', '')), exported.stdout)
  t.match(exported.stderr, /SETTINGS_HOOK_SECRET_HEADERS_X_KEY/)
  const same = await run(['diff'], text)
  t.match(same, { code: 0, stdout: '' }, 'the variable is not even read')
  const changed = await run(
    ['diff'],
    text.replace('max_records: 10', 'max_records: 20').replace(': 2.5', ': 3'),
  )
  t.match(changed.stdout, /flush .*"max_records":20.*rate .*3/)
  const added = text.replace('            x-key:', `            x-new: "\${HOOK}"\n            x-key:`)
  t.match((await run(['diff'], added)).stdout, /secret_headers\.x-new set\n$/)
  t.match(await run(['apply'], added), { code: 0 })
  t.match(await run(['diff'], added), { code: 0, stdout: '' })
  const swapped = text
    .replace(/name: a$/m, 'name: x')
    .replace(/name: b$/m, 'name: a')
    .replace(/name: x$/m, 'name: b')
  t.match(await run(['diff'], swapped), { code: 0, stdout: '' }, 'matched by name, not by place')
  t.equal((await runCli(['pipes', 'delete', 'settings', '--yes'], { env })).code, 0)
})

t.test('secret parts of a URL are variables of their own; what is not secret is compared', async (t) => {
  const url = (host: string) =>
    `http://\${SEALED_HOOK_URL_USERINFO}@${host}/h?v=\${SEALED_HOOK_URL_V}&v=\${SEALED_HOOK_URL_V_2}&\${SEALED_HOOK_URL_QUERY}&e=`
  const text = `pipes:
  - pipe_name: sealed
    destinations:
      - destination_name: hook
        destination_type: destination_http_endpoint
        destination_config:
          url: ${url('127.0.0.1:9')}
`
  const parts = {
    SEALED_HOOK_URL_USERINFO: 'me:pw',
    SEALED_HOOK_URL_V: '1',
    SEALED_HOOK_URL_V_2: '2',
    SEALED_HOOK_URL_QUERY: 'bare',
  }
  t.match(await run(['apply'], text), { code: 2, stderr: /line 7: .*SEALED_HOOK_URL_USERINFO is not set/ })
  const applied = await run(['apply'], text, parts)
  t.equal(applied.code, 0, applied.stderr)
  t.notMatch(applied.stdout, /pw|bare/)
  const exported = await runCli(['export'], { env })
  t.ok(exported.stdout.includes(text.replace('pipes:\n', '')), exported.stdout)
  t.notMatch(exported.stdout, /redacted/)
  t.match(exported.stderr, new RegExp(Object.keys(parts).join(', ')))
  t.match(await run(['apply'], exported.stdout), { code: 0, stdout: '', stderr: /Nothing to change/ })
  t.match(await run(['diff', '--update-secrets'], text, parts), { code: 1, stdout: /: url sent again\n$/ })

  const moved = text.replace(url('127.0.0.1:9'), url('127.0.0.1:10'))
  t.match(await run(['diff'], moved), { code: 2 }, 'another address: the secret parts are read')
  const plan = await run(['apply'], moved, parts)
  t.match(plan, { code: 0, stdout: /url "http:\/\/\[redacted\]@127.0.0.1:9.* → "http:.*127.0.0.1:10/ })
  t.notMatch(plan.stdout, /pw|bare/)
  t.match(await run(['diff'], moved), { code: 0, stdout: '' })

  // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of the file
  const whole = text.replace(url('127.0.0.1:9'), '${HOOK_URL}')
  const given = { HOOK_URL: 'http://me:pw@127.0.0.1:10/h?v=1&v=2&bare&e=' }
  t.match(await run(['diff'], whole, given), { code: 0, stdout: '' }, 'or one variable for the whole')
  t.equal((await runCli(['pipes', 'delete', 'sealed', '--yes'], { env })).code, 0)
})

t.test('a transform goes out and comes back the same; its salt stays where it is', async (t) => {
  const text = (filter: string) => `pipes:
  - pipe_name: masked
    destinations:
      - destination_name: hook
        destination_type: destination_http_endpoint
        transform:
          filter: ${filter}
          map:
            - op: mask
              paths:
                - mail
          mask_salt: \${MASKED_HOOK_MASK_SALT}
        destination_config:
          url: http://127.0.0.1:9/hook
`
  const [paid, open] = [text('record.status == "paid"'), text('record.status == "open"')]
  const salt = { MASKED_HOOK_MASK_SALT: 'salt of the shop' }
  const written = paid.replace(/\$\{.*\}/, 'salt of the shop')
  t.match(await run(['apply'], written), { code: 2, stderr: /line 12: mask_salt must be a reference/ })
  const applied = await run(['apply'], paid, salt)
  t.equal(applied.code, 0, applied.stderr)
  const exported = await runCli(['export'], { env })
  t.ok(exported.stdout.includes(paid.replace('pipes:\n', '')), exported.stdout)
  t.match(exported.stderr, /MASKED_HOOK_MASK_SALT/)
  t.match(await run(['diff'], exported.stdout), { code: 0, stdout: '' }, 'the variable is not even read')

  const saltsSet = async () => {
    const { text } = await daemon.api('GET', '/v1/audit?limit=50')
    return text.split('transform.mask_salt').length - 1
  }
  const before = await saltsSet()
  t.match(await run(['apply'], open), { code: 0, stdout: /: transform set\n$/ })
  const { stdout } = await runCli(['destinations', 'get', 'masked/hook', '-o', 'json'], { env })
  t.match(JSON.parse(stdout).destination.transform, {
    filter: 'record.status == "open"',
    map: [{ op: 'mask', paths: ['mail'] }],
    mask_salt: '[redacted]',
  })
  t.equal(await saltsSet(), before, 'another filter keeps the salt')
  const again = await run(['apply', '--update-secrets'], open, { MASKED_HOOK_MASK_SALT: 'another salt' })
  t.match(again, { code: 0, stdout: /: transform set\n$/ })
  t.equal(await saltsSet(), before + 1)
  t.notMatch(applied.stdout + again.stdout + stdout + exported.stdout, /salt of the shop|another salt/)

  t.equal((await runCli(['pipes', 'delete', 'masked', '--yes'], { env })).code, 0)
})

t.test('the flags of a transform change the part that they name', async (t) => {
  const before = { filter: 'record.a', map: [{ op: 'mask' as const, paths: ['a'] }], mask_salt: '[redacted]' }
  const { filter, map } = before
  const drop = { op: 'drop', paths: ['b'] }
  const made = async (options: TransformOptions) => (await transformSettings(options, before)).transform
  t.strictSame(await transformSettings({}, before), {})
  t.strictSame(await made({ filter: 'record.b' }), { filter: 'record.b', map })
  t.strictSame(await made({ filter: '' }), { filter: null, map })
  t.strictSame(await made({ map: [JSON.stringify(drop)] }), { filter, map: [drop] })
  t.equal(await made({ transform: false }), null)
  await t.rejects(made({ transform: false, filter: 'true' }), /cannot be used with/)
  await t.rejects(made({ map: ['drop it'] }), /is not JSON/)
  const secret = ['transform.mask_salt']
  await t.rejects(made({ secret, map: [JSON.stringify(drop)] }), /no step of the map masks/)
  process.env.PIPECTL_DESTINATION_MASK_SALT = 'another salt'
  t.teardown(() => delete process.env.PIPECTL_DESTINATION_MASK_SALT)
  t.strictSame(await made({ secret }), { filter, map, mask_salt: 'another salt' })
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
    [wanted.replace('pipe_name: clicks', 'pipe_name: orders'), /line 23: pipe orders occurs twice/],
    [wanted.replace('column_type: number', 'column_type: int'), /line 18: columns\.0\.column_type/],
    ['pipes: [', /line \d+: /],
    ['pipe: []', /it has no list `pipes`/],
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
  const hook =
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the syntax of the file
    'url: "http://127.0.0.1:9/hook?k=${HOOK}&a=1", secret_headers: {x-a.b: "${HOOK}", x-a-b: "${HOOK}"}'
  const sealed = wanted.replace('url: "http://127.0.0.1:9/hook"', hook)
  t.not(sealed, wanted)
  t.equal((await run(['apply'], sealed)).code, 0)
  const exported = await runCli(['export'], { env })
  t.match(
    await run(['apply'], exported.stdout),
    { code: 0, stdout: '' },
    'nothing to change where it is from',
  )
  t.match(exported.stdout, /password: \$\{ORDERS_DATABASE_PASSWORD\}/)
  t.match(exported.stderr, /ORDERS_DATABASE_PASSWORD, ORDERS_HTTP_ENDPOINT_/)
  const other = await createWorkspace(daemon.dataDir, 'other')
  const there = {
    PIPECTL_API_KEY: other.api_key,
    ORDERS_DATABASE_PASSWORD: 'pw',
    ORDERS_HTTP_ENDPOINT_AUTH_HEADER: 'Bearer tok',
    ORDERS_HTTP_ENDPOINT_URL_K: 'tok',
    ORDERS_HTTP_ENDPOINT_URL_A: '1',
    ORDERS_HTTP_ENDPOINT_SECRET_HEADERS_X_A_B: 'k1',
    ORDERS_HTTP_ENDPOINT_SECRET_HEADERS_X_A_B_2: 'k2',
  }
  const applied = await run(['apply'], exported.stdout, there)
  t.equal(applied.code, 0, applied.stderr)
  t.equal((await runCli(['export'], { env: { ...env, ...there } })).stdout, exported.stdout)
})
