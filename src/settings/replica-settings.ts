/** The settings of the replica: where it is, the account, and how often it is written. */
import { ConfigError } from '../platform/config-error.ts'

const visible = /^[\x21-\x7e]{1,2000}$/
const visibleText = '1 to 2,000 visible ASCII characters'

export const replicaDefinitions = [
  {
    key: 'replica.url',
    env: 'PIPECTL_REPLICA_URL',
    kind: 'replica_url',
    fallback: null,
    doc: 'The bucket, and the prefix in it, where the replica of this data directory is: s3://bucket/prefix. One data directory per prefix. Not for a node of a cluster.',
  },
  {
    key: 'replica.endpoint',
    env: 'PIPECTL_REPLICA_ENDPOINT',
    kind: 'url',
    fallback: null,
    doc: 'The URL of an S3-compatible store. Default: AWS.',
  },
  {
    key: 'replica.region',
    env: 'PIPECTL_REPLICA_REGION',
    kind: 'name',
    pattern: /^[A-Za-z0-9_-]{1,100}$/,
    allowed: '1 to 100 letters, digits, _ and -',
    fallback: 'us-east-1',
    doc: 'The region of the bucket.',
  },
  {
    key: 'replica.access_key',
    env: 'PIPECTL_REPLICA_ACCESS_KEY',
    kind: 'name',
    pattern: visible,
    allowed: visibleText,
    fallback: null,
    doc: 'The access key. Default: the AWS credentials of this machine (environment, profile or instance role).',
  },
  {
    key: 'replica.secret_key',
    env: 'PIPECTL_REPLICA_SECRET_KEY',
    kind: 'secret',
    pattern: visible,
    allowed: visibleText,
    fallback: null,
    doc: 'The secret key of replica.access_key. It is never shown.',
  },
  {
    key: 'replica.secret_key_file',
    env: 'PIPECTL_REPLICA_SECRET_KEY_FILE',
    kind: 'path',
    fallback: null,
    doc: 'A file with the secret key, for example a systemd credential, in place of replica.secret_key.',
  },
  {
    key: 'replica.session_token',
    env: 'PIPECTL_REPLICA_SESSION_TOKEN',
    kind: 'secret',
    pattern: /^[\x21-\x7e]{1,10000}$/,
    allowed: '1 to 10,000 visible ASCII characters',
    fallback: null,
    doc: 'The session token of temporary keys. It is never shown. Keys that expire stop the replica: prefer the credentials of the machine, which are renewed.',
  },
  {
    key: 'replica.sse',
    env: 'PIPECTL_REPLICA_SSE',
    kind: 'enum',
    values: ['AES256', 'aws:kms'],
    fallback: null,
    doc: 'Encryption by the store, in addition to that by pipectl. Default: that of the bucket.',
  },
  {
    key: 'replica.kms_key_id',
    env: 'PIPECTL_REPLICA_KMS_KEY_ID',
    kind: 'name',
    pattern: visible,
    allowed: visibleText,
    fallback: null,
    doc: 'The KMS key for replica.sse aws:kms.',
  },
  {
    key: 'replica.force_path_style',
    env: 'PIPECTL_REPLICA_FORCE_PATH_STYLE',
    kind: 'boolean',
    fallback: null,
    doc: 'Whether URLs are https://store/bucket/key instead of https://bucket.store/key. Default: true with replica.endpoint, false for AWS.',
  },
  {
    key: 'replica.interval',
    env: 'PIPECTL_REPLICA_INTERVAL',
    kind: 'interval',
    fallback: 1,
    min: 0.1,
    max: 60,
    doc: 'How often changes are written to the replica: what the loss of this machine can lose. Each write is a request that stores charge for. 100ms to 60s.',
  },
  {
    key: 'replica.mode',
    env: 'PIPECTL_REPLICA_MODE',
    kind: 'enum',
    values: ['async', 'sync'],
    fallback: 'async',
    doc: 'When records are acknowledged: async, when they are on the disk of this machine; sync, when they are in the replica too.',
  },
  {
    key: 'replica.timeout',
    env: 'PIPECTL_REPLICA_TIMEOUT',
    kind: 'interval',
    fallback: 5,
    min: 1,
    max: 60,
    doc: 'With replica.mode sync: how long a request waits for the replica before it gets 503. 1s to 60s.',
  },
  {
    key: 'replica.auto_promote',
    env: 'PIPECTL_REPLICA_AUTO_PROMOTE',
    kind: 'boolean',
    fallback: false,
    doc: 'Whether a standby takes over by itself after three missed heartbeats. Set it on both machines: a primary that cannot reach the bucket for that long accepts no records.',
  },
  {
    key: 'replica.heartbeat',
    env: 'PIPECTL_REPLICA_HEARTBEAT',
    kind: 'interval',
    fallback: 10,
    min: 1,
    max: 300,
    doc: 'With replica.auto_promote: the longest time between two writes to the replica. 1s to 5m.',
  },
] as const

export interface ReplicaSettings {
  'replica.url': string | null
  'replica.endpoint': string | null
  'replica.region': string
  /** Only together with a secret key. */
  'replica.access_key': string | null
  /** This one or the file, or neither. */
  'replica.secret_key': string | null
  'replica.secret_key_file': string | null
  'replica.session_token': string | null
  'replica.sse': 'AES256' | 'aws:kms' | null
  'replica.kms_key_id': string | null
  'replica.force_path_style': boolean | null
  /** Seconds; can be a fraction. */
  'replica.interval': number
  'replica.mode': 'async' | 'sync'
  /** Seconds, as are those below. */
  'replica.timeout': number
  'replica.auto_promote': boolean
  'replica.heartbeat': number
}

/** Throws ConfigError for settings that contradict each other. */
export function checkReplicaSettings(settings: ReplicaSettings, isCluster: boolean): void {
  const isSet = (key: keyof ReplicaSettings) => settings[key] !== null
  if (isCluster && isSet('replica.url'))
    throw new ConfigError(
      'replica.url: is for a single machine. A node of a cluster keeps its log in NATS and its metadata in PostgreSQL, and has nothing of its own to replicate: unset replica.url, and use the replication of those servers',
    )
  const secretKeys = (['replica.secret_key', 'replica.secret_key_file'] as const).filter(isSet)
  const [secretKey] = secretKeys
  if (secretKeys.length > 1) throw new ConfigError(`${secretKeys.join(' and ')}: set one of them`)
  if (isSet('replica.access_key') && secretKey === undefined)
    throw new ConfigError(
      'replica.access_key: needs replica.secret_key or replica.secret_key_file; without keys, the AWS credentials of this machine are used',
    )
  const dependent = isSet('replica.session_token') ? 'replica.session_token' : secretKey
  if (dependent !== undefined && !isSet('replica.access_key'))
    throw new ConfigError(`${dependent}: needs replica.access_key`)
  if (isSet('replica.kms_key_id') && settings['replica.sse'] !== 'aws:kms')
    throw new ConfigError('replica.kms_key_id: needs replica.sse = "aws:kms"')
}

export interface ReplicaAddress {
  bucket: string
  /** Empty, or with a slash at its end. */
  prefix: string
}

/** Throws ConfigError, which names the setting or flag (`label`) and does not repeat the text: it can contain a password. */
export function parseReplicaUrl(url: string, label = 'replica.url'): ReplicaAddress {
  const [, bucket, path = ''] = /^s3:\/\/([a-z0-9][a-z0-9._-]{1,253}[a-z0-9])(?:\/(.*))?$/i.exec(url) ?? []
  const parts = path.replace(/\/$/, '').split('/')
  const isPrefix =
    path === '' || parts.every((part) => /^[a-zA-Z0-9!_.*'()=+@-]+$/.test(part) && !/^\.+$/.test(part))
  if (bucket === undefined || !isPrefix || path.length > maxPrefixCharacters)
    throw new ConfigError(
      `${label}: must be s3://BUCKET or s3://BUCKET/PREFIX, with letters, digits and !_.*'()=+@- in the prefix`,
    )
  return { bucket, prefix: path === '' ? '' : `${parts.join('/')}/` }
}

/** The keys of S3 have at most 1,024 bytes; the names of the replica need 60. */
const maxPrefixCharacters = 900
