/**
 * A data directory that this or an earlier version left in the middle of its work opens: nothing pending is
 * lost, what was counted stays counted, and batches under way keep their identity. How each was made:
 * test/support/fixtures/README.md. The daemon runs at the time of the directory, or its messages would be too old.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { gunzipSync } from 'node:zlib'
import Database from 'better-sqlite3'
import t, { type Test } from 'tap'
import { newestFormat } from '../../src/metadata/migrations.ts'
import { runCli } from '../support/cli.ts'
import { startDaemon, type TestDaemon } from '../support/daemon.ts'
import { contentOf } from '../support/directory-content.ts'
import { fakeClock } from '../support/fake-clock.ts'
import {
  blockedMessages,
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
} from '../support/fixtures/data-directory.ts'
import { type SinkDelivery, startHttpSink } from '../support/http-sink.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const fixtures = new URL('../support/fixtures/', import.meta.url).pathname
const formats = readdirSync(fixtures)
  .flatMap((name) => /^format-(\d+)\.tar\.gz$/.exec(name)?.[1] ?? [])
  .map(Number)
  .sort((a, b) => a - b)

const [postgres, mariadb] = await Promise.all([startPostgres(), startMariadb()])
t.teardown(() => Promise.all([postgres.stop(), mariadb.stop()]))
await postgres.query(`CREATE USER previous PASSWORD '${secrets.databasePassword}'`)
await mariadb.query(`CREATE USER previous@'%' IDENTIFIED BY '${secrets.databasePassword}'`)
await mariadb.query(`GRANT ALL ON \`${mariadb.database}\`.* TO previous@'%'`)

/** A directory of an earlier version, and the daemon of this one on it. */
interface Opened {
  format: number
  folder: string
  manifest: Manifest
  clock: ReturnType<typeof fakeClock>
  daemon: TestDaemon
  /** Formats of the segments as they were found, by file. */
  segments: Map<string, number>
}

const keyOf = ({ manifest }: Opened, name: LaneName) =>
  name === 'secondPull' ? manifest.second_api_key : manifest.api_key
const pathOf = ({ manifest: { lanes } }: Opened, name: LaneName) =>
  `/v1/pipes/${lanes[name].pipe_id}/destinations/${lanes[name].destination_id}`
async function laneOf(opened: Opened, name: LaneName) {
  const response = await opened.daemon.api<{ destination: { lane: Record<string, unknown> } }>(
    'GET',
    pathOf(opened, name),
    undefined,
    { key: keyOf(opened, name) },
  )
  return response.body.destination.lane
}

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

const columns =
  'id bigint PRIMARY KEY, name varchar(100), price numeric(20,6), big numeric(30,0), bad boolean, note text, ingest_ts varchar(40), ingest_ip varchar(60)'

const steps: [behaviour: string, check: (t: Test, opened: Opened) => Promise<void>][] = [
  [
    'every lane is where it was, with its counters',
    async (t, opened) => {
      const { manifest } = opened
      const { lanes } = manifest
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
        'parked_records',
        'filtered_records',
      ]
      for (const name of laneNames) {
        const lane = await laneOf(opened, name)
        for (const key of kept) t.equal(lane[key], lanes[name].lane[key], `${name} ${key}`)
      }
    },
  ],
  [
    'its segments are sealed as they were written',
    async (t, { folder, segments }) => {
      const dataDir = path.join(folder, 'data')
      const after = segmentFormats(dataDir)
      t.match(Object.fromEntries(after), Object.fromEntries(segments))
      t.notOk(existsSync(path.join(dataDir, 'quarantine')), 'none of them is taken for a damaged one')
      const sideFiles = [...after.keys()].slice(0, -1).flatMap((file) => [`${file}-wal`, `${file}-shm`])
      t.same(
        readdirSync(path.join(dataDir, 'buffer')).filter((file) => sideFiles.includes(file)),
        [],
      )
    },
  ],
  [
    'its metadata of before the upgrade is kept, for its owner alone',
    async (t, { format, folder, daemon }) => {
      const copy = copyOf(folder, format)
      const copies = path.dirname(copy)
      if (format === newestFormat) return void t.notOk(existsSync(copies), 'nothing was changed')
      t.same(readdirSync(copies), [`metadata-format-${format}.db`])
      t.equal(statSync(copy).mode & 0o777, 0o600)
      t.equal(statSync(copies).mode & 0o777, 0o700)
      t.equal(formatIn(copy), format)
      t.equal(formatIn(path.join(folder, 'data/metadata.db')), newestFormat)
      t.match(
        daemon.log.filter((line) => line.msg === 'metadata.upgraded'),
        [{ from_format: format, to_format: newestFormat, copy }],
      )
    },
  ],
  [
    'pipes, limits, origins, keys and usage are there',
    async (t, opened) => {
      const { daemon, manifest } = opened
      const { pipes } = manifest
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
      for (const key of counted)
        t.equal(list.body.usage_by_pipe[pipes.orders]?.[key], manifest.usage[key], key)
    },
  ],
  [
    'a request repeated after the upgrade is the one accepted before it',
    async (t, opened) => {
      const { daemon, manifest } = opened
      const { pipes, messages } = manifest
      const { msg_id } = await daemon.ingest(pipes.orders, messageText(0), {
        headers: { 'idempotency-key': manifest.idempotency_key },
      })
      t.equal(msg_id, messages[0])
      t.equal((await laneOf(opened, 'delivered')).pending_messages, 0, 'nothing was buffered')
    },
  ],
  [
    'HTTP: batches go on under their own identity, with the stored secrets',
    async (t, opened) => {
      const { daemon, manifest } = opened
      const { pipes, messages } = manifest
      const sink = await startHttpSink(sinkAddress)
      t.teardown(() => sink.stop())
      sink.respondWith(({ path: url, text }) =>
        url === '/strict' && text.includes('"bad":true') ? { status: 422 } : {},
      )
      const to = (url: string) => sink.deliveries.filter((delivery) => delivery.path.split('?')[0] === url)
      const texts = (url: string) => to(url).map(({ text }) => text)
      const drained = (name: LaneName) =>
        until(`${name} is drained`, async () => (await laneOf(opened, name)).pending_messages === 0)

      await daemon.api('POST', `${pathOf(opened, 'failing')}/retry-now`)
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

      t.equal((await laneOf(opened, 'strict')).blocking_msg_id, messages[blockingMessage])
      await daemon.api('POST', `${pathOf(opened, 'strict')}/skip`)
      await drained('strict')
      const strict = to('/strict').filter(({ text }) => !text.includes('"bad":true'))
      t.same(idsIn(strict.map(({ text }) => text)), idsOf(range(blockingMessage + 1, messageCount + 1)))
      const lane = await laneOf(opened, 'strict')
      t.equal(lane.skipped_messages, 2)
      const delivered = range(0, messageCount + 1).filter(
        (message) => message !== skippedMessage && message !== blockingMessage,
      )
      t.equal(lane.delivered_records, idsOf(delivered).length)

      const all = range(0, messageCount + 1)
      await daemon.api('POST', `${pathOf(opened, 'transformed')}/retry-now`)
      await drained('transformed')
      const kept = all.filter((message) => !blockedMessages.includes(message))
      t.same(idsIn(texts('/failing-transformed')), idsOf(kept), 'the filter and the map go on')
      t.match(parse(texts('/failing-transformed')[0] ?? '')[0], { title: /^record/, note: undefined })

      await daemon.api('POST', `${pathOf(opened, 'parking')}/parked/replay`, { all: true })
      await until(
        'what was parked is delivered',
        async () => (await laneOf(opened, 'parking')).parked_records === 0,
      )
      const parked = to('/strict-parking').flatMap(({ text }) => parse(text).map(({ id }) => id))
      t.same(
        parked.filter((id) => id < messageCount * 10).sort((a, b) => a - b),
        idsOf([...blockedMessages]),
      )

      await daemon.api('PATCH', `${pathOf(opened, 'blocked')}/status`, { destination_status: 'active' })
      await drained('blocked')
      t.same(idsIn(texts('/blocked')), idsOf([1, 2, 3]))
    },
  ],
  [
    'object store: the object goes again under the same key',
    async (t, opened) => {
      const { daemon, manifest } = opened
      const store = await startHttpSink(storeAddress)
      t.teardown(() => store.stop())
      await daemon.api('POST', `${pathOf(opened, 'objectStore')}/retry-now`)
      await until(
        'everything is stored',
        async () => (await laneOf(opened, 'objectStore')).pending_messages === 0,
      )
      t.equal(store.deliveries[0]?.path, manifest.object_path)
      const text = ({ body, headers }: SinkDelivery) =>
        (headers['content-encoding'] === 'gzip' || body[0] === 0x1f ? gunzipSync(body) : body).toString(
          'utf8',
        )
      t.same(idsIn(store.deliveries.map(text)), idsOf(range(0, messageCount + 1)))
    },
  ],
  [
    'pull: the cursor and the lease are kept',
    async (t, opened) => {
      const { daemon, manifest } = opened
      const { lanes } = manifest
      const pull = (name: LaneName) =>
        daemon.api<{ msg_id: string; records: { id: number }[] }>(
          'GET',
          `/v1/pull/${lanes[name].destination_id}?wait_ms=0`,
          undefined,
          { key: keyOf(opened, name) },
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
    },
  ],
  [
    'PostgreSQL: everything arrives once, with the stored columns',
    async (t, opened) => {
      const { daemon } = opened
      const { host, port, database } = postgres
      // Another server needs the password again.
      const config = { host, port, database, password: secrets.databasePassword }
      await postgres.query('DROP TABLE IF EXISTS orders')
      await postgres.query(`CREATE TABLE orders (${columns})`)
      await postgres.query('GRANT ALL ON orders TO previous')
      const changed = await daemon.api('PATCH', pathOf(opened, 'postgresql'), { destination_config: config })
      t.equal(changed.status, 200, changed.text)
      await daemon.api('POST', `${pathOf(opened, 'postgresql')}/retry-now`)
      await until(
        'everything is stored',
        async () => (await laneOf(opened, 'postgresql')).pending_messages === 0,
      )
      const rows = await postgres.query(
        'SELECT id::int AS id, name, big::text AS big FROM orders ORDER BY id',
      )
      t.same(
        rows.map(({ id }) => id),
        idsOf(range(0, messageCount + 1)),
      )
      t.match(rows[0], { name: 'record 0 ✓', big: '12345678901234567890' })
    },
  ],
  [
    'MySQL family: everything arrives once, by the names of the columns',
    async (t, opened) => {
      const { daemon } = opened
      await mariadb.query('DROP TABLE IF EXISTS orders')
      await mariadb.query(`CREATE TABLE orders (${columns}) CHARACTER SET utf8mb4`)
      const { host, port, database } = mariadb
      // Another server needs the password again.
      const config = { host, port, database, password: secrets.databasePassword }
      const changed = await daemon.api('PATCH', pathOf(opened, 'mysql'), { destination_config: config })
      t.equal(changed.status, 200, changed.text)
      await daemon.api('POST', `${pathOf(opened, 'mysql')}/retry-now`)
      await until('everything is stored', async () => (await laneOf(opened, 'mysql')).pending_messages === 0)
      const rows = await mariadb.query('SELECT id, name, big FROM orders ORDER BY id')
      t.same(
        rows.map(({ id }) => Number(id)),
        idsOf(range(0, messageCount + 1)),
      )
      t.match(rows[0], { name: 'record 0 ✓', big: '12345678901234567890' })
    },
  ],
  [
    'nothing was dropped, and it stops in order',
    async (t, opened) => {
      for (const name of laneNames) t.equal((await laneOf(opened, name)).dropped_messages, 0, name)
      t.equal(await opened.daemon.stop(), 0)
    },
  ],
  [
    'the copy can be put back: lanes are where they were, and nothing is lost',
    async (t, opened) => {
      const { format, folder, manifest, clock } = opened
      if (format === newestFormat) return
      const dataDir = path.join(folder, 'data')
      for (const end of ['', '-wal', '-shm']) rmSync(path.join(dataDir, `metadata.db${end}`), { force: true })
      copyFileSync(copyOf(folder, format), path.join(dataDir, 'metadata.db'))
      opened.daemon = await startDaemon({ dataDir, env: clock.env })
      t.teardown(() => opened.daemon.close())
      opened.daemon.apiKey = manifest.api_key
      const lane = await laneOf(opened, 'blocked')
      t.equal(lane.cursor_seq, manifest.lanes.blocked.lane.cursor_seq)
      t.equal(lane.dropped_messages, 0)
      t.equal(await opened.daemon.stop(), 0)
    },
  ],
]

for (const format of formats)
  await t.test(`a data directory of format ${format}`, async (t) => {
    const opened = await open(t, format)
    for (const [behaviour, check] of steps) await t.test(behaviour, (t) => check(t, opened))
  })

async function open(t: Test, format: number): Promise<Opened> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-earlier-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  execFileSync('tar', ['-xzf', path.join(fixtures, `format-${format}.tar.gz`), '-C', folder])
  const dataDir = path.join(folder, 'data')
  const manifest: Manifest = JSON.parse(readFileSync(path.join(folder, 'manifest.json'), 'utf8'))
  await looksBeforeUpgrade(t, dataDir, format)
  const segments = segmentFormats(dataDir)
  const clock = fakeClock(t)
  // Ten minutes later: every retry is due, nothing is too old.
  clock.set(Math.round((Date.parse(manifest.made_ts) - Date.now()) / 1000) + 600)
  const daemon = await startDaemon({ dataDir, env: clock.env })
  t.teardown(() => daemon.close())
  daemon.apiKey = manifest.api_key
  return { format, folder, manifest, clock, daemon, segments }
}

/** Runs `pipectl version --check-data-dir`, and checks that it changes nothing. */
async function looksBeforeUpgrade(t: Test, dataDir: string, format: number): Promise<void> {
  const before = contentOf(dataDir)
  const { code, stdout, stderr } = await runCli([
    ...['version', '--check-data-dir', '--data-dir', dataDir],
    ...['-o', 'json'],
  ])
  t.equal(code, 0, stderr)
  const { metadata_format, data_dir: found } = JSON.parse(stdout)
  t.equal(metadata_format, newestFormat)
  t.match(found, {
    result: format === newestFormat ? 'current' : 'upgrade',
    metadata_format: format,
    problem: null,
  })
  t.equal(found.migrations.length, newestFormat - format)
  t.same(contentOf(dataDir), before, 'and nothing was changed')
}

function segmentFormats(dataDir: string): Map<string, number> {
  const bufferDir = path.join(dataDir, 'buffer')
  const files = readdirSync(bufferDir).filter((file) => /^\d+\.db$/.test(file))
  return new Map(
    files.map((file) => {
      const db = new Database(path.join(bufferDir, file), { readonly: true })
      const format = db.prepare('SELECT format FROM segment').pluck().get()
      db.close()
      return [file, Number(format)]
    }),
  )
}

function copyOf(folder: string, format: number): string {
  return path.join(folder, `data/before-upgrade/metadata-format-${format}.db`)
}

function formatIn(file: string): number {
  const db = new Database(file, { readonly: true })
  const format = db.prepare('SELECT max(number) FROM metadata_migrations').pluck().get()
  db.close()
  return Number(format)
}
