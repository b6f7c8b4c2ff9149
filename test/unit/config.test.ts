import { writeFileSync } from 'node:fs'
import t from 'tap'
import { ConfigError } from '../../src/platform/config-error.ts'
import { formatAddress, loadSettings, shownSetting } from '../../src/settings/config.ts'
import { settingDefinitions } from '../../src/settings/settings.ts'
import { clusterSettings } from '../../src/stores/cluster-settings.ts'

function messageOf(read: () => unknown): string {
  try {
    read()
  } catch (error) {
    return error instanceof Error ? error.message : ''
  }
  return ''
}

t.test('without flag, environment and file every setting has its default', async (t) => {
  const { settings, origins } = loadSettings({})
  t.match(settings, {
    listen: { host: '127.0.0.1', port: 8080 },
    data_listen: null,
    'ingest.max_body_bytes': 10_485_760,
    'buffer.max_bytes': 21_474_836_480,
    'buffer.min_free_bytes': 1_073_741_824,
    'buffer.undelivered_hours': 168,
    'buffer.delivered_hours': 24,
    destination_db_ssl: false,
    destination_db_cleartext_auth: false,
    destination_db_tls_pin: true,
  })
  t.match(settings.data_dir, /\/data$/)
  t.equal(new Set(Object.values(origins)).size, 1)
})

t.test('flag wins over environment, environment over file', async (t) => {
  const dir = t.testdir({
    'pipectl.toml': 'listen = "127.0.0.1:1"\n[buffer]\nmax_bytes = "3GiB"\nmin_free_bytes = 5\n',
  })
  const file = `${dir}/pipectl.toml`
  const env = { PIPECTL_LISTEN: '[::1]:2', PIPECTL_BUFFER_MAX_BYTES: '2g' }
  const { settings, origins } = loadSettings({ file, env, flags: { listen: 'localhost:3' } })
  t.equal(formatAddress(settings.listen), 'localhost:3')
  t.equal(settings['buffer.max_bytes'], 2 * 1024 ** 3)
  t.equal(settings['buffer.min_free_bytes'], 5)
  t.match(origins, {
    listen: 'flag',
    'buffer.max_bytes': 'environment',
    'buffer.min_free_bytes': 'file',
    data_dir: 'default',
  })
  t.equal(formatAddress(loadSettings({ file, env }).settings.listen), '[::1]:2')
})

t.test('a wrong setting is one line that names it and says what is allowed', async (t) => {
  const wrong: [Parameters<typeof loadSettings>[0], RegExp][] = [
    [{ env: { PIPECTL_LISTEN: '8080' } }, /^PIPECTL_LISTEN: must be host:port .* not "8080"$/],
    [{ env: { PIPECTL_LISTEN: '127.0.0.1:65536' } }, /^PIPECTL_LISTEN: must be host:port/],
    [{ flags: { 'log.level': 'loud' } }, /^--log-level: must be one of trace, debug/],
    [{ env: { DESTINATION_DB_SSL: 'maybe' } }, /^DESTINATION_DB_SSL: must be true or false/],
    [{ env: { PIPECTL_BUFFER_MAX_BYTES: '12 bananas' } }, /^PIPECTL_BUFFER_MAX_BYTES: must be a size/],
    [{ env: { PIPECTL_BUFFER_MAX_BYTES: '10' } }, /at least 1048576/],
    [{ env: { PIPECTL_TRUSTED_PROXIES: '10.0.0.0/8,nonsense' } }, /"nonsense" is not an address or a CIDR/],
    [{ env: { PIPECTL_EGRESS_DENY: '10.0.0.0/33' } }, /PIPECTL_EGRESS_DENY/],
    [{ env: { PIPECTL_EGRESS_DENY: '10.0.0.1:5432' } }, /PIPECTL_EGRESS_DENY/],
    [{ env: { PIPECTL_EGRESS_ALLOW: '127.0.0.1:99999' } }, /"127.0.0.1:99999" is not an address/],
    [{ env: { PIPECTL_EGRESS_ALLOW: '10.0.0.0/8:22' } }, /PIPECTL_EGRESS_ALLOW/],
    [{ file: '/nonexistent.toml' }, /cannot be read \(ENOENT\)/],
  ]
  for (const [sources, message] of wrong) {
    t.throws(() => loadSettings(sources), message)
    try {
      loadSettings(sources)
    } catch (error) {
      t.type(error, ConfigError)
      t.notMatch((error as Error).message, /\n/)
    }
  }
  const dir = t.testdir({
    'a.toml': 'lisen = "x"',
    'b.toml': 'listen = \n',
    'c.toml': '[buffer]\nmax_bytes = true',
  })
  t.throws(() => loadSettings({ file: `${dir}/a.toml` }), /^lisen \(in .*a\.toml\): no such setting/)
  t.throws(() => loadSettings({ file: `${dir}/b.toml` }), /not valid TOML at line 1/)
  for (const [text, shown] of [
    ['listen = 127.0.0.1:8080', ': listen = 127.0.0.1:8080 (a string needs quotes)'],
    ['data_dir = /var/lib/pipectl', ': data_dir = /var/lib/pipectl (a string needs quotes)'],
    ['[metadata]\nurl = postgres://me:secret@db/x', ': url = … (a string needs quotes)'],
    ['listen = "127.0.0.1', ': listen = "127.0.0.1'],
  ] as const) {
    writeFileSync(`${dir}/d.toml`, text)
    t.ok(messageOf(() => loadSettings({ file: `${dir}/d.toml` })).endsWith(shown), shown)
  }
  t.throws(() => loadSettings({ file: `${dir}/c.toml` }), /^buffer\.max_bytes \(in .*\): must be a size/)
})

t.test('an exception for destinations can have a port', async (t) => {
  const listed = ['127.0.0.1:5432', '[::1]:5432', '::1', 'db.corp:3306', '*.lan', '10.0.0.0/8']
  const { settings } = loadSettings({ env: { PIPECTL_EGRESS_ALLOW: listed.join() } })
  t.same(settings['egress.allow'], listed)
})

t.test('the servers of a cluster: URLs as people write them', async (t) => {
  const url = 'postgres://pipectl:pw@db.example:5433/pipectl?sslmode=require'
  const read = (nats: string) =>
    loadSettings({ env: { PIPECTL_METADATA_URL: url, PIPECTL_BUFFER_NATS: nats } }).settings
  t.equal(read('nats://a')['metadata.url'], url)
  t.same(read('nats://a')['buffer.nats'], ['nats://a:4222'])
  t.same(read('a, b:4333,[::1]')['buffer.nats'], ['nats://a:4222', 'nats://b:4333', 'nats://[::1]:4222'])
  t.same(read('tls://me:p%40w@a,b')['buffer.nats'], ['tls://me:p%40w@a:4222', 'tls://b:4222'])
  const dir = t.testdir({
    'pipectl.toml': `[metadata]\nurl = "${url}"\n[buffer]\nnats = ["nats://a", "nats://b"]\n[cluster]\nreplicas = 3\n`,
  })
  const { settings } = loadSettings({ file: `${dir}/pipectl.toml` })
  t.same(settings['buffer.nats'], ['nats://a:4222', 'nats://b:4222'])
  t.match(settings, { 'cluster.replicas': 3, 'cluster.name': 'pipectl', 'node.name': null })
  t.match(loadSettings({}).settings, { 'metadata.url': null, 'buffer.nats': null, 'cluster.replicas': 1 })
})

t.test('a wrong URL of a cluster is named, and not repeated: a password may be in it', async (t) => {
  const good = { PIPECTL_METADATA_URL: 'postgres://a/b', PIPECTL_BUFFER_NATS: 'a' }
  const wrong: [Record<string, string>, RegExp][] = [
    [
      { PIPECTL_METADATA_URL: 'mysql://me:hidden@a/b' },
      /^PIPECTL_METADATA_URL: must be a URL such as postgres:/,
    ],
    [{ PIPECTL_METADATA_URL: 'postgres://me:hidden@a' }, /^PIPECTL_METADATA_URL: must be/],
    [{ PIPECTL_METADATA_URL: 'postgres://me:hidden%@a/b' }, /^PIPECTL_METADATA_URL: must be/],
    [{ PIPECTL_METADATA_URL: 'hidden' }, /^PIPECTL_METADATA_URL: must be/],
    [{ PIPECTL_BUFFER_NATS: 'http://me:hidden@a' }, /^PIPECTL_BUFFER_NATS: must be nats:/],
    [{ PIPECTL_BUFFER_NATS: 'nats://me:hidden@a,nats://you:hidden@b' }, /with one user, such as /],
    [{ PIPECTL_BUFFER_NATS: 'a,,b' }, /^PIPECTL_BUFFER_NATS: must be/],
    [{ PIPECTL_CLUSTER_REPLICAS: '2' }, /^PIPECTL_CLUSTER_REPLICAS: must be 1 or 3, not "2"$/],
    [{ PIPECTL_CLUSTER_NAME: 'A b' }, /^PIPECTL_CLUSTER_NAME: must be 1 to 32 of a-z/],
    [{ PIPECTL_NODE_NAME: 'a/b' }, /^PIPECTL_NODE_NAME: must be 1 to 64 letters/],
  ]
  for (const [env, message] of wrong) {
    try {
      loadSettings({ env: { ...good, ...env } })
      t.fail(JSON.stringify(env))
    } catch (error) {
      t.type(error, ConfigError)
      t.match((error as Error).message, message)
      t.notMatch((error as Error).message, /hidden/)
    }
  }
})

t.test('metadata and buffer are both of a cluster, or neither', async (t) => {
  t.throws(
    () => loadSettings({ env: { PIPECTL_METADATA_URL: 'postgres://a/b' } }),
    /^buffer\.nats: is not set, but metadata\.url is: set both for a node of a cluster, or neither for a single machine$/,
  )
  t.throws(
    () => loadSettings({ env: { PIPECTL_BUFFER_NATS: 'a' } }),
    /^metadata\.url: is not set, but buffer\.nats is/,
  )
})

t.test('what is shown of the servers of a cluster has no password', async (t) => {
  t.equal(
    shownSetting('metadata.url', 'postgres://me:hidden@a:1/b?sslpassword=hidden&sslmode=require'),
    'postgres://me:***@a:1/b?sslpassword=***&sslmode=require',
  )
  t.same(shownSetting('buffer.nats', ['nats://me:hidden@a:4222', 'nats://b:4222']), [
    'nats://me:***@a:4222',
    'nats://b:4222',
  ])
  t.equal(shownSetting('metadata.url', null), null)
  t.equal(shownSetting('node.name', 'a'), 'a')
})

t.test(
  'a node takes user and password out of the URLs of its NATS servers, and its name from the host',
  async (t) => {
    const env = { PIPECTL_METADATA_URL: 'postgres://me:pw@a/b', PIPECTL_BUFFER_NATS: 'nats://me:p%40w@a,b' }
    const cluster = clusterSettings(loadSettings({ env }).settings)
    t.match(cluster, {
      name: 'pipectl',
      replicas: 1,
      metadata: { kind: 'postgresql', url: 'postgres://me:pw@a/b' },
      nats: { servers: ['nats://a:4222', 'nats://b:4222'], user: 'me', password: 'p@w', caFile: null },
    })
    t.match(cluster?.nodeName, /^[A-Za-z0-9._-]+$/)
    const named = { ...env, PIPECTL_NODE_NAME: 'node-a', PIPECTL_BUFFER_NATS: 'a' }
    t.match(clusterSettings(loadSettings({ env: named }).settings), {
      nodeName: 'node-a',
      nats: { user: null, password: null, name: 'pipectl pipectl node-a' },
    })
    t.equal(clusterSettings(loadSettings({}).settings), null)
  },
)

t.test('keys and environment variables are unique', async (t) => {
  const definitions = settingDefinitions
  t.equal(new Set(definitions.map((d) => d.key)).size, definitions.length)
  t.equal(new Set(definitions.map((d) => d.env)).size, definitions.length)
})
