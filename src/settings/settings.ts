/**
 * The table of the daemon's settings. Each entry has the key in the TOML file, the environment variable, the flag,
 * valid values, the default and one line of documentation. Tests compare the example file, `--help` and the README's
 * table with it.
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import { type ReplicaSettings, replicaDefinitions } from './replica-settings.ts'

type Kind =
  | 'path'
  | 'address'
  | 'url'
  | 'bytes'
  | 'seconds'
  | 'hours'
  | 'count'
  | 'workers'
  | 'boolean'
  | 'cidrs'
  | 'names'
  | 'targets'
  | 'enum'
  | 'database_url'
  | 'nats_servers'
  | 'replicas'
  | 'name'
  | 'secret'
  | 'replica_url'
  | 'interval'

export interface SettingDefinition {
  key: string
  env: string
  kind: Kind
  fallback: unknown
  values?: readonly string[]
  min?: number
  max?: number
  /** The allowed characters of a name, as a pattern and in words. */
  pattern?: RegExp
  allowed?: string
  flag?: string
  /** Can be changed with SIGHUP, without a restart. */
  reloads?: boolean
  doc: string
}

const KiB = 1024
const MiB = 1024 * KiB
const GiB = 1024 * MiB

/** Every setting of the daemon, in the order of the example file. */
export const settingDefinitions = [
  {
    key: 'data_dir',
    env: 'PIPECTL_DATA_DIR',
    kind: 'path',
    fallback: './data',
    flag: '--data-dir',
    doc: 'The directory of metadata, buffer and sealing key.',
  },
  {
    key: 'listen',
    env: 'PIPECTL_LISTEN',
    kind: 'address',
    fallback: '127.0.0.1:8080',
    flag: '--listen',
    doc: 'The address of the management API, and of ingest and pull unless data_listen is set. Port 0 selects any free port.',
  },
  {
    key: 'data_listen',
    env: 'PIPECTL_DATA_LISTEN',
    kind: 'address',
    fallback: null,
    flag: '--data-listen',
    doc: 'A separate address for ingest and pull (and health). They are then not served on listen.',
  },
  {
    key: 'public_url',
    env: 'PIPECTL_PUBLIC_URL',
    kind: 'url',
    fallback: null,
    doc: 'The URL at which clients reach the management API, for the OpenAPI document. Default: the Host of the request.',
  },
  {
    key: 'public_data_url',
    env: 'PIPECTL_PUBLIC_DATA_URL',
    kind: 'url',
    fallback: null,
    doc: 'The URL of ingest and pull, if it differs from public_url.',
  },
  {
    key: 'dashboard',
    env: 'PIPECTL_DASHBOARD',
    kind: 'enum',
    values: ['on', 'off'],
    fallback: 'on',
    doc: 'Whether the web dashboard is served at /dashboard of listen (under the host of public_url, the listen address and localhost), and the guides at /docs.',
  },
  {
    key: 'trusted_proxies',
    env: 'PIPECTL_TRUSTED_PROXIES',
    kind: 'cidrs',
    fallback: [],
    reloads: true,
    doc: 'CIDRs of proxies from which X-Forwarded-For and X-Forwarded-Proto are trusted.',
  },
  {
    key: 'destination_db_ssl',
    env: 'DESTINATION_DB_SSL',
    kind: 'boolean',
    fallback: false,
    doc: 'Whether connections to destination databases on localhost and 127.0.0.1 use TLS too. Connections to other hosts always do.',
  },
  {
    key: 'destination_db_cleartext_auth',
    env: 'DESTINATION_DB_CLEARTEXT_AUTH',
    kind: 'boolean',
    fallback: false,
    doc: 'Whether the password of a database can be sent over TLS with an unverified certificate: for PostgreSQL without SCRAM, and the full authentication of MySQL.',
  },
  {
    key: 'destination_db_tls_pin',
    env: 'DESTINATION_DB_TLS_PIN',
    kind: 'boolean',
    fallback: true,
    doc: 'Whether the first connection over TLS pins the key of a database server, so that a server with another key is rejected. Set it to false for failover between servers with different keys, and for servers that create a key at each start.',
  },
  {
    key: 'tls.cert_file',
    env: 'PIPECTL_TLS_CERT_FILE',
    kind: 'path',
    fallback: null,
    reloads: true,
    doc: 'PEM file with the certificate and its chain, for HTTPS on listen and data_listen. It is loaded again when it changes. Such a listener runs on node:https.',
  },
  {
    key: 'tls.key_file',
    env: 'PIPECTL_TLS_KEY_FILE',
    kind: 'path',
    fallback: null,
    reloads: true,
    doc: 'PEM file with the private key, without a passphrase and not readable by other users.',
  },
  {
    key: 'tls.data_cert_file',
    env: 'PIPECTL_TLS_DATA_CERT_FILE',
    kind: 'path',
    fallback: null,
    reloads: true,
    doc: 'A separate certificate for data_listen. Without tls.cert_file, only data_listen uses HTTPS.',
  },
  {
    key: 'tls.data_key_file',
    env: 'PIPECTL_TLS_DATA_KEY_FILE',
    kind: 'path',
    fallback: null,
    reloads: true,
    doc: 'PEM file with the private key of tls.data_cert_file.',
  },
  {
    key: 'http.engine',
    env: 'PIPECTL_HTTP_ENGINE',
    kind: 'enum',
    values: ['auto', 'uws', 'node'],
    fallback: 'auto',
    doc: 'The HTTP server: uws (uWebSockets, fast), node (node:http, stricter, about 0.7 of the speed), auto (uws, or node if no binding of uWebSockets loads).',
  },
  {
    key: 'http.max_connections_per_address',
    env: 'PIPECTL_HTTP_MAX_CONNECTIONS_PER_ADDRESS',
    kind: 'count',
    fallback: 0,
    min: 0,
    doc: 'The maximum number of connections from one address (IPv6: a /64 network); more are closed. trusted_proxies are not limited. 0: no limit. Needs http.engine node.',
  },
  {
    key: 'ingest.workers',
    env: 'PIPECTL_INGEST_WORKERS',
    kind: 'workers',
    fallback: 'auto',
    min: 1,
    max: resourceLimits.ingestWorkers,
    doc: 'The number of ingest threads, each with its own connections on the same address. 1: only the main thread. auto: one less than the number of cores, at most 8; 1 outside Linux and without uWebSockets.',
  },
  {
    key: 'ingest.max_body_bytes',
    env: 'PIPECTL_INGEST_MAX_BODY_BYTES',
    kind: 'bytes',
    fallback: 10 * MiB,
    min: KiB,
    doc: 'The maximum size of an ingest body, as sent and after decompression.',
  },
  {
    key: 'ingest.max_in_flight_bytes',
    env: 'PIPECTL_INGEST_MAX_IN_FLIGHT_BYTES',
    kind: 'bytes',
    fallback: 96 * MiB,
    min: KiB,
    doc: 'The maximum memory for the bodies of all requests in progress; beyond it ingest returns 503. It is shared: one pipe gets at most three quarters of it.',
  },
  {
    key: 'ingest.max_records_per_request',
    env: 'PIPECTL_INGEST_MAX_RECORDS_PER_REQUEST',
    kind: 'count',
    fallback: resourceLimits.recordsPerRequest,
    min: 1,
    doc: 'The maximum number of records in a request; more are rejected with 413, whatever the limits of the pipe are.',
  },
  {
    key: 'ingest.max_keys_per_record',
    env: 'PIPECTL_INGEST_MAX_KEYS_PER_RECORD',
    kind: 'count',
    fallback: resourceLimits.keysPerRecord,
    min: 1,
    doc: 'The maximum number of keys in a record, including nested objects; more are rejected with 400.',
  },
  {
    key: 'buffer.max_bytes',
    env: 'PIPECTL_BUFFER_MAX_BYTES',
    kind: 'bytes',
    fallback: 20 * GiB,
    min: MiB,
    doc: 'The maximum size of the buffer. Delivered messages are dropped first, then ingest returns 503: from 80 % on for pipes over their share, at 100 % for all.',
  },
  {
    key: 'buffer.min_free_bytes',
    env: 'PIPECTL_BUFFER_MIN_FREE_BYTES',
    kind: 'bytes',
    fallback: GiB,
    min: 0,
    doc: 'The minimum of free disk space: below it, the same happens as at buffer.max_bytes.',
  },
  {
    key: 'buffer.segment_max_bytes',
    env: 'PIPECTL_BUFFER_SEGMENT_MAX_BYTES',
    kind: 'bytes',
    fallback: 256 * MiB,
    min: 64 * KiB,
    doc: 'A buffer file is sealed at this size, or at 262,144 messages.',
  },
  {
    key: 'buffer.segment_max_seconds',
    env: 'PIPECTL_BUFFER_SEGMENT_MAX_SECONDS',
    kind: 'seconds',
    fallback: 3600,
    min: 1,
    doc: 'A buffer file is sealed at this age.',
  },
  {
    key: 'buffer.undelivered_hours',
    env: 'PIPECTL_BUFFER_UNDELIVERED_HOURS',
    kind: 'hours',
    fallback: 168,
    min: 0,
    doc: 'How long undelivered messages are kept.',
  },
  {
    key: 'buffer.delivered_hours',
    env: 'PIPECTL_BUFFER_DELIVERED_HOURS',
    kind: 'hours',
    fallback: 24,
    min: 0,
    doc: 'How long delivered messages are kept for rewind.',
  },
  {
    key: 'buffer.delivered_max_bytes',
    env: 'PIPECTL_BUFFER_DELIVERED_MAX_BYTES',
    kind: 'bytes',
    fallback: GiB,
    min: 0,
    doc: 'The maximum size of delivered messages that are kept for rewind.',
  },
  {
    key: 'buffer.scrub_hours',
    env: 'PIPECTL_BUFFER_SCRUB_HOURS',
    kind: 'hours',
    fallback: 24,
    min: 0,
    doc: 'How often sealed buffer files are read slowly and compared with their checksums; 0: never.',
  },
  {
    key: 'buffer.nats',
    env: 'PIPECTL_BUFFER_NATS',
    kind: 'nats_servers',
    fallback: null,
    doc: 'Cluster, together with metadata.url: the NATS servers whose JetStream contains the buffer, separated by commas. The URLs can contain a user and password.',
  },
  {
    key: 'buffer.nats_credentials',
    env: 'PIPECTL_BUFFER_NATS_CREDENTIALS',
    kind: 'path',
    fallback: null,
    doc: 'A NATS credentials file (.creds), if the servers require one.',
  },
  {
    key: 'buffer.nats_ca',
    env: 'PIPECTL_BUFFER_NATS_CA',
    kind: 'path',
    fallback: null,
    doc: "PEM file with the CA of the NATS servers' certificates. Default: the CAs of the system.",
  },
  {
    key: 'metadata.url',
    env: 'PIPECTL_METADATA_URL',
    kind: 'database_url',
    fallback: null,
    doc: 'Cluster, together with buffer.nats: the PostgreSQL database of the metadata, the same for every node. A password in it is never shown.',
  },
  {
    key: 'cluster.name',
    env: 'PIPECTL_CLUSTER_NAME',
    kind: 'name',
    pattern: /^[a-z0-9_-]{1,32}$/,
    allowed: '1 to 32 of a-z, 0-9, _ and -',
    fallback: 'pipectl',
    doc: 'The name of the cluster, part of the names of its stream and subjects in NATS. The same on every node.',
  },
  {
    key: 'cluster.replicas',
    env: 'PIPECTL_CLUSTER_REPLICAS',
    kind: 'replicas',
    fallback: 1,
    doc: 'The number of NATS servers that store each message: 1, or 3 to lose nothing while two of three work. The same on every node.',
  },
  {
    key: 'node.name',
    env: 'PIPECTL_NODE_NAME',
    kind: 'name',
    pattern: /^[A-Za-z0-9._-]{1,64}$/,
    allowed: '1 to 64 letters, digits, ., _ and -',
    fallback: null,
    doc: 'The name of this node in its cluster. Default: the name of the host.',
  },
  ...replicaDefinitions,
  {
    key: 'delivery.max_in_flight_bytes',
    env: 'PIPECTL_DELIVERY_MAX_IN_FLIGHT_BYTES',
    kind: 'bytes',
    fallback: 128 * MiB,
    min: MiB,
    doc: 'The maximum memory for all batches in progress, including messages that are read ahead.',
  },
  {
    key: 'parked.days',
    env: 'PIPECTL_PARKED_DAYS',
    kind: 'count',
    fallback: 30,
    min: 1,
    max: 36_500,
    doc: 'The number of days that parked records (rejected or skipped) are kept.',
  },
  {
    key: 'parked.max_bytes',
    env: 'PIPECTL_PARKED_MAX_BYTES',
    kind: 'bytes',
    fallback: GiB,
    min: 0,
    doc: 'The maximum size of all parked records, counted with one KiB more for each. At this size lanes block instead of parking, and a skip is rejected. With several workspaces, none gets more than half.',
  },
  {
    key: 'workspace.max_pipes',
    env: 'PIPECTL_WORKSPACE_MAX_PIPES',
    kind: 'count',
    fallback: resourceLimits.pipesPerWorkspace,
    min: 1,
    doc: 'The maximum number of pipes in a workspace; more are rejected with 409.',
  },
  {
    key: 'workspace.max_destinations',
    env: 'PIPECTL_WORKSPACE_MAX_DESTINATIONS',
    kind: 'count',
    fallback: resourceLimits.destinationsPerWorkspace,
    min: 1,
    doc: 'The maximum number of destinations in a workspace.',
  },
  {
    key: 'workspace.max_api_keys',
    env: 'PIPECTL_WORKSPACE_MAX_API_KEYS',
    kind: 'count',
    fallback: resourceLimits.apiKeysPerWorkspace,
    min: 1,
    doc: 'The maximum number of active API keys in a workspace.',
  },
  {
    key: 'workspace.max_origins',
    env: 'PIPECTL_WORKSPACE_MAX_ORIGINS',
    kind: 'count',
    fallback: resourceLimits.originsPerWorkspace,
    min: 1,
    doc: 'The maximum number of allowed origins in a workspace.',
  },
  {
    key: 'egress.allow',
    env: 'PIPECTL_EGRESS_ALLOW',
    kind: 'targets',
    fallback: [],
    doc: 'CIDRs, addresses and host names that destinations can connect to even if private addresses are denied. Addresses and names can have a port: 127.0.0.1:5432.',
  },
  {
    key: 'egress.deny',
    env: 'PIPECTL_EGRESS_DENY',
    kind: 'names',
    fallback: [],
    doc: 'CIDRs and host names that destinations must not connect to. Overrides allow.',
  },
  {
    key: 'egress.private',
    env: 'PIPECTL_EGRESS_PRIVATE',
    kind: 'enum',
    values: ['auto', 'allow', 'deny'],
    fallback: 'auto',
    doc: 'Whether destinations can connect to loopback and private addresses. auto: allow with one workspace, deny with two or more.',
  },
  {
    key: 'object_store.machine_credentials',
    env: 'PIPECTL_OBJECT_STORE_MACHINE_CREDENTIALS',
    kind: 'names',
    fallback: [],
    doc: 'Buckets that destinations without keys write to with the AWS credentials of this machine.',
  },
  {
    key: 'geoip.database',
    env: 'PIPECTL_GEOIP_DATABASE',
    kind: 'path',
    fallback: null,
    doc: 'City-level .mmdb file for the geolocation fields; it is loaded again when it is replaced.',
  },
  {
    key: 'secrets.key_file',
    env: 'PIPECTL_SECRETS_KEY_FILE',
    kind: 'path',
    fallback: null,
    doc: 'The file of the key that encrypts stored secrets. Default: the systemd credential pipectl-sealing-key, else sealing.key in data_dir.',
  },
  {
    key: 'metrics.listen',
    env: 'PIPECTL_METRICS_LISTEN',
    kind: 'address',
    fallback: '127.0.0.1:9464',
    flag: '--metrics-listen',
    doc: 'The address of /metrics for Prometheus; "off" disables it.',
  },
  {
    key: 'metrics.worker_label',
    env: 'PIPECTL_METRICS_WORKER_LABEL',
    kind: 'boolean',
    fallback: false,
    doc: 'Whether the metrics of ingest are shown per thread (label worker, from 0) instead of as a sum.',
  },
  {
    key: 'log.level',
    env: 'PIPECTL_LOG_LEVEL',
    kind: 'enum',
    values: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
    fallback: 'info',
    flag: '--log-level',
    reloads: true,
    doc: 'The minimum level of logged messages.',
  },
  {
    key: 'log.format',
    env: 'PIPECTL_LOG_FORMAT',
    kind: 'enum',
    values: ['auto', 'json', 'pretty'],
    fallback: 'auto',
    flag: '--log-format',
    doc: 'The log format. auto: pretty on a terminal, JSON lines otherwise.',
  },
] as const satisfies readonly SettingDefinition[]

export type SettingKey = (typeof settingDefinitions)[number]['key']

export interface ListenAddress {
  host: string
  port: number
}

/** The validated settings of one daemon. */
export interface Settings extends ReplicaSettings {
  data_dir: string
  listen: ListenAddress
  data_listen: ListenAddress | null
  /** Without a slash at the end. */
  public_url: string | null
  public_data_url: string | null
  dashboard: 'on' | 'off'
  trusted_proxies: string[]
  destination_db_ssl: boolean
  destination_db_cleartext_auth: boolean
  destination_db_tls_pin: boolean
  /** Both settings of a pair, or neither. */
  'tls.cert_file': string | null
  'tls.key_file': string | null
  /** Only with `data_listen`. */
  'tls.data_cert_file': string | null
  'tls.data_key_file': string | null
  'http.engine': 'auto' | 'uws' | 'node'
  'http.max_connections_per_address': number
  'ingest.workers': 'auto' | number
  'ingest.max_body_bytes': number
  'ingest.max_in_flight_bytes': number
  'ingest.max_records_per_request': number
  'ingest.max_keys_per_record': number
  'buffer.max_bytes': number
  'buffer.min_free_bytes': number
  'buffer.segment_max_bytes': number
  'buffer.segment_max_seconds': number
  'buffer.undelivered_hours': number
  'buffer.delivered_hours': number
  'buffer.delivered_max_bytes': number
  'buffer.scrub_hours': number
  /** URLs, each with its port, and with the user and password if configured. */
  'buffer.nats': string[] | null
  'buffer.nats_credentials': string | null
  'buffer.nats_ca': string | null
  /** With the user and password if configured. Set together with `buffer.nats`, or not at all. */
  'metadata.url': string | null
  'cluster.name': string
  'cluster.replicas': 1 | 3
  'node.name': string | null
  'delivery.max_in_flight_bytes': number
  'parked.days': number
  'parked.max_bytes': number
  'workspace.max_pipes': number
  'workspace.max_destinations': number
  'workspace.max_api_keys': number
  'workspace.max_origins': number
  'egress.allow': string[]
  'egress.deny': string[]
  'egress.private': 'auto' | 'allow' | 'deny'
  'object_store.machine_credentials': string[]
  'geoip.database': string | null
  'secrets.key_file': string | null
  'metrics.listen': ListenAddress | null
  'metrics.worker_label': boolean
  'log.level': 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal'
  'log.format': 'auto' | 'json' | 'pretty'
}
