import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { cliEnv, homeEnv, makeHome, removeHome, runCli } from '../../support/cli.ts'
import { startDaemon } from '../../support/daemon.ts'
import { startHttpSink } from '../../support/http-sink.ts'
import { until } from '../../support/until.ts'

/** Every command on a real daemon, as scripts use it: stdout, stderr and exit code. */
const daemon = await startDaemon()
const home = makeHome()
const sink = await startHttpSink()
t.teardown(async () => {
  await sink.stop()
  await daemon.close()
  removeHome(home)
})
const env = cliEnv(daemon, home)
const pipectl = (...args: string[]) => runCli(args, { env })
/** An address where nothing listens: a port that was free a moment ago. */
const nobody = await new Promise<string>((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    server.close(() => resolve(`http://127.0.0.1:${port}`))
  })
})
const json = async (...args: string[]) => {
  const ran = await pipectl(...args, '-o', 'json')
  if (ran.code !== 0) throw new Error(`${args.join(' ')} ended with ${ran.code}: ${ran.stderr}`)
  return JSON.parse(ran.stdout)
}

t.test('pipes are created, listed, shown, changed, paused, resumed and deleted', async (t) => {
  const { pipe_id: id } = await json(
    'pipes',
    'create',
    'orders',
    '--description',
    'of the shop',
    '--ingest-ip',
  )
  const [list, got] = await Promise.all([json('pipes', 'list'), json('pipes', 'get', 'orders')])
  t.match(list, { pipes: [{ pipe_id: id, pipe_name: 'orders' }], usage_stats_window_hours: 24 })
  t.match(got, { pipe: { pipe_description: 'of the shop', pipe_add_ingest_ip: true }, destinations: [] })
  const api = await daemon.api('GET', `/v1/pipes/${id}`)
  // The key's last use is noted after the answer.
  const withoutUse = (text: string) => text.replace(/"api_key_last_used_ts":[^,]+/, '')
  t.equal(
    withoutUse((await pipectl('pipes', 'get', id, '-o', 'json')).stdout),
    `${withoutUse(api.text)}\n`,
    'json is the API’s body, byte for byte',
  )
  const changed = await json('pipes', 'update', 'orders', '--no-ingest-ip', '--geo', 'city=town')
  t.match(changed, { pipe: { pipe_add_ingest_ip: false, pipe_ingest_geo_city_field: 'town' } })
  const paused = await pipectl('pipes', 'pause', 'orders')
  t.match(paused, { code: 2, stderr: /Clients get 404 until it is resumed.*still delivered.*\n.*add --yes/ })
  t.match(await json('pipes', 'pause', 'orders', '--yes'), { pipe: { pipe_status: 'paused' } })
  t.match(await json('pipes', 'resume', id.slice(0, 8)), { pipe: { pipe_status: 'active' } })
  t.equal((await pipectl('pipes', 'update', 'orders')).code, 2, 'nothing to change')
  await json('pipes', 'create', 'gone')
  const unasked = await pipectl('pipes', 'delete', 'gone')
  t.equal(unasked.code, 2, 'without a terminal --yes is needed')
  t.match(unasked.stderr, /add --yes/)
  t.equal((await pipectl('pipes', 'delete', 'gone', '--yes')).code, 0)
  t.equal((await pipectl('pipes', 'get', 'gone')).code, 3)
})

t.test('each format; data on stdout, talk on stderr', async (t) => {
  const [table, yaml, ndjson, name, created] = await Promise.all([
    pipectl('pipes', 'list'),
    pipectl('pipes', 'list', '-o', 'yaml'),
    pipectl('pipes', 'list', '-o', 'ndjson'),
    pipectl('pipes', 'list', '-o', 'name'),
    pipectl('pipes', 'create', 'clicks', '-o', 'json'),
  ])
  t.match(table.stdout, /^NAME +STATUS .*\norders +active /)
  t.match(parse(yaml.stdout), { pipes: [{ pipe_name: 'orders' }] })
  t.match(JSON.parse(ndjson.stdout.split('\n')[0] ?? ''), { pipe_name: 'orders' })
  t.match(name.stdout, /^orders\n/)
  t.same(Object.keys(JSON.parse(created.stdout)), ['pipe_id'])
  t.match(created.stderr, /Created pipe clicks/)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour is a control sequence
  t.notMatch(table.stdout, /\x1b/, 'no colour in a pipe')
})

t.test('destinations by flags, URL and file; secrets from the environment; shown redacted', async (t) => {
  const withSecrets = {
    ...env,
    PIPECTL_DESTINATION_PASSWORD: 'pw-1',
    PIPECTL_DESTINATION_AUTH_HEADER: 'Bearer tok-1',
  }
  const run = (...args: string[]) => runCli(args, { env: withSecrets })
  const url = 'postgres://u@127.0.0.1:1/db?table=t'
  const columns = ['--column', 'id:number:dedupe_id', '--column', 'at:string:source=time:required']
  const database = await run('destinations', 'create', 'clicks', '--url', url, ...columns)
  t.equal(database.code, 0, database.stderr)
  const http = await run(
    'destinations',
    'create',
    'clicks',
    '--url',
    `${sink.url}/hook`,
    '--set',
    'timeout_ms=2000',
  )
  t.equal(http.code, 0, http.stderr)
  const file = path.join(home, 'pull.yaml')
  writeFileSync(file, 'destination_type: destination_pull\ndestination_config: {ack_mode: auto}\n')
  const { destination_id: pull } = await json('destinations', 'create', 'clicks', '-f', file)
  const [list, one, changed] = await Promise.all([
    json('destinations', 'list', 'clicks'),
    json('destinations', 'get', 'clicks/database'),
    json('destinations', 'update', 'clicks/http-endpoint', '--max-retry-seconds', '60'),
  ])
  t.equal(list.destinations.length, 3)
  t.match(one.destination, {
    destination_config: { host: '127.0.0.1', port: 1, password: '[redacted]', dialect: 'postgresql' },
    columns: [
      { column_name: 'id', semantic_role: 'dedupe_id', source_field: 'id' },
      { column_name: 'at', source_field: 'time', nullable: false },
    ],
  })
  t.match(changed.destination, {
    destination_max_retry_seconds: 60,
    destination_config: { auth_header: '[redacted]', timeout_ms: 2000 },
  })
  const [noPassword, inUrl, asFlag] = await Promise.all([
    pipectl('destinations', 'create', 'clicks', '--url', url),
    run('destinations', 'create', 'clicks', '--url', 'postgres://u:hunter2@h/db?table=t'),
    run('destinations', 'create', 'clicks', '--url', url, '--set', 'password=x'),
  ])
  t.match(noPassword.stderr, /PIPECTL_DESTINATION_PASSWORD/)
  t.same([noPassword.code, inUrl.code, asFlag.code], [2, 2, 2])
  t.notMatch(inUrl.stderr, /hunter2/)
  const open = ['--url', `${sink.url}/open`, '--set', 'headers.X-Api-Key=k', '--set', 'headers.X-Shop=s']
  const advised = await run('destinations', 'test', 'clicks', ...open, '-o', 'json')
  t.match(JSON.parse(advised.stdout), {
    ok: true,
    checks: [{ name: 'url_reachable' }, { name: 'secret_headers' }],
  })
  t.match(advised.stdout, /if X-Api-Key is secret, move it to secret_headers/)
  const made = await run('destinations', 'create', 'clicks', ...open, '-o', 'json')
  t.match(made.stderr, /Note: headers are stored unencrypted and shown: if X-Api-Key is secret/)
  t.equal((await pipectl('destinations', 'delete', JSON.parse(made.stdout).destination_id, '--yes')).code, 0)
  t.match(await json('destinations', 'block', pull), { destination_status: 'blocked' })
  t.match(await json('destinations', 'unblock', pull.slice(0, 8)), { destination_status: 'active' })
  const tested = await run('destinations', 'test', 'clicks', '--url', url, '-o', 'json')
  t.equal(tested.code, 1, 'nothing listens on port 1')
  t.equal(JSON.parse(tested.stdout).ok, false)
  t.equal((await pipectl('destinations', 'delete', 'clicks/database', '--yes')).code, 0)
})

t.test(
  'a destination has a name and delivery settings of its own; columns are not lost by accident',
  async (t) => {
    await json('pipes', 'create', 'named')
    const withSecrets = {
      ...env,
      PIPECTL_DESTINATION_PASSWORD: 'pw',
      PIPECTL_DESTINATION_SECRET_HEADERS_X_KEY: 'k1',
    }
    const run = async (...args: string[]) => {
      const ran = await runCli([...args, '-o', 'json'], { env: withSecrets })
      if (ran.code !== 0) throw new Error(`${args.join(' ')}: ${ran.stderr}`)
      return ran.stdout === '' ? null : JSON.parse(ran.stdout)
    }
    const settings = ['--name', 'hook', '--flush-records', '10', '--rate', '2.5', '--concurrency', '4']
    const header = ['--secret', 'secret_headers.x-key']
    await run('destinations', 'create', 'named', '--url', `${sink.url}/named`, ...settings, ...header)
    const hook = async () => (await run('destinations', 'get', 'named/hook')).destination
    t.match(await hook(), {
      destination_name: 'hook',
      flush: { max_records: 10, max_bytes: 4_194_304, max_seconds: 0 },
      rate: { requests_per_second: 2.5 },
      concurrency: 4,
      destination_config: { secret_headers: { 'x-key': '[redacted]' } },
    })
    await run('destinations', 'update', 'named/hook', '--flush-seconds', '3', '--rate', 'none')
    t.match(await hook(), { flush: { max_records: 10, max_seconds: 3 }, rate: null })
    await run('destinations', 'update', 'named/hook', '--no-flush')
    t.equal((await hook()).flush, null)
    t.match(await run('destinations', 'test', 'named/hook'), { ok: true }, 'a stored destination')
    const elsewhere = await pipectl('destinations', 'test', 'named/hook', '--url', `${nobody}/named`)
    t.match(elsewhere, { code: 2, stderr: /secret_headers\.x-key.*sent again/ }, 'not at another server')
    const moved = await pipectl(
      ...['destinations', 'test', 'named/hook', '--url', `${sink.url}/moved`, '-o', 'json'],
    )
    t.match(moved, { code: 0, stdout: /"ok":true/ }, 'with a change that is not stored')
    t.match((await hook()).destination_config.url, new RegExp(`^${sink.url}/`))

    const seen = await pipectl('destinations', 'update', 'named/hook', '--set', 'secret_headers.x-key=k2')
    t.match(seen, {
      code: 2,
      stderr: /other users can see the value of a flag\n.*use --secret secret_headers\.x-key/,
    })
    for (const secret of ['secret_headers', 'secret_headers.', 'headers.x-key', 'password']) {
      const wrong = await pipectl('destinations', 'update', 'named/hook', '--secret', secret)
      t.match(wrong, {
        code: 2,
        stderr: /is not a secret of .*\n.*url, .*signing_secret, secret_headers\.NAME/,
      })
    }

    const url = 'postgres://u@127.0.0.1:1/db?table=t'
    await run('destinations', 'create', 'named', '--url', url, '--column', 'a:string', '--column', 'b:string')
    const columns = async () =>
      (await run('destinations', 'get', 'named/database')).destination.columns.map(
        (one: { column_name: string; column_type: string }) => `${one.column_name}:${one.column_type}`,
      )
    await run(
      'destinations',
      'update',
      'named/database',
      '--add-column',
      'c:number',
      '--add-column',
      'b:number',
    )
    t.same(await columns(), ['a:string', 'c:number', 'b:number'])
    const unasked = await pipectl('destinations', 'update', 'named/database', '--column', 'd:string')
    t.match(unasked, { code: 2, stderr: /Replace all 3 column mappings .*--add-column/ })
    await run('destinations', 'update', 'named/database', '--column', 'd:string', '--yes')
    t.same(await columns(), ['d:string'])
    await run('destinations', 'update', 'named/database', '--no-columns', '--yes')
    t.same(await columns(), [])
    t.match(
      (await pipectl('pipes', 'get', 'named', '-o', 'table')).stdout,
      /ingest +POST http.*\/v1\/ingest\//,
    )
  },
)

t.test(
  'a secret header and a URL with secrets are never on the command line, and reach the endpoint',
  async (t) => {
    const pipeId = (await json('pipes', 'create', 'sealed')).pipe_id
    const withSecrets = {
      ...env,
      PIPECTL_DESTINATION_URL: `${sink.url}/sealed?token=t1`,
      PIPECTL_DESTINATION_SECRET_HEADERS_X_API_KEY: 'k1',
      PIPECTL_DESTINATION_SECRET_HEADERS_X_OTHER: 'k2',
    }
    const secrets = ['--secret', 'url', '--secret', 'secret_headers.x-api-key']
    const created = await runCli(
      ['destinations', 'create', 'sealed', '--type', 'http-endpoint', ...secrets],
      { env: withSecrets },
    )
    t.equal(created.code, 0, created.stderr)
    const update = ['destinations', 'update', 'sealed', '--secret', 'secret_headers.x-other', '-o', 'json']
    const updated = await runCli(update, { env: withSecrets })
    t.match(
      JSON.parse(updated.stdout).destination.destination_config,
      {
        url: `${sink.url}/sealed?token=[redacted]`,
        secret_headers: { 'x-api-key': '[redacted]', 'x-other': '[redacted]' },
      },
      'the other secret header stays',
    )
    await daemon.ingest(pipeId, { a: 1 })
    await until('it is delivered', () => sink.deliveries.some((one) => one.path === '/sealed?token=t1'))
    const delivery = sink.deliveries.find((one) => one.path === '/sealed?token=t1')
    t.match(delivery?.headers, { 'x-api-key': 'k1', 'x-other': 'k2' })
    const unset = await pipectl('destinations', 'update', 'sealed', '--secret', 'secret_headers.X-API-Key')
    t.match(unset, {
      code: 2,
      stderr: /needs header X-API-Key.*\n.*PIPECTL_DESTINATION_SECRET_HEADERS_X_API_KEY/,
    })
  },
)

t.test('unblock --all lets every blocked destination go on, or those of one pipe', async (t) => {
  for (const pipe of ['halted', 'stopped']) {
    await json('pipes', 'create', pipe)
    for (const name of ['a', 'b'])
      await json('destinations', 'create', pipe, '--type', 'pull', '--name', name)
    for (const name of ['a', 'b']) await json('destinations', 'block', `${pipe}/${name}`)
  }
  await json('destinations', 'unblock', 'halted/a')
  const statuses = async (pipe: string) =>
    (await json('destinations', 'list', pipe)).destinations.map(
      (one: { destination_status: string }) => one.destination_status,
    )
  const unblock = (...args: string[]) => pipectl('destinations', 'unblock', ...args)
  t.match(await unblock('--all'), { code: 2, stderr: /Unblock 3 blocked destinations\?.*--yes/s }, 'it asks')
  t.match(await unblock(), { code: 2, stderr: /no destination was named/ })
  t.match(await unblock('halted/a', '--all'), { code: 2, stderr: /cannot be used together/ })
  t.match(await unblock('halted/a', '--pipe', 'halted'), { code: 2 })
  t.same(await statuses('stopped'), ['blocked', 'blocked'], 'nothing was changed')
  const one = await unblock('--all', '--pipe', 'stopped', '--yes', '-o', 'json')
  t.match(one, { code: 0, stderr: /stopped\/a is active\.\nstopped\/b is active\./ })
  t.equal(JSON.parse(one.stdout).unblocked.length, 2)
  t.same(await statuses('stopped'), ['active', 'active'])
  t.same(await statuses('halted'), ['active', 'blocked'], 'those of other pipes stay')
  t.match(await unblock('--all', '--yes'), { code: 0, stderr: /^halted\/b is active\.\n$/ })
  t.match(await unblock('--all', '--yes'), { code: 6, stderr: /no destination is blocked/ })
})

t.test('what fits several things is a usage error that lists them', async (t) => {
  await json('destinations', 'create', 'clicks', '--type', 'pull')
  t.match(await json('destinations', 'get', 'clicks/pull'), { destination: { destination_name: 'pull' } })
  await json('destinations', 'update', 'clicks/pull', '--name', 'first')
  await json('destinations', 'update', 'clicks/pull-2', '--name', 'second one')
  const ran = await pipectl('destinations', 'get', 'clicks/pull')
  t.equal(ran.code, 2)
  t.match(ran.stderr, /matches 2 destinations:\n {2}clicks\/first {2}pull pull .*\n {2}clicks\/second one /)
  const hinted = /next: .* e\.g\. (clicks\/.*)\n/.exec(ran.stderr)?.[1] ?? ''
  t.equal((await pipectl('destinations', 'get', hinted)).code, 0, 'the hint names one of them')
  t.equal((await pipectl('destinations', 'get', 'clicks/second one')).code, 0)
  t.match(await json('destinations', 'update', 'clicks/first', '--name', ''), {
    destination: { destination_name: 'pull' },
  })
  const pipe = await pipectl('destinations', 'get', 'clicks')
  t.equal(pipe.code, 2)
  t.match(pipe.stderr, /matches 3 destinations/)
})

t.test('a lane that is blocked: shown, looked into, retried, skipped, rewound', async (t) => {
  sink.respondWith(() => ({ status: 422, body: 'no' }))
  const { pipe_id: pipeId } = await json('pipes', 'create', 'lanes', '--no-ingest-ts')
  await json('destinations', 'create', 'lanes', '--url', `${sink.url}/lanes`)
  t.equal((await pipectl('lanes', 'retry', 'lanes')).code, 6, 'nothing to do')
  t.equal((await pipectl('lanes', 'blocking-message', 'lanes')).code, 6)
  await daemon.ingest(pipeId, '{"n": 12345678901234567890, "v": 1.10}')
  await until('the lane is blocked', async () => {
    const { lanes } = await json('lanes', 'list', 'lanes', '--blocked')
    return lanes.length === 1 && lanes[0].last_error?.class === 'permanent'
  })
  const shown = await pipectl('lanes', 'blocking-message', 'lanes/http-endpoint', '-o', 'ndjson')
  t.equal(shown.stdout, '{"n": 12345678901234567890, "v": 1.10}\n', 'the record as it was sent')
  t.match((await pipectl('lanes', 'blocking-message', 'lanes', '-o', 'table')).stdout, /permanent http_422/)
  const piped = await pipectl('lanes', 'blocking-message', 'lanes', '--export', '-')
  t.equal(piped.stdout, '{"n": 12345678901234567890, "v": 1.10}\n')
  const file = `${t.testdir()}/refused.ndjson`
  const exported = await pipectl('lanes', 'blocking-message', 'lanes', '--export', file)
  t.match(exported, { code: 0, stdout: '', stderr: /Wrote 1 record of message / })
  t.equal(readFileSync(file, 'utf8'), piped.stdout)
  t.match(await pipectl('lanes', 'blocking-message', 'lanes', '--export', file), {
    code: 2,
    stderr: /it exists already/,
  })
  const wrong = await pipectl('lanes', 'blocking-message', 'lanes', '--from', 'x')
  t.match(wrong, { code: 2, stderr: /--from is "x"/ })
  t.match(await pipectl('lanes', 'blocking-message', 'lanes', '--from', '1'), { code: 2, stderr: /from/ })
  t.equal((await pipectl('status', '--check')).code, 1)
  const check = await pipectl('status', '--check', '-o', 'name')
  t.match(check, { code: 1, stdout: 'lanes/http-endpoint\n' }, 'what is stuck, not ok')
  t.match(await json('lanes', 'retry', 'lanes'), { retried: true, status: 'retried' })
  const skip = await pipectl('lanes', 'skip', 'lanes', '--yes', '-o', 'json')
  t.equal(skip.code, 0, skip.stderr)
  t.match(JSON.parse(skip.stdout), { skipped: true, status: 'skipped' })
  t.equal((await pipectl('lanes', 'skip', 'lanes', '--yes')).code, 6)
  t.equal((await pipectl('status', '--check')).code, 0)
  sink.respondWith(() => ({ status: 200 }))
  const before = sink.deliveries.length
  t.type((await json('lanes', 'rewind', 'lanes', '--to', 'earliest', '--yes')).cursor_seq, 'number')
  await until('the message is delivered after all', () => sink.deliveries.length > before)
})

t.test('several lanes are retried at once, and status groups them by cause', async (t) => {
  sink.respondWith(() => ({ status: 500 }))
  const { pipe_id: pipeId } = await json('pipes', 'create', 'several')
  for (const name of ['one', 'two', 'three'])
    await json('destinations', 'create', 'several', '--url', `${sink.url}/${name}`, '--name', name)
  t.match(await pipectl('lanes', 'retry', '--all-failing'), { code: 6, stderr: /no lane fails/ })
  t.match(await pipectl('lanes', 'retry'), { code: 2, stderr: /no destination is named/ })
  t.match(await pipectl('lanes', 'retry', 'several/one', '--all-failing'), { code: 2 })
  t.match(await pipectl('lanes', 'retry', 'several/one', 'several/two'), { code: 6 }, 'nothing blocks them')
  await daemon.ingest(pipeId, '{"n": 1}')
  await until('all have failed', async () => {
    const { lanes } = await json('lanes', 'list', 'several')
    return lanes.every((lane: { blocking_msg_id: unknown }) => lane.blocking_msg_id !== null)
  })
  t.match(await pipectl('lanes', 'retry', 'several/one', 'several/tow'), { code: 3, stderr: /did you mean/ })
  const two = await json('lanes', 'retry', 'several/one', 'several/two')
  t.match(two, {
    lanes: [
      { lane: 'several/one', retried: true },
      { lane: 'several/two', retried: true },
    ],
  })
  sink.respondWith(() => ({ status: 404 }))
  const all = await pipectl('lanes', 'retry', '--all-failing')
  t.match(all, { code: 0, stdout: /several\/three +yes/, stderr: /Retrying 3 lanes\./ })
  await until('they are stuck', async () => (await json('status')).causes.length === 1)
  const status = await pipectl('status')
  t.match(
    status.stdout,
    /need attention +address not found \(HTTP 404\), 127\.0\.0\.1:\d+, 3 lanes: (several\/\w+(, )?){3}/,
  )
  t.match(status.stdout, /Correct the URL of the destination, then retry\./)
  t.match(await json('status'), { causes: [{ lanes: { length: 3 }, cause: 'address not found (HTTP 404)' }] })
  t.equal((await pipectl('pipes', 'delete', 'several', '--yes')).code, 0)
})

t.test('skip is refused where no record is at fault, unless it is forced', async (t) => {
  sink.respondWith(() => ({ status: 401, body: 'who are you' }))
  const { pipe_id: pipeId } = await json('pipes', 'create', 'unauthorised')
  await json('destinations', 'create', 'unauthorised', '--url', `${sink.url}/x`, '--name', 'shop')
  await daemon.ingest(pipeId, '{"n": 1}')
  await until('the endpoint has refused it', async () => {
    const { lanes } = await json('lanes', 'list', 'unauthorised')
    return lanes[0].blocking_msg_id !== null && lanes[0].last_error?.fault === 'destination'
  })
  const refused = await pipectl('lanes', 'skip', 'unauthorised/shop', '--yes')
  t.match(refused, {
    code: 2,
    stderr:
      /a skip does not help unauthorised\/shop: no record is at fault \(http_401: .*\n.*lanes retry unauthorised\/shop/,
  })
  t.match(await json('lanes', 'list', 'unauthorised'), { lanes: [{ skipped_messages: 0 }] })
  t.equal((await pipectl('lanes', 'skip', 'unauthorised/shop', '--yes', '--force')).code, 0)
  t.match(await json('lanes', 'list', 'unauthorised'), { lanes: [{ skipped_messages: 1 }] })
  const blocked = await pipectl('destinations', 'block', 'unauthorised/shop')
  t.match(blocked, {
    code: 0,
    stderr: /unauthorised\/shop is blocked: nothing is delivered.*backlog \(0 messages\) is kept/,
  })
  t.equal((await pipectl('pipes', 'delete', 'unauthorised', '--yes')).code, 0)
})

t.test('limits and origins', async (t) => {
  t.same(await json('limits', 'get', 'orders'), { limits: null })
  const some = await pipectl('limits', 'set', 'orders', '--records-per-second', '5')
  t.equal(some.code, 2)
  t.match(some.stderr, /--records-per-day 100000000/, 'what was not given is suggested')
  t.match(await json('limits', 'set', 'orders', '--records-per-second', '5', '--yes'), {
    limits: { pl_ingest_max_records_per_second: 5, pl_delivery_max_records_per_flush: 1000 },
  })
  t.equal((await pipectl('limits', 'clear', 'orders', '--yes')).code, 0)
  t.same(await json('limits', 'get', 'orders'), { limits: null })
  const all = ['per-request', 'per-second', 'per-day'].flatMap((one) => [`--records-${one}`, '500'])
  const flush = ['records', 'bytes', 'seconds'].flatMap((one) => [`--flush-${one}`, '10'])
  await json('limits', 'set', 'orders', ...all, ...flush)
  t.match(await json('limits', 'set', 'orders', '--flush-seconds', '2'), {
    limits: { pl_delivery_max_seconds_per_flush: 2, pl_ingest_max_records_per_day: 500 },
  })
  t.ok((await json('origins', 'add', 'orders', 'https://shop.example.com')).pipe_allowed_origin_id)
  t.equal((await pipectl('origins', 'add', 'orders', 'https://shop.example.com')).code, 5, 'conflict')
  t.equal((await pipectl('origins', 'list', 'orders', '-o', 'name')).stdout, 'https://shop.example.com\n')
  t.equal((await pipectl('origins', 'add', 'orders', 'not an origin')).code, 2)
  t.equal((await pipectl('origins', 'remove', 'orders', 'https://shop.example.com', '--yes')).code, 0)
  t.equal((await pipectl('origins', 'remove', 'orders', 'https://shop.example.com', '--yes')).code, 3)
})

t.test('profiles keep address and key; rotate replaces the key and revokes the old one', async (t) => {
  const own = makeHome()
  t.teardown(() => removeHome(own))
  const bare = homeEnv(own)
  const { api_key: first } = await json('keys', 'create', 'for-profile')
  const keyFile = path.join(own, 'key.json')
  writeFileSync(keyFile, JSON.stringify({ api_key: first }))
  const added = await runCli(['profile', 'add', 'prod', '--server', daemon.url, '--api-key-file', keyFile], {
    env: bare,
  })
  t.equal(added.code, 0, added.stderr)
  const file = path.join(own, 'config', 'pipectl', 'profiles.toml')
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.equal((await runCli(['pipes', 'list'], { env: bare })).code, 0, 'the profile is in use')
  const rotated = await runCli(['keys', 'rotate', '--overlap', '0', '--yes'], { env: bare })
  t.equal(rotated.code, 0, rotated.stderr)
  t.notMatch(readFileSync(file, 'utf8'), first)
  t.equal((await runCli(['pipes', 'list'], { env: bare })).code, 0, 'the new key works')
  const old = await runCli(['pipes', 'list'], { env: { ...bare, PIPECTL_API_KEY: first } })
  t.equal(old.code, 4, 'the old key is revoked; the environment wins over the profile')
  const list = await runCli(['profile', 'list', '-o', 'json'], { env: bare })
  t.match(JSON.parse(list.stdout), { profiles: [{ name: 'prod', current: true, url: daemon.url }] })
  t.equal((await runCli(['profile', 'use', 'none'], { env: bare })).code, 3)
  t.equal((await runCli(['profile', 'remove', 'prod', '--yes'], { env: bare })).code, 0)
  t.equal((await runCli(['pipes', 'list'], { env: bare })).code, 4, 'no key any more')
  t.equal((await pipectl('keys', 'rotate', '--yes')).code, 2, 'a key of the environment cannot be switched')
})

t.test('keys are listed without secrets, created once and revoked by name', async (t) => {
  const { api_key: key } = await json('keys', 'create', 'short-lived')
  t.notMatch((await pipectl('keys', 'list')).stdout, key)
  t.equal((await pipectl('keys', 'create', 'short-lived')).code, 5)
  const fromStdin = await runCli(['pipes', 'list', '--api-key-stdin'], {
    env: { ...env, PIPECTL_API_KEY: '' },
    input: `${key}\n`,
  })
  t.equal(fromStdin.code, 0, fromStdin.stderr)
  t.equal((await pipectl('keys', 'revoke', 'short-lived', '--yes')).code, 0)
  t.equal((await runCli(['pipes', 'list'], { env: { ...env, PIPECTL_API_KEY: key } })).code, 4)
  t.match(await json('keys', 'list'), { api_keys: [{ api_key_status: 'active' }] })
})

t.test(
  'keys create takes scope, pipe and expiry; rotate by name prints a key of the same rights; purge',
  async (t) => {
    await pipectl('pipes', 'create', 'keyed')
    const made = ['keys', 'create', 'keyed-app', '--scope', 'ingest', '--scope', 'pull', '--pipe', 'keyed']
    const { api_key: key } = await json(...made, '--expires', '90d')
    const listed = async (name: string) =>
      Object((await json('keys', 'list')).api_keys).find(
        (one: { api_key_name: string }) => one.api_key_name === name,
      )
    const row = await listed('keyed-app')
    t.match(row, { api_key_scopes: ['ingest', 'pull'], api_key_pipe_ids: [/^[0-9a-f-]{36}$/] })
    const days = (Date.parse(row.api_key_expires_ts) - Date.now()) / 86_400_000
    t.ok(days > 89.9 && days <= 90, `${days} days`)
    const asApp = { ...env, PIPECTL_API_KEY: String(key) }
    const refused = await runCli(['pipes', 'list'], { env: asApp })
    t.equal(refused.code, 4, refused.stderr)
    t.match(refused.stderr, /lacks the scope read.*\n.*keys create NAME --scope read/)
    const pull = await runCli(['pull', 'orders'], { env: asApp })
    t.match(pull, {
      code: 4,
      stderr: /needs the scope read in addition to pull\n.*GET http.*\/v1\/pull\/DESTINATION_ID/,
    })
    t.equal((await runCli(['ingest', row.api_key_pipe_ids[0]], { env: asApp, input: '{"n":1}\n' })).code, 0)
    const rotated = await json(
      'keys',
      'rotate',
      'keyed-app',
      '--name',
      'keyed-app-2',
      '--overlap',
      '2d',
      '--yes',
    )
    t.match(rotated, { api_key: /^ppl1_/, api_key_name: 'keyed-app-2' })
    t.match(await listed('keyed-app-2'), {
      api_key_scopes: row.api_key_scopes,
      api_key_pipe_ids: row.api_key_pipe_ids,
      api_key_expires_ts: row.api_key_expires_ts,
    })
    const ends = (Date.parse((await listed('keyed-app')).api_key_expires_ts) - Date.now()) / 86_400_000
    t.ok(ends > 1.9 && ends <= 2, `${ends} days`)
    t.match(
      (await pipectl('keys', 'list', '-o', 'table')).stdout,
      /keyed-app-2 +active +ingest pull +keyed +never/,
    )
    await pipectl('keys', 'revoke', 'keyed-app', '--yes')
    t.match((await pipectl('keys', 'purge', '--yes')).stderr, /Removed \d+ key/)
    t.equal(await listed('keyed-app'), undefined)
    for (const wrong of [
      ['--scope', 'write'],
      ['--expires', 'soon'],
      ['--workspace', 'default'],
      ['--pipe', 'nowhere'],
    ])
      t.match((await pipectl('keys', 'create', 'wrong', ...wrong)).code, /^[23]$/, wrong.join(' '))
  },
)

t.test('failures say what happened and what to do next, by exit code', async (t) => {
  const [away, wrongKey, noCommand, noArgument, badOption, badFormat, badUrl, keyFlag, noTop] =
    await Promise.all([
      runCli(['pipes', 'list'], { env: { ...env, PIPECTL_URL: nobody } }),
      runCli(['pipes', 'list'], { env: { ...env, PIPECTL_API_KEY: 'ppl1_wrong' } }),
      pipectl('pipes', 'frobnicate'),
      pipectl('pipes', 'get'),
      pipectl('pipes', 'list', '--frobnicate'),
      pipectl('pipes', 'list', '-o', 'xml'),
      pipectl('pipes', 'list', '--server', 'localhost:8080'),
      pipectl('pipes', 'list', '--api-key', 'ppl1_secret'),
      pipectl('top'),
    ])
  t.equal(away.code, 7)
  t.match(
    away.stderr,
    /cannot reach pipectl at http:\/\/127\.0\.0\.1:\d+: connection refused\n.*next: .*pipectl serve/,
  )
  t.equal(wrongKey.code, 4)
  t.match(wrongKey.stderr, /next: .*PIPECTL_API_KEY/)
  t.match(
    noArgument.stderr,
    /^error: missing .* 'pipe'\n {2}next: for example `pipectl pipes get orders.*`pipectl pipes get --help`/,
  )
  t.match(noCommand.stderr, /^error: unknown command 'frobnicate'\n {2}next: `pipectl pipes --help` lists/)
  for (const usage of [noCommand, noArgument, badOption, badFormat, badUrl, keyFlag, noTop]) {
    t.equal(usage.code, 2, usage.stderr)
    t.match(usage.stderr, /^error: [^\n]+\n {2}next: [^\n]+\n$/, 'one form for all')
    t.equal(usage.stdout, '')
    t.not(usage.stderr, '')
  }
})

t.test('a table wherever the output goes: no color, nothing cut; JSON is asked for', async (t) => {
  const long = 'a-name-that-is-longer-than-a-column-of-a-terminal-has-room-for'.padEnd(90, '-x')
  await json('pipes', 'create', long)
  await json('destinations', 'create', long, '--type', 'pull')
  const [status, lanes, audit, keys, doctor, asJson] = await Promise.all([
    pipectl('status'),
    pipectl('lanes', 'list'),
    pipectl('audit'),
    pipectl('keys', 'list'),
    pipectl('doctor', '--data-dir', path.join(home, 'none')),
    pipectl('audit', '--json'),
  ])
  t.match(status.stdout, /^FIELD +VALUE\ndaemon +http/)
  t.match(lanes.stdout, new RegExp(`^LANE +STATE .*\\n(.*\\n)*${long}/pull +idle`))
  t.match(audit.stdout, /^ID +TIME \(UTC\) +WHO/)
  t.match(audit.stdout, `${long}/pull`)
  t.match(keys.stdout, /^NAME +STATUS .*\n.* (never|\d+[smhd]( \d+[smhd])? ago) +never /)
  t.match(doctor.stdout, /^CHECK +RESULT +DETAIL\nsettings +ok/)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: colour is a control sequence
  for (const { stdout } of [status, lanes, audit, keys, doctor]) t.notMatch(stdout, /\x1b|…/)
  t.match(JSON.parse(asJson.stdout), { audit: Array })
  const checked = await pipectl('status', '--check')
  t.match(checked.stdout, /^FIELD +VALUE\n/)
  t.equal((await pipectl('pipes', 'delete', long, '--yes')).code, 0)
})

t.test('a misspelt pipe, destination, key or user: the one that was probably meant', async (t) => {
  await json('pipes', 'create', 'events')
  await json('destinations', 'create', 'events', '--type', 'pull', '--name', 'warehouse')
  for (const [command, meant] of [
    ['pipes get evnets', 'events'],
    ['lanes retry events/warehose', 'events/warehouse'],
    ['destinations get evnts/warehouse', 'events'],
    ['lanes skip event', 'events'],
    ['keys revoke defalt --yes', 'default'],
  ] as const) {
    const ran = await pipectl(...command.split(' '))
    t.match(
      ran,
      { code: 3, stderr: /^error: there is no \w+ ".*" in this workspace\n {2}next: [^\n]+\n$/ },
      command,
    )
    t.match(ran.stderr, `did you mean "${meant}"?`)
  }
  t.notMatch((await pipectl('pipes', 'get', 'nothing-like-it')).stderr, 'did you mean')
  await json('pipes', 'create', 'empty')
  t.match(await pipectl('lanes', 'retry', 'empty'), {
    code: 3,
    stderr: /pipe empty has no destination\n.*destinations create empty/,
  })
})

t.test('usage: by the hour, of a pipe and of all', async (t) => {
  await json('pipes', 'create', 'measured')
  const id = (await json('pipes', 'get', 'measured')).pipe.pipe_id
  await daemon.ingest(id, [{ n: 1 }, { n: 2 }])
  const { hours } = await json('usage', 'measured')
  t.equal(hours.length, 24)
  t.equal(
    hours.reduce((sum: number, hour: { ingest_records: number }) => sum + hour.ingest_records, 0),
    2,
  )
  t.equal((await json('usage', '--hours', '3')).hours.length, 3)
  const table = (await pipectl('usage', 'measured', '-o', 'table')).stdout.trim().split('\n')
  t.match(table[0], /^HOUR \(UTC\) +REQUESTS +RECORDS/)
  t.equal(table.length, 25)
  t.match(await pipectl('usage', '--hours', '721'), { code: 2, stderr: /hours: must be a whole number/ })
  t.match(await pipectl('usage', 'nothing'), { code: 3 })
})

t.test('status, openapi, config and completion', async (t) => {
  t.match(await json('status'), { health: 'ok', url: daemon.url })
  t.match((await pipectl('openapi')).stdout, /^openapi: ["']?3\.0\.3/m)
  const settings = (await json('config', 'show', '--origin')).settings
  const of = (name: string) => settings.find((one: { setting: string }) => one.setting === name)
  t.match(of('client.url'), { value: daemon.url, origin: 'environment' })
  t.match(of('client.api_key'), { value: '[set]' })
  t.match(of('buffer.max_bytes'), { origin: 'default' })
  for (const shell of ['bash', 'zsh', 'fish'])
    t.match((await pipectl('completion', shell)).stdout, /__complete/)
  t.equal((await pipectl('completion', 'cmd')).code, 2)
  const [names, destinations, commands, options, choices, roles] = await Promise.all([
    pipectl('__complete', '--', 'pipes', 'get', 'or'),
    pipectl('__complete', '--', 'lanes', 'skip', 'lanes/'),
    pipectl('__complete', '--', 'pip'),
    pipectl('__complete', '--', 'pull', 'x', '--fo'),
    pipectl('__complete', '--', 'pipes', 'list', '-o', 'n'),
    pipectl('__complete', '--', 'users', 'role', 'ada@example.com', ''),
  ])
  t.equal(names.stdout, 'orders\n')
  t.equal(destinations.stdout, 'lanes/http-endpoint\n')
  t.equal(commands.stdout, 'pipes\n')
  t.equal(options.stdout, '--follow\n--forward-to\n')
  t.equal(choices.stdout, 'name\nndjson\n')
  t.equal(roles.stdout, 'admin\nviewer\n')
  const [fileOption, fileArgument, freeText] = await Promise.all([
    pipectl('__complete', '--', 'ingest', 'orders', '--file', ''),
    pipectl('__complete', '--', 'backup', ''),
    pipectl('__complete', '--', 'pipes', 'create', 'x', '--description', ''),
  ])
  t.equal(fileOption.stdout, ':files\n')
  t.equal(fileArgument.stdout, ':files\n')
  t.equal(freeText.stdout, '', 'no file names where text is expected')
  const away = { ...env, PIPECTL_URL: nobody }
  t.same(
    (await runCli(['__complete', '--', 'pipes', 'get', ''], { env: away })).stdout,
    '',
    'no daemon, no names',
  )
})

t.test('completion offers no name that a shell would run or that moves the cursor', async (t) => {
  for (const api_key_name of ['alice-ci', 'alice$(touch$IFS)', 'alice b', 'alice;id'])
    t.equal((await daemon.api('POST', '/v1/api-keys', { api_key_name })).status, 201)
  t.equal((await pipectl('__complete', '--', 'keys', 'revoke', 'al')).stdout, 'alice-ci\n')
})

t.test('the completion script is valid bash', async (t) => {
  const { spawnSync } = await import('node:child_process')
  const script = (await pipectl('completion', 'bash')).stdout
  const checked = spawnSync('bash', ['-n'], { input: script })
  t.equal(checked.status, 0, String(checked.stderr))
})
