/**
 * docs/dev/contract.md#pipes, `pipe_client_ip`: what a pipe keeps of its clients' addresses, on each HTTP engine, with
 * threads of ingest, for ingest and for webhooks, behind a trusted proxy.
 */
import { createHmac, randomUUID } from 'node:crypto'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import t, { type Test } from 'tap'
import type { Answer } from '../support/api-client.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { cityRecord, writeMmdb } from '../support/mmdb.ts'

const environments: Record<string, Record<string, string>> = {
  uws: { PIPECTL_HTTP_ENGINE: 'uws', PIPECTL_INGEST_WORKERS: '1' },
  'threads of ingest': { PIPECTL_HTTP_ENGINE: 'uws', PIPECTL_INGEST_WORKERS: '3' },
  node: { PIPECTL_HTTP_ENGINE: 'node', PIPECTL_INGEST_WORKERS: '1' },
}
const geoFile = path.join(t.testdir(), 'city.mmdb')
const networks = { '192.0.2.77/32': cityRecord({ country: 'DE' }) }
writeFileSync(geoFile, writeMmdb({ ipVersion: 6, networks }))
/** Only this address is in the geolocation file; its network is not. */
const address = '192.0.2.77'
const six = '2001:db8:1:2:3:4:5:6'
const secret = 'secret of the webhook'
const modes = { full: address, truncated: '192.0.2.0', none: undefined } as const
type Mode = keyof typeof modes

for (const [name, env] of Object.entries(environments))
  t.test(name, async (t) => {
    const daemon = await startDaemon({
      env: { ...env, PIPECTL_GEOIP_DATABASE: geoFile, PIPECTL_TRUSTED_PROXIES: '127.0.0.0/8' },
    })
    t.teardown(() => daemon.close())
    for (const mode of ['full', 'truncated', 'none'] as const)
      await t.test(mode, (t) => recordsOf(t, daemon, mode))
    await t.test('a change applies to the next request', (t) => changes(t, daemon))
    await t.test('nothing else has the address', (t) => nowhere(t, daemon))
  })

async function createPipe(daemon: TestDaemon, mode: Mode): Promise<string> {
  return await daemon.createPipe({
    pipe_name: `p${randomUUID()}`,
    pipe_add_ingest_ip: true,
    pipe_client_ip: mode,
    pipe_ingest_geo_country_field: 'country',
    pipe_source: { type: 'github', secrets: [secret] },
  })
}

function post(daemon: TestDaemon, pipe: string, body: string, from: string): Promise<Answer> {
  return daemon.api('POST', `/v1/ingest/${pipe}`, body, { headers: { 'x-forwarded-for': from } })
}

function sendHook(daemon: TestDaemon, pipe: string, body: string, from: string): Promise<Answer> {
  const signature = createHmac('sha256', secret).update(body).digest('hex')
  const headers = { 'x-forwarded-for': from, 'x-hub-signature-256': `sha256=${signature}` }
  return daemon.api('POST', `/v1/hooks/${pipe}`, body, {
    key: null,
    headers: { ...headers, 'content-type': 'application/json' },
  })
}

async function stored(t: Test, daemon: TestDaemon, answer: Answer): Promise<Record<string, unknown>> {
  t.equal(answer.status, 202, answer.text)
  const { body } = await daemon.api('GET', `/v1/messages/${answer.body.msg_id}`)
  const [record] = body.records as Record<string, unknown>[]
  return record!
}

async function recordsOf(t: Test, daemon: TestDaemon, mode: Mode): Promise<void> {
  const pipe = await createPipe(daemon, mode)
  for (const send of [post, sendHook]) {
    const record = await stored(t, daemon, await send(daemon, pipe, '{"n":1}', `6.6.6.6, ${address}`))
    t.equal(record.ingest_ip, modes[mode])
    t.equal(record.country, 'DE', 'the location of the whole address')
    const large = JSON.stringify({ text: 'x'.repeat(300_000) })
    t.equal((await stored(t, daemon, await send(daemon, pipe, large, address))).ingest_ip, modes[mode])
    const mapped = await stored(t, daemon, await send(daemon, pipe, '{"n":1}', `::ffff:${address}`))
    t.equal(mapped.ingest_ip, modes[mode], 'IPv4-mapped IPv6')
    const long = await stored(t, daemon, await send(daemon, pipe, '{"n":1}', six))
    t.equal(long.ingest_ip, { full: six, truncated: '2001:db8:1::', none: undefined }[mode])
  }
  const own = await stored(t, daemon, await post(daemon, pipe, '{"ingest_ip":"of the client"}', address))
  t.equal(own.ingest_ip, modes[mode] ?? 'of the client')
}

async function changes(t: Test, daemon: TestDaemon): Promise<void> {
  const pipe = await createPipe(daemon, 'full')
  for (const mode of ['truncated', 'none', 'full'] as const) {
    t.equal((await daemon.api('PATCH', `/v1/pipes/${pipe}`, { pipe_client_ip: mode })).status, 200)
    const record = await stored(t, daemon, await post(daemon, pipe, '{"n":1}', address))
    t.equal(record.ingest_ip, modes[mode])
  }
}

/** The last test of a daemon: its files and its log, after requests that are accepted and rejected in several ways. */
async function nowhere(t: Test, daemon: TestDaemon): Promise<void> {
  const from = { none: '192.0.2.181', truncated: '192.0.2.182', full: '192.0.2.183' }
  for (const mode of ['none', 'truncated', 'full'] as const) {
    const pipe = await createPipe(daemon, mode)
    const statuses: number[] = []
    for (const send of [post, sendHook])
      for (const body of ['{"n":1}', 'no JSON', '[]', JSON.stringify({ x: 'y'.repeat(11 << 20) })])
        statuses.push(
          await send(daemon, pipe, body, from[mode]).then(
            ({ status }) => status,
            () => 413,
          ),
        )
    t.equal(statuses.filter((status) => status === 202).length, 2)
    const headers = { 'x-forwarded-for': from[mode] }
    const unsigned = await daemon.api('POST', `/v1/hooks/${pipe}`, '{"n":1}', { key: null, headers })
    const keyless = await daemon.api('POST', `/v1/ingest/${pipe}`, '{"n":1}', { key: null, headers })
    t.same([unsigned.status, keyless.status], [401, 401])
    const shown = [`/v1/pipes/${pipe}`, `/v1/pipes/${pipe}/usage`, '/v1/audit?limit=500', '/v1/overview']
    for (const where of shown) t.notMatch((await daemon.api('GET', where)).text, from[mode], where)
  }
  await daemon.stop()
  const files = readdirSync(daemon.dataDir, { recursive: true, encoding: 'utf8' })
    .map((name) => path.join(daemon.dataDir, name))
    .filter((file) => statSync(file).isFile())
  const bytes = (text: string) => Buffer.from(text.split('.').map(Number))
  const contents = files.map((file) => readFileSync(file))
  const has = (text: string) => files.filter((_, index) => contents[index]!.includes(text))
  t.same(has(from.none), [], 'no file has the address of a pipe that keeps none')
  t.same(has(from.truncated), [], 'no file has a whole address of a pipe that truncates')
  t.ok(has(from.full).length > 0, 'control: the search finds what a pipe keeps')
  for (const one of [from.none, from.truncated])
    t.notOk(
      contents.some((content) => content.includes(bytes(one))),
      'nor as bytes',
    )
  const log = daemon.log.map((line) => JSON.stringify(line)).join('\n')
  for (const one of Object.values(from)) t.notMatch(log, one, 'the log has no addresses of ingest')
}

t.test('headers of webhooks that pass an address on need the whole address', async (t) => {
  const daemon = await startDaemon()
  t.teardown(() => daemon.close())
  const message = 'must not be x-forwarded-for while pipe_client_ip is none: it has the address of the client'
  const rejected = { status: 400, body: { errors: { 'pipe_source_headers.1': message } } }
  const pipe_source_headers = ['User-Agent', 'X-Forwarded-For']
  const body = { pipe_name: 'p', pipe_client_ip: 'none', pipe_source_headers }
  t.match(await daemon.api('POST', '/v1/pipes', body), rejected)
  const pipe = await daemon.createPipe({ ...body, pipe_client_ip: 'full' })
  t.match(await daemon.api('PATCH', `/v1/pipes/${pipe}`, { pipe_client_ip: 'none' }), rejected)
  const both = { pipe_client_ip: 'none', pipe_source_headers: ['user-agent'] }
  t.equal((await daemon.api('PATCH', `/v1/pipes/${pipe}`, both)).status, 200)
  t.match(await daemon.api('PATCH', `/v1/pipes/${pipe}`, { pipe_source_headers }), rejected)
})
