/** One transform at every kind of destination: what it filters, maps, masks and fails for, and what the destination refuses. */
import { createHash } from 'node:crypto'
import { jetstreamManager } from '@nats-io/jetstream'
import { parquetReadObjects } from 'hyparquet'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startMariadb } from '../support/mariadb.ts'
import { startNats } from '../support/nats.ts'
import { startSigV4Receiver } from '../support/s3.ts'
import { until } from '../support/until.ts'
import { startIndexSink, startLokiSink, startSlackSink } from '../support/vendor-sinks.ts'
import { checkedApi, created } from './management-client.ts'

const account = { bucket: 'events', region: 'eu-west-1', accessKey: 'AKIDTEST', secretKey: 'secret' }
const [daemon, mariadb, nats, s3, http, index, loki, slack] = await Promise.all([
  startDaemon(),
  startMariadb(),
  startNats(),
  startSigV4Receiver(account),
  startHttpSink(),
  startIndexSink('ApiKey word'),
  startLokiSink('me'),
  startSlackSink(),
])
t.teardown(async () => {
  await daemon.close()
  await Promise.all([mariadb, nats, s3, http, index.sink, loki.sink, slack.sink].map((one) => one.stop()))
})
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'orders', pipe_add_ingest_ts: false }, 'pipe_id')
const salt = 'salt of the test'
const hash = (text: string) => createHash('sha256').update(`${salt}${text}`).digest('hex')

const first = [
  '{"n":1,"user":{"mail":"a@x"},"price":1.10}',
  '{"n":2,"user":{"mail":"b@x"}}',
  '{"x":3}',
  '{"n":"seven","user":{"mail":"c@x"}}',
  '{"n":5,"price":1e2}',
]
const made = [
  `{"n":1,"price":1.10,"mail":"${hash('a@x')}"}`,
  `{"n":"seven","mail":"${hash('c@x')}"}`,
  '{"n":5,"price":1e2}',
  '{"n":9,"mail":null}',
]
const transform = {
  filter: 'record.n != 2',
  map: [
    { op: 'move', from: 'user.mail', to: 'mail' },
    { op: 'mask', paths: ['mail'] },
    { op: 'drop', paths: ['user'] },
  ],
  mask_salt: salt,
}
const whereNumbers = made.filter((text) => !text.includes('seven'))
const columns = [
  { column_name: 'place', column_type: 'string', semantic_role: 'dedupe_id' },
  { column_name: 'n', column_type: 'number' },
  { column_name: 'mail', column_type: 'string' },
  { column_name: 'price', column_type: 'number' },
]

interface Kind {
  type: string
  config: Record<string, unknown>
  more?: object
  /** As texts, in their order where it has one. */
  arrived(msgId: string): Promise<unknown[]>
  expected(msgId: string): unknown[]
  /** It refuses an n that is no number. */
  isTyped?: boolean
}
const rows = (msgId: string) => [
  { place: `${msgId}:0`, n: 1, mail: hash('a@x'), price: 1.1 },
  { place: `${msgId}:4`, n: 5, mail: null, price: 100 },
]
const endpoint = (config: Record<string, unknown>) => ({ type: 'destination_http_endpoint', config })
const bucket = {
  ...{ bucket: account.bucket, region: account.region, endpoint: s3.endpoint },
  ...{ access_key: account.accessKey, secret_key: account.secretKey, compression: 'none' },
}
const objects = (suffix: string) =>
  [...s3.objects].filter(([key]) => key.endsWith(suffix)).map(([, { body }]) => body)
const events = async () => {
  const connection = await nats.connect()
  try {
    const { streams } = await jetstreamManager(connection)
    const { state } = await streams.info('EVENTS')
    const found: string[] = []
    for (let seq = 1; seq <= state.last_seq; seq += 1)
      found.push((await streams.getMessage('EVENTS', { seq }))?.string() ?? '')
    return found
  } finally {
    await connection.close()
  }
}
const bodies = (path: string) => http.deliveries.filter((one) => one.path === path).map(({ text }) => text)
const sorted = (texts: Iterable<string>) => [...texts].sort()

const kinds: Record<string, Kind> = {
  mariadb: {
    type: 'destination_database',
    config: {
      ...{ host: mariadb.host, port: mariadb.port, database: mariadb.database, table: 'sales' },
      ...{ username: mariadb.user, password: mariadb.password, dialect: 'mariadb', exactly_once: true },
    },
    more: { columns },
    isTyped: true,
    arrived: async (msgId) => {
      const found = await mariadb.query(`SELECT * FROM sales WHERE place LIKE '${msgId}%' ORDER BY place`)
      return found.map((row) => ({ ...row, n: Number(row.n), price: row.price && Number(row.price) }))
    },
    expected: rows,
  },
  parquet: {
    type: 'destination_object_store',
    config: { ...bucket, format: 'parquet', key_template: '{first_seq}.{ext}' },
    more: {
      columns: columns.map(({ semantic_role: _, ...one }) =>
        one.column_name === 'place' ? { ...one, semantic_role: 'dedupe_id' } : one,
      ),
    },
    isTyped: true,
    arrived: async (msgId) => {
      const files = await Promise.all(
        objects('.parquet').map((body) => parquetReadObjects({ file: Uint8Array.from(body).buffer })),
      )
      return files.flat().filter(({ place }) => String(place).startsWith(msgId))
    },
    expected: rows,
  },
  'json lines': {
    type: 'destination_object_store',
    config: { ...bucket, format: 'ndjson', key_template: '{first_seq}.{ext}' },
    arrived: async () => objects('.ndjson').join('').trim().split('\n'),
    expected: () => made,
  },
  nats: {
    type: 'destination_nats',
    config: { url: nats.servers[0]!.url, subject: 'events.orders', stream: 'EVENTS' },
    arrived: events,
    expected: () => made,
  },
  'json array': {
    ...endpoint({ url: `${http.url}/array`, body_format: 'json_array' }),
    arrived: async () =>
      bodies('/array')
        .map((text) => text.replace(/^\[|\]$/g, ''))
        .join(',')
        .split(/(?<=\}),/),
    expected: () => made,
  },
  es_bulk: {
    ...endpoint({
      url: `${index.sink.url}/events/_bulk`,
      body_format: 'es_bulk',
      auth_header: 'ApiKey word',
    }),
    isTyped: true,
    arrived: async () => sorted(index.documents.values()),
    expected: () => sorted(whereNumbers),
  },
  loki: {
    ...endpoint({
      ...{ url: `${loki.sink.url}/loki/api/v1/push`, body_format: 'loki' },
      headers: { 'X-Scope-OrgID': 'me' },
    }),
    arrived: async () => [...loki.streams.values()].flatMap((entries) => [...entries.values()]),
    expected: () => made,
  },
  slack: {
    ...endpoint({ url: slack.url, body_format: 'slack', text_template: '{n} {mail} {user} {price}' }),
    arrived: async () => slack.messages,
    expected: () => [`1 ${hash('a@x')}  1.10`, `seven ${hash('c@x')}  `, '5   1e2', '9 null  '],
  },
}

t.test('every kind of destination', async (t) => {
  await mariadb.query('CREATE TABLE sales (place varchar(80) PRIMARY KEY, n int, mail text, price double)')
  const connection = await nats.connect()
  await (await jetstreamManager(connection)).streams.add({ name: 'EVENTS', subjects: ['events.>'] })
  await connection.close()
  const ids = new Map<string, string>()
  for (const [name, { type, config, more }] of Object.entries(kinds)) {
    const body = {
      ...{ destination_type: type, destination_config: config, transform, on_permanent_error: 'park' },
      flush: { max_records: 100, max_bytes: 1_000_000, max_seconds: 1 },
      ...more,
    }
    ids.set(name, await created(api, `/v1/pipes/${pipeId}/destinations`, body, 'destination_id'))
  }
  const { msg_id } = await daemon.ingest(pipeId, `[${first.join(',')}]`)
  await daemon.ingest(pipeId, '[{"n":2}]')
  await daemon.ingest(pipeId, '[{"n":9,"user":{"mail":null}}]')
  for (const [name, { arrived, expected, isTyped = false }] of Object.entries(kinds))
    await t.test(name, async (t) => {
      const id = ids.get(name)!
      const lane = await until('it is through', async () => {
        const now = await daemon.lane(pipeId, id)
        return now.cursor_seq === now.head_seq && now.lane_state === 'idle' ? now : null
      })
      const parked = isTyped ? 2 : 1
      t.match(lane, {
        ...{ delivered_records: 5 - parked, filtered_records: 2, parked_records: parked },
        ...{ skipped_messages: 0, last_error: null },
      })
      t.strictSame(await arrived(msg_id), expected(msg_id))
      const path = `/v1/pipes/${pipeId}/destinations/${id}/parked`
      const list = Object((await api('GET', path)).body).parked
      t.match(list[0], { msg_id, record_index: 2, error: { code: 'filter_error' } })
      if (!isTyped) return
      t.match(list[1], { msg_id, record_index: 3 })
      const { text } = await api('GET', `${path}/${list[1].parked_id}`)
      t.ok(text.includes(first[3]!), 'it is kept as it was received')
    })
})
