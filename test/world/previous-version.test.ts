/**
 * A data directory that the previous version left in the middle of its work opens with this one: nothing pending is
 * lost, what was counted stays counted, and batches under way keep their identity. How it was made:
 * test/support/fixtures/README.md. The daemon runs at the time of the directory, or its messages would be too old.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { gunzipSync } from 'node:zlib'
import Database from 'better-sqlite3'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { fakeClock } from '../support/fake-clock.ts'
import {
  blockingMessage,
  type LaneName,
  laneNames,
  limits,
  type Manifest,
  messageCount,
  messageText,
  recordIds,
  secrets,
  sinkAddress,
  skippedMessage,
  storeAddress,
} from '../support/fixtures/previous-version.ts'
import { type SinkDelivery, startHttpSink } from '../support/http-sink.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const archive = new URL('../support/fixtures/previous-version.tar.gz', import.meta.url).pathname
const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-previous-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
execFileSync('tar', ['-xzf', archive, '-C', folder])
const manifest: Manifest = JSON.parse(readFileSync(path.join(folder, 'manifest.json'), 'utf8'))
const { lanes, pipes, messages } = manifest

const clock = fakeClock(t)
// Ten minutes later: every retry is due, nothing is too old.
clock.set(Math.round((Date.parse(manifest.made_ts) - Date.now()) / 1000) + 600)
const [postgres, mariadb] = await Promise.all([startPostgres(), startMariadb()])
t.teardown(() => Promise.all([postgres.stop(), mariadb.stop()]))
const daemon = await startDaemon({ dataDir: path.join(folder, 'data'), env: clock.env })
t.teardown(() => daemon.close())
daemon.apiKey = manifest.api_key

const keyOf = (name: LaneName) => (name === 'secondPull' ? manifest.second_api_key : manifest.api_key)
const pathOf = (name: LaneName) =>
  `/v1/pipes/${lanes[name].pipe_id}/destinations/${lanes[name].destination_id}`
async function destinationOf(name: LaneName) {
  const response = await daemon.api<{
    destination: { lane: Record<string, unknown>; destination_config: Record<string, unknown> }
  }>('GET', pathOf(name), undefined, { key: keyOf(name) })
  return response.body.destination
}
const laneOf = async (name: LaneName) => (await destinationOf(name)).lane

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index)
const idsOf = (numbers: number[]) => numbers.flatMap(recordIds)
const parse = (text: string): { id: number }[] =>
  text.startsWith('[')
    ? JSON.parse(text)
    : text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
const idsIn = (texts: string[]) => texts.flatMap((text) => parse(text).map(({ id }) => id))

t.test('every lane is where it was, with its counters', async (t) => {
  const kept = [
    'cursor_seq',
    'head_seq',
    'pending_messages',
    'pending_bytes',
    'blocking_msg_id',
    'first_failed_ts',
    'last_delivered_ts',
    'delivered_records',
    'skipped_messages',
    'dropped_messages',
  ]
  for (const name of laneNames) {
    const lane = await laneOf(name)
    for (const key of kept) t.equal(lane[key], lanes[name].lane[key], `${name} ${key}`)
  }
})

t.test('its segments are sealed as they were written, and a segment of the new format follows', (t) => {
  const bufferDir = path.join(folder, 'data/buffer')
  const files = readdirSync(bufferDir).filter((file) => /^\d+\.db$/.test(file))
  const formats = files.map((file) => {
    const db = new Database(path.join(bufferDir, file), { readonly: true })
    const columns = db.prepare('SELECT name FROM pragma_table_info(?)').pluck().all('segment')
    const format = columns.includes('format') ? db.prepare('SELECT format FROM segment').pluck().get() : 1
    db.close()
    return format
  })
  t.equal(formats.at(-1), 2)
  t.ok(formats.length > 1)
  t.same([...new Set(formats.slice(0, -1))], [1])
  t.notOk(existsSync(path.join(folder, 'data/quarantine')), 'none of them is taken for a damaged one')
  const sideFiles = files.slice(0, -1).flatMap((file) => [`${file}-wal`, `${file}-shm`])
  t.same(
    readdirSync(bufferDir).filter((file) => sideFiles.includes(file)),
    [],
  )
  t.end()
})

t.test('pipes, limits, origins, keys and usage are there', async (t) => {
  const detail = await daemon.api('GET', `/v1/pipes/${pipes.orders}`)
  const {
    pipe,
    limits: stored,
    allowed_origins: origins,
  } = detail.body as Record<string, Record<string, unknown>>
  t.match(pipe, { pipe_name: 'orders', pipe_status: 'active', pipe_add_ingest_ip: true })
  t.match(stored, limits)
  t.match(origins, [
    { origin_domain: 'https://shop.example' },
    { origin_domain: 'https://admin.shop.example:8443' },
  ])
  const paused = await daemon.api('GET', `/v1/pipes/${pipes.paused}`)
  t.match(paused.body, { pipe: { pipe_status: 'paused', pipe_ingest_geo_country_field: 'country' } })
  t.equal((await daemon.api('GET', `/v1/pipes/${pipes.deleted}`)).status, 404)
  const revoked = await daemon.api('GET', '/v1/pipes', undefined, { key: manifest.revoked_api_key })
  t.equal(revoked.status, 401)
  const list = await daemon.api<{ usage_by_pipe: Record<string, Record<string, unknown>> }>(
    'GET',
    '/v1/pipes',
  )
  const counted = [
    'ingest_requests',
    'ingest_records',
    'ingest_bytes',
    'delivered_records',
    'skipped_records',
  ]
  for (const key of counted) t.equal(list.body.usage_by_pipe[pipes.orders]?.[key], manifest.usage[key], key)
})

t.test('a request repeated after the upgrade is the one accepted before it', async (t) => {
  const { msg_id } = await daemon.ingest(pipes.orders, messageText(0), {
    headers: { 'idempotency-key': manifest.idempotency_key },
  })
  t.equal(msg_id, messages[0])
  t.equal((await laneOf('delivered')).pending_messages, 0, 'nothing was buffered')
})

t.test('HTTP: batches go on under their own identity, with the stored secrets', async (t) => {
  const sink = await startHttpSink(sinkAddress)
  t.teardown(() => sink.stop())
  sink.respondWith(({ path: url, text }) =>
    url === '/strict' && text.includes('"bad":true') ? { status: 422 } : {},
  )
  const to = (url: string) => sink.deliveries.filter((delivery) => delivery.path.startsWith(url))
  const texts = (url: string) => to(url).map(({ text }) => text)
  const drained = (name: LaneName) =>
    until(`${name} is drained`, async () => (await laneOf(name)).pending_messages === 0)

  await daemon.api('POST', `${pathOf('failing')}/retry-now`)
  await drained('failing')
  t.same(idsIn(texts('/failing')), idsOf(range(1, messageCount)))
  t.equal(to('/failing')[0]?.headers.authorization, secrets.authHeader)
  t.equal(to('/failing')[0]?.headers['webhook-id'], manifest.failing_webhook_id)

  await daemon.ingest(pipes.orders, messageText(messageCount))
  await drained('delivered')
  const sent = to('/delivered')
  t.same(idsIn(texts('/delivered')), recordIds(messageCount), 'and nothing that had been delivered')
  t.equal(sent[0]?.path, `/delivered?token=${secrets.urlToken}`)
  t.match(sent[0]?.headers, {
    authorization: secrets.authHeader,
    'x-custom': secrets.customHeader,
    'webhook-signature': /^v1,/,
  })

  t.equal((await laneOf('strict')).blocking_msg_id, messages[blockingMessage])
  await daemon.api('POST', `${pathOf('strict')}/skip`)
  await drained('strict')
  const strict = to('/strict').filter(({ text }) => !text.includes('"bad":true'))
  t.same(idsIn(strict.map(({ text }) => text)), idsOf(range(blockingMessage + 1, messageCount + 1)))
  const lane = await laneOf('strict')
  t.equal(lane.skipped_messages, 2)
  const delivered = range(0, messageCount + 1).filter(
    (message) => message !== skippedMessage && message !== blockingMessage,
  )
  t.equal(lane.delivered_records, idsOf(delivered).length)

  await daemon.api('PATCH', `${pathOf('blocked')}/status`, { destination_status: 'active' })
  await drained('blocked')
  t.same(idsIn(texts('/blocked')), idsOf([1, 2, 3]))
})

t.test('object store: the object goes again under the same key', async (t) => {
  const store = await startHttpSink(storeAddress)
  t.teardown(() => store.stop())
  await daemon.api('POST', `${pathOf('objectStore')}/retry-now`)
  await until('everything is stored', async () => (await laneOf('objectStore')).pending_messages === 0)
  t.equal(store.deliveries[0]?.path, manifest.object_path)
  const text = ({ body, headers }: SinkDelivery) =>
    (headers['content-encoding'] === 'gzip' || body[0] === 0x1f ? gunzipSync(body) : body).toString('utf8')
  t.same(idsIn(store.deliveries.map(text)), idsOf(range(0, messageCount + 1)))
})

t.test('pull: the cursor and the lease are kept', async (t) => {
  const pull = (name: LaneName) =>
    daemon.api<{ msg_id: string; records: { id: number }[] }>(
      'GET',
      `/v1/pull/${lanes[name].destination_id}?wait_ms=0`,
      undefined,
      { key: keyOf(name) },
    )
  const all = async (name: LaneName, isExplicit: boolean) => {
    const ids: number[] = []
    for (let next = await pull(name); next.status === 200; next = await pull(name)) {
      ids.push(...next.body.records.map(({ id }) => id))
      const body = { msg_id: next.body.msg_id }
      if (isExplicit) await daemon.api('POST', `/v1/pull/${lanes[name].destination_id}/ack`, body)
    }
    return ids
  }
  t.equal((await pull('explicitPull')).body.msg_id, manifest.leased_msg_id)
  await daemon.api('POST', `/v1/pull/${lanes.explicitPull.destination_id}/nack`, {
    msg_id: manifest.leased_msg_id,
  })
  t.same(await all('explicitPull', true), idsOf(range(3, messageCount + 1)))
  t.same(await all('plainPull', false), idsOf(range(2, messageCount + 1)))
  t.same(await all('secondPull', false), idsOf([1, 2, 3]))
})

const columns =
  'id bigint PRIMARY KEY, name varchar(100), price numeric(20,6), big numeric(30,0), bad boolean, note text, ingest_ts varchar(40), ingest_ip varchar(60)'

t.test('PostgreSQL: everything arrives once, with the stored columns', async (t) => {
  await postgres.query(`CREATE USER previous PASSWORD '${secrets.databasePassword}'`)
  await postgres.query('CREATE DATABASE previous OWNER previous')
  const { host, port, database } = postgres
  // Another server needs the password again.
  const config = { host, port, database, password: secrets.databasePassword }
  await postgres.query(`CREATE TABLE orders (${columns})`)
  await postgres.query('GRANT ALL ON orders TO previous')
  const changed = await daemon.api('PATCH', pathOf('postgresql'), { destination_config: config })
  t.equal(changed.status, 200, changed.text)
  await daemon.api('POST', `${pathOf('postgresql')}/retry-now`)
  await until('everything is stored', async () => (await laneOf('postgresql')).pending_messages === 0)
  const rows = await postgres.query('SELECT id::int AS id, name, big::text AS big FROM orders ORDER BY id')
  t.same(
    rows.map(({ id }) => id),
    idsOf(range(0, messageCount + 1)),
  )
  t.match(rows[0], { name: 'record 0 ✓', big: '12345678901234567890' })
})

t.test('MySQL family: everything arrives once, by the names of the columns', async (t) => {
  await mariadb.query(`CREATE TABLE orders (${columns}) CHARACTER SET utf8mb4`)
  await mariadb.query(`CREATE USER previous@'%' IDENTIFIED BY '${secrets.databasePassword}'`)
  await mariadb.query(`GRANT ALL ON \`${mariadb.database}\`.* TO previous@'%'`)
  const { host, port, database } = mariadb
  // Another server needs the password again.
  const config = { host, port, database, password: secrets.databasePassword }
  const changed = await daemon.api('PATCH', pathOf('mysql'), { destination_config: config })
  t.equal(changed.status, 200, changed.text)
  await daemon.api('POST', `${pathOf('mysql')}/retry-now`)
  await until('everything is stored', async () => (await laneOf('mysql')).pending_messages === 0)
  const rows = await mariadb.query('SELECT id, name, big FROM orders ORDER BY id')
  t.same(
    rows.map(({ id }) => Number(id)),
    idsOf(range(0, messageCount + 1)),
  )
  t.match(rows[0], { name: 'record 0 ✓', big: '12345678901234567890' })
})

t.test('nothing was dropped, and it stops in order', async (t) => {
  for (const name of laneNames) t.equal((await laneOf(name)).dropped_messages, 0, name)
  t.equal(await daemon.stop(), 0)
})
