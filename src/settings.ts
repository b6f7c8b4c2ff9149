/**
 * The settings of the daemon: one table says everything about a setting: its key in the TOML file, its environment
 * variable, its flag, what is allowed, its default and one line of documentation. The example file, `--help` and the
 * README's table are checked against it.
 */

type Kind =
  | 'path'
  | 'address'
  | 'bytes'
  | 'seconds'
  | 'hours'
  | 'count'
  | 'boolean'
  | 'cidrs'
  | 'names'
  | 'enum'

export interface SettingDefinition {
  key: string
  env: string
  kind: Kind
  fallback: unknown
  values?: readonly string[]
  min?: number
  flag?: string
  /** Takes effect on SIGHUP, without a restart. */
  reloads?: boolean
  doc: string
}

const KiB = 1024
const MiB = 1024 * KiB
const GiB = 1024 * MiB

/** Every setting of the daemon, in the order the example file shows them. */
export const settingDefinitions = [
  {
    key: 'data_dir',
    env: 'PIPECTL_DATA_DIR',
    kind: 'path',
    fallback: './data',
    flag: '--data-dir',
    doc: 'Where everything is kept: metadata, buffer, sealing key.',
  },
  {
    key: 'listen',
    env: 'PIPECTL_LISTEN',
    kind: 'address',
    fallback: '127.0.0.1:8080',
    flag: '--listen',
    doc: 'Address of the management API, and of ingest and pull unless data_listen is set. Port 0: any free port.',
  },
  {
    key: 'data_listen',
    env: 'PIPECTL_DATA_LISTEN',
    kind: 'address',
    fallback: null,
    flag: '--data-listen',
    doc: 'A second address that serves ingest and pull (and health) alone; they leave the first one.',
  },
  {
    key: 'trusted_proxies',
    env: 'PIPECTL_TRUSTED_PROXIES',
    kind: 'cidrs',
    fallback: [],
    reloads: true,
    doc: 'CIDRs of proxies whose X-Forwarded-For is believed.',
  },
  {
    key: 'destination_db_ssl',
    env: 'DESTINATION_DB_SSL',
    kind: 'boolean',
    fallback: false,
    doc: 'TLS to destination databases on localhost and 127.0.0.1 too; other hosts always use it.',
  },
  {
    key: 'ingest.max_body_bytes',
    env: 'PIPECTL_INGEST_MAX_BODY_BYTES',
    kind: 'bytes',
    fallback: 10 * MiB,
    min: KiB,
    doc: 'Largest ingest body, as sent and after decompression.',
  },
  {
    key: 'ingest.max_in_flight_bytes',
    env: 'PIPECTL_INGEST_MAX_IN_FLIGHT_BYTES',
    kind: 'bytes',
    fallback: 128 * MiB,
    min: KiB,
    doc: 'Memory that the bodies of all requests under way may take together; beyond it ingest answers 503.',
  },
  {
    key: 'buffer.max_bytes',
    env: 'PIPECTL_BUFFER_MAX_BYTES',
    kind: 'bytes',
    fallback: 20 * GiB,
    min: MiB,
    doc: 'Largest size of the buffer; over it delivered history goes, then ingest answers 503.',
  },
  {
    key: 'buffer.min_free_bytes',
    env: 'PIPECTL_BUFFER_MIN_FREE_BYTES',
    kind: 'bytes',
    fallback: GiB,
    min: 0,
    doc: 'Free disk space below which the same happens.',
  },
  {
    key: 'buffer.segment_max_bytes',
    env: 'PIPECTL_BUFFER_SEGMENT_MAX_BYTES',
    kind: 'bytes',
    fallback: 256 * MiB,
    min: 64 * KiB,
    doc: 'A buffer file is sealed at this size.',
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
    doc: 'How long messages are kept that a lane has not delivered.',
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
    doc: 'How much delivered history is kept at most.',
  },
  {
    key: 'delivery.max_in_flight_bytes',
    env: 'PIPECTL_DELIVERY_MAX_IN_FLIGHT_BYTES',
    kind: 'bytes',
    fallback: 256 * MiB,
    min: MiB,
    doc: 'Memory that all batches under way may take together.',
  },
  {
    key: 'egress.allow',
    env: 'PIPECTL_EGRESS_ALLOW',
    kind: 'names',
    fallback: [],
    doc: 'CIDRs and host names that destinations may dial although egress.private is deny.',
  },
  {
    key: 'egress.deny',
    env: 'PIPECTL_EGRESS_DENY',
    kind: 'names',
    fallback: [],
    doc: 'CIDRs and host names that destinations may not dial; wins over allow.',
  },
  {
    key: 'egress.private',
    env: 'PIPECTL_EGRESS_PRIVATE',
    kind: 'enum',
    values: ['allow', 'deny'],
    fallback: 'allow',
    doc: 'Whether destinations may dial loopback and private addresses.',
  },
  {
    key: 'geoip.database',
    env: 'PIPECTL_GEOIP_DATABASE',
    kind: 'path',
    fallback: null,
    doc: 'City-level .mmdb file for the geolocation fields; looked at again when it is replaced.',
  },
  {
    key: 'secrets.key_file',
    env: 'PIPECTL_SECRETS_KEY_FILE',
    kind: 'path',
    fallback: null,
    doc: 'The key that seals stored secrets. Default: the systemd credential pipectl-sealing-key, else sealing.key in data_dir.',
  },
  {
    key: 'metrics.listen',
    env: 'PIPECTL_METRICS_LISTEN',
    kind: 'address',
    fallback: '127.0.0.1:9464',
    flag: '--metrics-listen',
    doc: 'Address of /metrics for Prometheus; "off" for none.',
  },
  {
    key: 'log.level',
    env: 'PIPECTL_LOG_LEVEL',
    kind: 'enum',
    values: ['trace', 'debug', 'info', 'warn', 'error', 'fatal'],
    fallback: 'info',
    flag: '--log-level',
    reloads: true,
    doc: 'Least severity that is logged.',
  },
  {
    key: 'log.format',
    env: 'PIPECTL_LOG_FORMAT',
    kind: 'enum',
    values: ['auto', 'json', 'pretty'],
    fallback: 'auto',
    flag: '--log-format',
    doc: 'auto: pretty on a terminal, JSON lines elsewhere.',
  },
] as const satisfies readonly SettingDefinition[]

export type SettingKey = (typeof settingDefinitions)[number]['key']

export interface ListenAddress {
  host: string
  port: number
}

/** The settings of one daemon, checked. */
export interface Settings {
  data_dir: string
  listen: ListenAddress
  data_listen: ListenAddress | null
  trusted_proxies: string[]
  destination_db_ssl: boolean
  'ingest.max_body_bytes': number
  'ingest.max_in_flight_bytes': number
  'buffer.max_bytes': number
  'buffer.min_free_bytes': number
  'buffer.segment_max_bytes': number
  'buffer.segment_max_seconds': number
  'buffer.undelivered_hours': number
  'buffer.delivered_hours': number
  'buffer.delivered_max_bytes': number
  'delivery.max_in_flight_bytes': number
  'egress.allow': string[]
  'egress.deny': string[]
  'egress.private': 'allow' | 'deny'
  'geoip.database': string | null
  'secrets.key_file': string | null
  'metrics.listen': ListenAddress | null
  'log.level': 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal'
  'log.format': 'auto' | 'json' | 'pretty'
}
