/** Destinations over HTTP on the real daemon: docs/dev/contract.md#destinations, docs/dev/contract.md#column-rules. */
import t from 'tap'
import { type DestinationType, destinationTypes } from '../../src/contract/destination.ts'
import { wordsOf } from '../../src/contract/destination-words.ts'
import { sharedDaemon } from '../support/shared-daemon.ts'
import {
  checkedApi,
  created,
  databaseConfig,
  databaseDestination,
  errorsIn,
  httpDestination,
  minimalDestination,
  objectStoreDestination,
  pullDestination,
  secretMark,
  unknownId,
} from './management-client.ts'

const daemon = await sharedDaemon()
t.teardown(() => daemon.close())
const api = checkedApi(daemon)
const pipeId = await created(api, '/v1/pipes', { pipe_name: 'main' }, 'pipe_id')
const base = `/v1/pipes/${pipeId}/destinations`
const attach = (body: unknown) => created(api, base, body, 'destination_id')
/** The destination as GET shows it. */
const shown = async (id: string) => Object((await api('GET', `${base}/${id}`)).body.destination)
/** The errors of a create that must be rejected. */
const refused = async (body: unknown) => errorsIn(await api('POST', base, body))
const withConfig = (destination: { destination_config: object }, config: object) => ({
  ...destination,
  destination_config: { ...destination.destination_config, ...config },
})
const withoutConfigKey = (destination: { destination_config: object }, key: string) => ({
  ...destination,
  destination_config: Object.fromEntries(
    Object.entries(destination.destination_config).filter(([name]) => name !== key),
  ),
})

t.test('a new destination is active, with the defaults and a lane, of every type', async (t) => {
  for (const type of destinationTypes) {
    const destination = await shown(await attach(minimalDestination(type)))
    t.match(destination, {
      pipe_id: pipeId,
      destination_type: type,
      destination_status: 'active',
      destination_max_retry_seconds: 86_400,
      lane: { lane_state: 'idle', pending_messages: 0, attempts: 0, blocking_msg_id: null, last_error: null },
    })
    t.equal('columns' in destination, wordsOf(type).isDatabase, `columns on databases alone: ${type}`)
  }
  t.match(await attach({ destination_type: 'destination_pull' }), /-/, 'a pull destination needs no config')
})

t.test('destination_type: required and one of those there are', async (t) => {
  t.same(await refused({ destination_config: {} }), { destination_type: 'is required' })
  for (const destination_type of ['database', '', null, 5, 'destination_kafka'])
    t.same(Object.keys(await refused({ destination_type, destination_config: {} })), ['destination_type'])
})

t.test('destination_config: required and an object', async (t) => {
  for (const type of destinationTypes.filter((type) => type !== 'destination_pull'))
    t.same(await refused({ destination_type: type }), { destination_config: 'is required' })
  for (const destination_config of ['x', 5, [], true])
    for (const destination_type of destinationTypes)
      t.same(Object.keys(await refused({ destination_type, destination_config })), ['destination_config'])
})

t.test('required config keys are named one by one', async (t) => {
  for (const key of ['host', 'database', 'username', 'password', 'table'])
    t.same(await refused(withoutConfigKey(databaseDestination, key)), {
      [`destination_config.${key}`]: 'is required',
    })
  t.same(await refused(withoutConfigKey(minimalDestination('destination_object_store'), 'bucket')), {
    'destination_config.bucket': 'is required',
  })
  t.same(await refused(withoutConfigKey(minimalDestination('destination_http_endpoint'), 'url')), {
    'destination_config.url': 'is required',
  })
  for (const key of ['url', 'subject'])
    t.same(await refused(withoutConfigKey(minimalDestination('destination_nats'), key)), {
      [`destination_config.${key}`]: 'is required',
    })
})

t.test('destination_max_retry_seconds: whole, at least 1', async (t) => {
  const id = await attach({ ...pullDestination, destination_max_retry_seconds: 1 })
  t.equal((await shown(id)).destination_max_retry_seconds, 1)
  for (const destination_max_retry_seconds of [0, -1, 1.5, '60', null, 2 ** 53]) {
    t.same(Object.keys(await refused({ ...pullDestination, destination_max_retry_seconds })), [
      'destination_max_retry_seconds',
    ])
    const change = await api('PATCH', `${base}/${id}`, { destination_max_retry_seconds })
    t.same(Object.keys(errorsIn(change)), ['destination_max_retry_seconds'])
  }
  const change = await api('PATCH', `${base}/${id}`, { destination_max_retry_seconds: 7 })
  t.match(change.body, { destination: { destination_max_retry_seconds: 7 } })
})

t.test('unknown fields are rejected, in the body and in the config', async (t) => {
  for (const type of destinationTypes) {
    t.same(await refused({ ...minimalDestination(type), destination_status: 'active' }), {
      destination_status: 'Unknown field.',
    })
    t.same(await refused(withConfig(minimalDestination(type), { nonsense: 1 })), {
      'destination_config.nonsense': 'Unknown field.',
    })
  }
  const prototype =
    '{"destination_type":"destination_pull","destination_config":{"__proto__":{"ack_mode":"auto"}}}'
  t.same(Object.keys(await refused(prototype)), ['destination_config.__proto__'])
})

const wrongConfigs: [type: DestinationType, key: string, values: unknown[]][] = [
  ['destination_database', 'host', ['', 5, 'a b', 'a/b', '/var/run/postgresql', 'x'.repeat(256), 'u@h']],
  ['destination_database', 'port', [0, 65_536, 1.5, '0', '65536', 'http', '', '-1', true, {}]],
  ['destination_database', 'database', ['', 5]],
  ['destination_database', 'username', ['', 5]],
  ['destination_database', 'password', [5, {}, '[redacted]']],
  [
    'destination_database',
    'table',
    ['', 5, 'a.b.c', '.a', 'a.', '.', 't'.repeat(64), `s.${'t'.repeat(64)}`, 'a\nb'],
  ],
  ['destination_database', 'dialect', ['oracle', '', 5]],
  ['destination_database', 'sql_dialect', ['sqlite', 5]],
  ['destination_object_store', 'bucket', ['', 5, 'a/b', 'a b']],
  ['destination_object_store', 'region', ['', 5]],
  [
    'destination_object_store',
    'endpoint',
    ['', 5, 'minio:9000', 'ftp://a', 'http://', 'http://u:p@host', '//x'],
  ],
  ['destination_object_store', 'force_path_style', ['yes', 1]],
  [
    'destination_object_store',
    'key_template',
    ['', 5, '{pipe_name}', '{first_seq}/{year}', '{first_seq', 'x'.repeat(901)],
  ],
  ['destination_object_store', 'format', ['csv', 5]],
  ['destination_object_store', 'compression', ['zip', 5, 'zstd', 'snappy']],
  ['destination_object_store', 'storage_class', ['', 5]],
  ['destination_object_store', 'sse', ['aes', 5]],
  ['destination_object_store', 'kms_key_id', ['a-key']],
  [
    'destination_http_endpoint',
    'url',
    ['', 5, 'example.test', 'ftp://a/b', 'http://', 'https:\\\\a.test\\x', 'file:///etc'],
  ],
  ['destination_http_endpoint', 'auth_header', [5, 'a\r\nb', '[redacted]']],
  ['destination_http_endpoint', 'method', ['GET', 'post', 5]],
  ['destination_http_endpoint', 'body_format', ['xml', 5]],
  ['destination_http_endpoint', 'labels', ['x', 5, { app: 'shop' }]],
  ['destination_http_endpoint', 'text_template', [5, 'x'.repeat(2001), '{id}']],
  ['destination_http_endpoint', 'compression', ['br', 5]],
  ['destination_http_endpoint', 'timeout_ms', [999, 60_001, 1500.5, '1500']],
  [
    'destination_http_endpoint',
    'signing_secret',
    [
      5,
      'abc',
      'whsec_',
      'whsec_!!!',
      `whsec_${'A'.repeat(31)}`,
      `whsec_${Buffer.alloc(65).toString('base64')}`,
    ],
  ],
  [
    'destination_http_endpoint',
    'headers',
    ['x', [], 5, Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`x-${n}`, '']))],
  ],
  [
    'destination_nats',
    'url',
    ['', 5, 'nats.test', 'http://a', 'nats://', 'nats://u:p@a', 'nats://a/b', 'nats://a:0', 'nats://a:65536'],
  ],
  [
    'destination_nats',
    'url',
    ['nats://a,', 'nats://a,tls://b', 'nats://a b', Array(9).fill('nats://a').join()],
  ],
  [
    'destination_nats',
    'subject',
    ['', 5, 'a b', 'a.*', '>', '.a', 'a..b', 'a.', '{pipe}', 'a{', 'é', 'x'.repeat(201)],
  ],
  ['destination_nats', 'subject', ['$JS.API.STREAM.DELETE.EVENTS', '$SYS.x', '_INBOX.x']],
  ['destination_nats', 'stream', ['', 5, 'a.b', 'a b', 'a>']],
  ['destination_nats', 'nkey_seed', [5, 'SU', `SA${'A'.repeat(56)}`, '[redacted]']],
  ['destination_nats', 'credentials', [5, 'no', '[redacted]']],
  ['destination_nats', 'tls_ca', ['', 5, 'no PEM']],
  ['destination_nats', 'tls_verify', ['yes', 1, false]],
  ['destination_nats', 'timeout_ms', [999, 60_001, 1500.5, '1500']],
  ['destination_nats', 'headers', ['x', [], 5]],
  ['destination_sqlite', 'file', ['', 5, '../shop', 'a/b', 'a.b', '.a', '-a', 'a b', 'é', 'x'.repeat(65)]],
  ['destination_sqlite', 'table', ['', 5, 'sqlite_schema', '_pipectl_lanes', 'a\u0000b', 'x'.repeat(129)]],
  ['destination_sqlite', 'size_limit_mib', [0, -1, 1.5, '10', 4_194_305]],
  ['destination_sqlite', 'exactly_once', ['yes', 1]],
  ['destination_pull', 'ack_mode', ['manual', 5]],
  ['destination_pull', 'lease_seconds', [4, 601, 10.5, '30']],
]

t.test('a wrong config value is an error on its own path', async (t) => {
  for (const [type, key, values] of wrongConfigs)
    for (const value of values)
      t.same(
        Object.keys(await refused(withConfig(minimalDestination(type), { [key]: value }))),
        [`destination_config.${key}`],
        `${type} ${key} ${JSON.stringify(value).slice(0, 60)}`,
      )
})

const rightConfigs: [type: DestinationType, config: Record<string, unknown>][] = [
  ...[1, 65_535, '1', '65535', '05432'].map((port): [DestinationType, Record<string, unknown>] => [
    'destination_database',
    { port },
  ]),
  ...['postgresql', 'postgres', 'pg', 'mysql', 'mariadb'].map(
    (dialect): [DestinationType, Record<string, unknown>] => [
      'destination_database',
      { dialect, sql_dialect: dialect, table: 'app.events' },
    ],
  ),
  ['destination_database', { table: 't'.repeat(63), host: 'db.internal.test' }],
  ['destination_database', { table: 'ein "Name" mit Ümläut', password: '' }],
  [
    'destination_object_store',
    {
      region: 'eu-central-1',
      endpoint: 'http://127.0.0.1:9000/path',
      force_path_style: false,
      key_template: '{pipe_name}/{yyyy}/{first_seq}.{ext}',
      format: 'json_array',
      compression: 'none',
      storage_class: 'STANDARD_IA',
      sse: 'aws:kms',
      kms_key_id: 'a-key',
    },
  ],
  ['destination_object_store', { access_key: 'AKIA', sse: 'AES256' }],
  [
    'destination_http_endpoint',
    {
      headers: { 'X-Tenant': 'a b', Accept: '*/*' },
      method: 'PUT',
      body_format: 'ndjson',
      compression: 'gzip',
      timeout_ms: 60_000,
    },
  ],
  ['destination_http_endpoint', { body_format: 'json_object', timeout_ms: 1000 }],
  ['destination_http_endpoint', { body_format: 'es_bulk' }],
  ['destination_http_endpoint', { body_format: 'loki', labels: { app: 'shop', _b2: 'x' } }],
  ['destination_http_endpoint', { body_format: 'slack', text_template: '{id}' }],
  ['destination_nats', { url: 'tls://a.test,tls://[::1]:4223', tls_verify: false, subject: 'a.{pipe_name}' }],
  ['destination_sqlite', { file: 'Shop_2-a', table: 'a "b', exactly_once: true, size_limit_mib: 4_194_304 }],
  ['destination_pull', { ack_mode: 'explicit', lease_seconds: 600 }],
  ['destination_pull', { ack_mode: 'auto', lease_seconds: 5 }],
]

t.test('every config key is taken and shown as it was given', async (t) => {
  for (const [type, config] of rightConfigs) {
    const secret = 'access_key' in config ? { secret_key: secretMark } : {}
    const stored = await shown(await attach(withConfig(minimalDestination(type), { ...config, ...secret })))
    for (const [key, value] of Object.entries(config))
      t.same(stored.destination_config[key], key === 'password' ? '[redacted]' : value, `${type} ${key}`)
  }
})

t.test('headers: not those that the service or the connection sets, and no line breaks', async (t) => {
  const forbidden = [
    'Host',
    'content-type',
    'Content-Length',
    'connection',
    'Transfer-Encoding',
    'webhook-id',
  ]
  const malformed = ['', 'a b', 'a:b', 'ä', 'a\nb', 'Authorization', 'upgrade', 'expect']
  for (const name of [...forbidden, ...malformed]) {
    const errors = await refused(
      withConfig(minimalDestination('destination_http_endpoint'), { headers: { [name]: 'x' } }),
    )
    t.same(Object.keys(errors), [`destination_config.headers.${name}`], name)
  }
  for (const value of ['a\r\nEvil: 1', 'a\nb', '\0', '→', 5, null]) {
    const errors = await refused(
      withConfig(minimalDestination('destination_http_endpoint'), { headers: { 'x-a': value } }),
    )
    t.same(Object.keys(errors), ['destination_config.headers.x-a'], JSON.stringify(value))
  }
  const twice = { 'X-A': '1', 'x-a': '2' }
  t.same(
    Object.keys(
      await refused(withConfig(minimalDestination('destination_http_endpoint'), { headers: twice })),
    ),
    ['destination_config.headers.x-a'],
  )
})

t.test('the bad token of a key_template is named', async (t) => {
  const errors = await refused(
    withConfig(minimalDestination('destination_object_store'), { key_template: '{first_seq}{hour}' }),
  )
  t.match(errors['destination_config.key_template'], /\{hour\}/)
})

t.test(
  'access_key and secret_key: both or neither; session_token needs them; kms_key_id needs aws:kms',
  async (t) => {
    const object = minimalDestination('destination_object_store')
    t.same(Object.keys(await refused(withConfig(object, { access_key: 'AKIA' }))), [
      'destination_config.secret_key',
    ])
    t.same(Object.keys(await refused(withConfig(object, { secret_key: 'x' }))), [
      'destination_config.access_key',
    ])
    t.same(Object.keys(await refused(withConfig(object, { session_token: 'x' }))), [
      'destination_config.access_key',
    ])
    t.same(Object.keys(await refused(withConfig(object, { sse: 'AES256', kms_key_id: 'x' }))), [
      'destination_config.kms_key_id',
    ])
  },
)

t.test('a target that the egress policy rejects is rejected when it is saved', async (t) => {
  const metadataAddress = '169.254.169.254'
  t.same(Object.keys(await refused(withConfig(databaseDestination, { host: metadataAddress }))), [
    'destination_config.host',
  ])
  const url = `http://${metadataAddress}/latest/meta-data`
  t.same(Object.keys(await refused(withConfig(minimalDestination('destination_http_endpoint'), { url }))), [
    'destination_config.url',
  ])
  t.same(
    Object.keys(await refused(withConfig(minimalDestination('destination_object_store'), { endpoint: url }))),
    ['destination_config.endpoint'],
  )
  const id = await attach(minimalDestination('destination_http_endpoint'))
  const change = await api('PATCH', `${base}/${id}`, { destination_config: { url } })
  t.same(Object.keys(errorsIn(change)), ['destination_config.url'])
})

const column = { column_name: 'id', column_type: 'string' }

t.test('columns: stored with every key, in their order', async (t) => {
  const columns = [
    {
      column_name: 'id',
      column_type: 'string',
      source_field: 'ID',
      semantic_role: 'dedupe_id',
      nullable: false,
    },
    { column_name: 'at', column_type: 'string', semantic_role: 'record_ts' },
    { column_name: 'got', column_type: 'string', semantic_role: 'received_at', source_field: null },
    ...['number', 'boolean', 'object', 'array', 'null'].map((column_type) => ({
      column_name: `c_${column_type}`,
      column_type,
      source_field: '',
      semantic_role: null,
    })),
  ]
  const destination = await shown(await attach({ ...databaseDestination, columns }))
  const filled = { source_field: null, semantic_role: null, nullable: true }
  t.same(
    destination.columns,
    columns.map((given) => ({
      ...filled,
      ...given,
      source_field: ('source_field' in given && given.source_field) || null,
    })),
  )
  t.same((await shown(await attach(databaseDestination))).columns, [], 'none given, none stored')
})

t.test('a wrong column is an error on its own path', async (t) => {
  const cases: [columns: unknown, paths: string[]][] = [
    [[], ['columns']],
    ['id', ['columns']],
    [[5], ['columns.0']],
    [[{ column_type: 'string' }], ['columns.0.column_name']],
    [[{ column_name: 'id' }], ['columns.0.column_type']],
    [[{ ...column, column_name: '' }], ['columns.0.column_name']],
    [[{ ...column, column_name: '  ' }], ['columns.0.column_name']],
    [[{ ...column, column_name: 'c'.repeat(64) }], ['columns.0.column_name']],
    [[{ ...column, column_type: 'uuid' }], ['columns.0.column_type']],
    [[{ ...column, semantic_role: 'id' }], ['columns.0.semantic_role']],
    [[{ ...column, nullable: 'no' }], ['columns.0.nullable']],
    [[{ ...column, source_field: 5 }], ['columns.0.source_field']],
    [[column, { ...column, other: 1 }], ['columns.1.other']],
    [[column, column], ['columns.1.column_name']],
    [
      [
        { ...column, semantic_role: 'dedupe_id' },
        { ...column, column_name: 'b', semantic_role: 'dedupe_id' },
      ],
      ['columns.1.semantic_role'],
    ],
  ]
  const id = await attach({ ...databaseDestination, columns: [column] })
  for (const [columns, paths] of cases) {
    t.same(Object.keys(await refused({ ...databaseDestination, columns })), paths, JSON.stringify(columns))
    // On PATCH an empty list removes all mappings.
    if (Array.isArray(columns) && columns.length === 0) continue
    t.same(Object.keys(errorsIn(await api('PATCH', `${base}/${id}`, { columns }))), paths)
  }
  const upper = [column, { ...column, column_name: 'ID' }]
  await attach({ ...databaseDestination, columns: upper })
  const mysql = withConfig(databaseDestination, { dialect: 'mysql' })
  t.same(
    Object.keys(await refused({ ...mysql, columns: upper })),
    ['columns.1.column_name'],
    'MySQL ignores case',
  )
})

t.test('columns belong to tables and Parquet objects only', async (t) => {
  for (const type of destinationTypes.filter((type) => !wordsOf(type).isDatabase)) {
    t.same(Object.keys(await refused({ ...minimalDestination(type), columns: [column] })), ['columns'])
    const id = await attach(minimalDestination(type))
    t.same(Object.keys(errorsIn(await api('PATCH', `${base}/${id}`, { columns: [column] }))), ['columns'])
  }
})

t.test('format parquet requires columns, which define its schema', async (t) => {
  const { destination_config } = minimalDestination('destination_object_store')
  const parquet = {
    ...minimalDestination('destination_object_store'),
    destination_config: { ...destination_config, format: 'parquet', compression: 'zstd' },
  }
  const needed = { columns: 'must map at least one column: format "parquet" gets its schema from them' }
  t.same(await refused(parquet), needed)
  const id = await attach({ ...parquet, columns: [column] })
  const destination = await shown(id)
  t.match(destination, { columns: [column], destination_config: { format: 'parquet', compression: 'zstd' } })
  t.notOk('tls_pin' in destination)
  const patch = async (body: object) => errorsIn(await api('PATCH', `${base}/${id}`, body))
  t.same(await patch({ columns: [] }), needed)
  t.same(await patch({ destination_config: { format: 'ndjson', compression: 'gzip' } }), {
    columns: 'require format "parquet": send [] with any other format',
  })
  t.same(await patch({ destination_config: { format: 'ndjson' }, columns: [] }), {
    'destination_config.compression': 'must be gzip or none: zstd requires format "parquet"',
  })

  const text = { column_type: 'string' as const }
  const cases: [columns: object[], errors: Record<string, string>][] = [
    [
      [column, { ...column, column_name: column.column_name.toUpperCase() }],
      { 'columns.1.column_name': 'is already mapped by columns.0' },
    ],
    [
      [{ column_name: 'at', column_type: 'boolean', semantic_role: 'received_at' }],
      { 'columns.0.column_type': 'must be string or number with the role received_at' },
    ],
    [
      [{ column_name: 'id', column_type: 'number', semantic_role: 'dedupe_id' }],
      { 'columns.0.column_type': 'must be string with the role dedupe_id and no source_field' },
    ],
    [
      Array.from({ length: 6 }, (_, at) => ({ ...text, column_name: `c${at}`, source_field: 'key' })),
      { 'columns.4.source_field': 'is already the key of 4 columns' },
    ],
    [
      Array.from({ length: 257 }, (_, at) => ({ ...text, column_name: `c${at}` })),
      { columns: 'must be at most 256 columns with format "parquet"' },
    ],
  ]
  for (const [columns, errors] of cases) t.same(await refused({ ...parquet, columns }), errors)

  await api('PATCH', `${base}/${id}`, {
    destination_config: { format: 'ndjson', compression: null },
    columns: [],
  })
  const plain = await shown(id)
  t.notOk('columns' in plain)
  t.same((await api('GET', `${base}/${id}`)).status, 200)
})

t.test('PATCH with columns replaces all mappings; without, they stay (rule 2)', async (t) => {
  const id = await attach({ ...databaseDestination, columns: [column, { ...column, column_name: 'b' }] })
  const names = async () =>
    (await shown(id)).columns.map((found: { column_name: string }) => found.column_name)
  await api('PATCH', `${base}/${id}`, { destination_config: { table: 'other' } })
  t.same(await names(), ['id', 'b'])
  await api('PATCH', `${base}/${id}`, { columns: [{ ...column, column_name: 'c' }] })
  t.same(await names(), ['c'])
})

t.test('PATCH: destination_config is shallow-merged over the stored one (rule 1)', async (t) => {
  const id = await attach(withConfig(databaseDestination, { port: 5433 }))
  const change = await api('PATCH', `${base}/${id}`, { destination_config: { table: 'app.other' } })
  t.same(Object(change.body.destination).destination_config, {
    ...databaseConfig,
    password: '[redacted]',
    port: 5433,
    table: 'app.other',
  })
  t.same((await shown(id)).destination_config, Object(change.body.destination).destination_config)
  const nested = await attach(
    withConfig(minimalDestination('destination_http_endpoint'), { headers: { a: '1', b: '2' } }),
  )
  const headers = await api('PATCH', `${base}/${nested}`, { destination_config: { headers: { c: '3' } } })
  t.same(
    Object(headers.body.destination).destination_config.headers,
    { c: '3' },
    'shallow: headers are replaced',
  )
})

t.test('PATCHes at once: none writes over what another has changed', async (t) => {
  const id = await attach(databaseDestination)
  const change = {
    host: 'db.test',
    port: 6000,
    database: 'other',
    username: 'else',
    table: 's.t',
    dialect: 'pg',
  }
  const answers = await Promise.all(
    Object.entries(change).map(([key, value]) =>
      api('PATCH', `${base}/${id}`, {
        // Another server needs the password again.
        destination_config: { [key]: value, password: databaseConfig.password },
      }),
    ),
  )
  for (const answer of answers) t.equal(answer.status, 200)
  t.same((await shown(id)).destination_config, { ...change, password: '[redacted]' })
})

t.test('PATCH: null removes an optional key, a required one is still required', async (t) => {
  const id = await attach(withConfig(databaseDestination, { port: 5433, dialect: 'pg' }))
  const path = `${base}/${id}`
  const { password } = databaseConfig
  await api('PATCH', path, { destination_config: { port: null, dialect: null, password } })
  t.same((await shown(id)).destination_config, { ...databaseConfig, password: '[redacted]' })
  for (const key of ['host', 'password', 'table'])
    t.same(errorsIn(await api('PATCH', path, { destination_config: { [key]: null } })), {
      [`destination_config.${key}`]: 'is required',
    })
  t.same(
    (await shown(id)).destination_config,
    { ...databaseConfig, password: '[redacted]' },
    'nothing changed',
  )
})

t.test('PATCH: the merged config is checked as a whole', async (t) => {
  const id = await attach(objectStoreDestination)
  const path = `${base}/${id}`
  t.same(Object.keys(errorsIn(await api('PATCH', path, { destination_config: { access_key: null } }))), [
    'destination_config.access_key',
  ])
  const removed = { access_key: null, secret_key: null, session_token: null }
  const change = await api('PATCH', path, { destination_config: removed })
  t.same(Object.keys(Object(change.body.destination).destination_config).sort(), ['bucket', 'endpoint'])
  for (const [field, value] of [
    ['destination_type', 'destination_pull'],
    ['destination_status', 'blocked'],
    ['destination_config', 'x'],
    ['start_from', 'now'],
  ])
    t.same(Object.keys(errorsIn(await api('PATCH', path, { [String(field)]: value }))), [field])
})

t.test('secrets are write-only: present as [redacted] in every response, absent when not set', async (t) => {
  const cases: [body: { destination_config: object }, keys: string[]][] = [
    [databaseDestination, ['password']],
    [objectStoreDestination, ['secret_key', 'session_token']],
    [httpDestination, ['auth_header', 'signing_secret']],
  ]
  for (const [body, keys] of cases) {
    const id = await attach(body)
    const path = `${base}/${id}`
    const answers = [
      Object((await api('GET', path)).body.destination),
      Object((await api('PATCH', path, { destination_max_retry_seconds: 5 })).body.destination),
      Object((await api('GET', `/v1/pipes/${pipeId}`)).body.destinations).find(
        (found: { destination_id: string }) => found.destination_id === id,
      ),
    ]
    for (const { destination_config } of answers)
      for (const [key, value] of Object.entries(body.destination_config))
        t.equal(destination_config[key], keys.includes(key) ? '[redacted]' : value, key)
  }
  const bare = await shown(await attach(minimalDestination('destination_http_endpoint')))
  t.same(bare.destination_config, minimalDestination('destination_http_endpoint').destination_config)
})

t.test('DELETE: 204, then 404 destination_not_found', async (t) => {
  const id = await attach(pullDestination)
  t.equal((await api('DELETE', `${base}/${id}`)).status, 204)
  t.equal((await api('DELETE', `${base}/${id}`)).body.error, 'destination_not_found')
  t.equal((await api('GET', `${base}/${id}`)).body.error, 'destination_not_found')
})

t.test('PATCH …/status: active or blocked, echoed, seen on the destination and its lane', async (t) => {
  const id = await attach(pullDestination)
  const path = `${base}/${id}/status`
  for (const destination_status of ['blocked', 'blocked', 'active', 'active']) {
    t.same((await api('PATCH', path, { destination_status })).body, { destination_status })
    const destination = await shown(id)
    t.equal(destination.destination_status, destination_status)
    t.equal(destination.lane.lane_state === 'blocked', destination_status === 'blocked')
  }
  t.same(errorsIn(await api('PATCH', path, {})), { destination_status: 'is required' })
  for (const destination_status of ['paused', '', null, 1])
    t.same(Object.keys(errorsIn(await api('PATCH', path, { destination_status }))), ['destination_status'])
  t.same(Object.keys(errorsIn(await api('PATCH', path, { destination_status: 'active', other: 1 }))), [
    'other',
  ])
})

t.test("unknown, malformed and other pipes' destination ids: 404 destination_not_found", async (t) => {
  const otherPipe = await created(api, '/v1/pipes', { pipe_name: 'other' }, 'pipe_id')
  const id = await attach(pullDestination)
  const paths = [
    `${base}/${unknownId}`,
    `${base}/not-a-uuid`,
    `/v1/pipes/${unknownId}/destinations/${id}`,
    `/v1/pipes/not-a-uuid/destinations/${id}`,
    `/v1/pipes/${otherPipe}/destinations/${id}`,
  ]
  for (const path of paths)
    for (const [method, tail, body] of [
      ['GET', '', undefined],
      ['PATCH', '', {}],
      ['DELETE', '', undefined],
      ['PATCH', '/status', { destination_status: 'active' }],
      ['POST', '/skip', undefined],
      ['POST', '/retry-now', undefined],
      ['POST', '/reset-pin', undefined],
      ['GET', '/blocking-message', undefined],
      ['POST', '/rewind', { to: 'earliest' }],
    ] as const)
      t.equal(
        (await api(method, `${path}${tail}`, body)).body.error,
        'destination_not_found',
        `${method} ${path}${tail}`,
      )
  t.equal((await shown(id.toUpperCase())).destination_id, id)
})

t.test('POST …/destinations/test: the same body as a create, nothing is stored', async (t) => {
  const count = async () => Object((await api('GET', `/v1/pipes/${pipeId}`)).body.destinations).length
  const before = await count()
  const answer = await api('POST', `${base}/test`, { ...databaseDestination, start_from: 'earliest' })
  t.equal(answer.status, 200)
  const refusedTest = await api('POST', `${base}/test`, { destination_type: 'destination_database' })
  t.same(errorsIn(refusedTest), { destination_config: 'is required' })
  t.equal(await count(), before)
})
