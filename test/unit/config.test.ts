import t from 'tap'
import { ConfigError, formatAddress, loadSettings } from '../../src/config.ts'
import { settingDefinitions } from '../../src/settings.ts'

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
  t.throws(() => loadSettings({ file: `${dir}/c.toml` }), /^buffer\.max_bytes \(in .*\): must be a size/)
})

t.test('keys and environment variables are unique', async (t) => {
  const definitions = settingDefinitions
  t.equal(new Set(definitions.map((d) => d.key)).size, definitions.length)
  t.equal(new Set(definitions.map((d) => d.env)).size, definitions.length)
})
