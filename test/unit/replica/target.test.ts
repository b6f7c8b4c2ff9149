import t from 'tap'
import { ConfigError } from '../../../src/platform/config-error.ts'
import { replicaTarget } from '../../../src/replica/target.ts'
import { loadSettings, shownSetting } from '../../../src/settings/config.ts'
import { parseReplicaUrl } from '../../../src/settings/replica-settings.ts'

function settings(env: Record<string, string>) {
  return loadSettings({ env }).settings
}

function message(run: () => unknown): string {
  try {
    run()
    return 'none'
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
}

const keys = { PIPECTL_REPLICA_ACCESS_KEY: 'AKID', PIPECTL_REPLICA_SECRET_KEY: 'hidden' }

t.test('without replica.url there is no replica', async (t) => {
  t.equal(replicaTarget(settings({})), null)
  t.equal(replicaTarget(settings(keys)), null)
})

t.test('the replica is in a bucket of AWS, or of a compatible store', async (t) => {
  t.same(replicaTarget(settings({ PIPECTL_REPLICA_URL: 's3://backups/shop/one' })), {
    bucket: 'backups',
    prefix: 'shop/one/',
    region: 'us-east-1',
    endpoint: null,
    forcePathStyle: false,
    accessKey: null,
    secretKey: null,
    sessionToken: null,
    sse: null,
    kmsKeyId: null,
  })
  const store = {
    ...keys,
    PIPECTL_REPLICA_URL: 's3://backups',
    PIPECTL_REPLICA_ENDPOINT: 'https://store.example/',
    PIPECTL_REPLICA_REGION: 'eu-west-1',
    PIPECTL_REPLICA_SESSION_TOKEN: 'token',
    PIPECTL_REPLICA_SSE: 'aws:kms',
    PIPECTL_REPLICA_KMS_KEY_ID: 'key/1',
  }
  t.same(replicaTarget(settings(store)), {
    bucket: 'backups',
    prefix: '',
    region: 'eu-west-1',
    endpoint: 'https://store.example',
    forcePathStyle: true,
    accessKey: 'AKID',
    secretKey: 'hidden',
    sessionToken: 'token',
    sse: 'aws:kms',
    kmsKeyId: 'key/1',
  })
  const hosted = settings({ ...store, PIPECTL_REPLICA_FORCE_PATH_STYLE: 'false' })
  t.equal(replicaTarget(hosted)?.forcePathStyle, false)
  t.match(replicaTarget(hosted, { url: 's3://other/x', label: '--from' }), { bucket: 'other', prefix: 'x/' })
})

t.test('the secret key can be in a file', async (t) => {
  const dir = t.testdir({ good: 'hidden\n', bad: 'two words', empty: '' })
  const read = (file: string) =>
    replicaTarget(
      settings({
        PIPECTL_REPLICA_URL: 's3://backups',
        PIPECTL_REPLICA_ACCESS_KEY: 'AKID',
        PIPECTL_REPLICA_SECRET_KEY_FILE: `${dir}/${file}`,
      }),
    )
  t.equal(read('good')?.secretKey, 'hidden')
  t.match(
    message(() => read('missing')),
    /^replica\.secret_key_file: .*missing cannot be read \(ENOENT\)/,
  )
  for (const file of ['bad', 'empty'])
    t.match(
      message(() => read(file)),
      /must contain the secret key and nothing else$/,
    )
})

t.test('an address that is not of a bucket is named, and not repeated', async (t) => {
  t.same(parseReplicaUrl('s3://a-bucket/'), { bucket: 'a-bucket', prefix: '' })
  t.same(parseReplicaUrl('s3://a-bucket/b/c/'), { bucket: 'a-bucket', prefix: 'b/c/' })
  for (const url of [
    'backups',
    'http://backups',
    's3://',
    's3:///prefix',
    's3://key:hidden@backups/x',
    's3://backups//x',
    's3://backups/../x',
    's3://backups/a b',
    's3://backups/x?region=hidden',
    `s3://backups/${'x'.repeat(901)}`,
  ]) {
    const said = message(() => parseReplicaUrl(url, '--from'))
    t.match(said, /^--from: must be s3:\/\/BUCKET/, url)
    t.notMatch(said, /hidden/)
  }
  t.match(
    message(() => settings({ PIPECTL_REPLICA_URL: 'backups' })),
    /^PIPECTL_REPLICA_URL: must be s3:/,
  )
})

t.test('settings that contradict each other are rejected', async (t) => {
  const url = { PIPECTL_REPLICA_URL: 's3://backups' }
  const cluster = { PIPECTL_METADATA_URL: 'postgres://a/b', PIPECTL_BUFFER_NATS: 'a' }
  const wrong: [Record<string, string>, RegExp][] = [
    [
      { ...url, ...cluster },
      /^replica\.url: is for a single machine\. A node of a cluster keeps its log in NATS/,
    ],
    [{ PIPECTL_REPLICA_ACCESS_KEY: 'a' }, /^replica\.access_key: needs replica\.secret_key/],
    [{ PIPECTL_REPLICA_SECRET_KEY: 'a' }, /^replica\.secret_key: needs replica\.access_key/],
    [{ PIPECTL_REPLICA_SECRET_KEY_FILE: 'a' }, /^replica\.secret_key_file: needs replica\.access_key/],
    [{ PIPECTL_REPLICA_SESSION_TOKEN: 'a' }, /^replica\.session_token: needs replica\.access_key/],
    [{ ...keys, PIPECTL_REPLICA_SECRET_KEY_FILE: 'a' }, /^replica\.secret_key and .*: set one of them/],
    [{ PIPECTL_REPLICA_KMS_KEY_ID: 'a' }, /^replica\.kms_key_id: needs replica\.sse = "aws:kms"/],
    [{ PIPECTL_REPLICA_SSE: 'none' }, /^PIPECTL_REPLICA_SSE: must be one of AES256, aws:kms/],
    [{ PIPECTL_REPLICA_INTERVAL: '99ms' }, /^PIPECTL_REPLICA_INTERVAL: must be a duration .*from 0\.1 to 60/],
    [{ PIPECTL_REPLICA_INTERVAL: '2m' }, /from 0\.1 to 60/],
    [{ PIPECTL_REPLICA_INTERVAL: 'often' }, /from 0\.1 to 60/],
  ]
  for (const [env, text] of wrong)
    t.match(
      message(() => settings(env)),
      text,
    )
  t.equal(
    message(() => settings({ ...url, ...keys })),
    'none',
  )
  t.equal(
    message(() => settings(cluster)),
    'none',
    'a node of a cluster without a replica',
  )
})

t.test('the interval is in seconds and can be a fraction', async (t) => {
  for (const [text, seconds] of [
    ['1', 1],
    ['100ms', 0.1],
    ['0.5', 0.5],
    ['60s', 60],
    ['1m', 60],
  ] as const)
    t.equal(settings({ PIPECTL_REPLICA_INTERVAL: text })['replica.interval'], seconds, text)
  t.equal(settings({})['replica.interval'], 1)
})

t.test('secrets are neither shown nor repeated in an error', async (t) => {
  t.equal(shownSetting('replica.secret_key', 'hidden'), '[set]')
  t.equal(shownSetting('replica.session_token', 'hidden'), '[set]')
  t.equal(shownSetting('replica.secret_key', null), null)
  t.equal(shownSetting('replica.access_key', 'AKID'), 'AKID')
  const said = message(() => settings({ ...keys, PIPECTL_REPLICA_SECRET_KEY: 'hidden key' }))
  t.match(said, /^PIPECTL_REPLICA_SECRET_KEY: must be 1 to 2,000 visible ASCII characters/)
  t.notMatch(said, /hidden/)
})
