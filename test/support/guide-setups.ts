/**
 * The servers that a guide assumes, by the name in its info string (`sh setup=NAME`): real ones, started for this
 * guide only. `env` holds the variables that a setup block may export; the guide shows values of its own.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { TestAuthority } from './certificates.ts'
import { createWorkspace, startDaemon, type TestDaemon } from './daemon.ts'
import { startHttpSink } from './http-sink.ts'
import { startMariadb } from './mariadb.ts'
import { startNats } from './nats.ts'
import { startPostgres, type TestPostgres } from './postgres.ts'
import { startS3 } from './s3.ts'
import { startClickHouseSink, startIndexSink, startLokiSink, startSlackSink } from './vendor-sinks.ts'

export interface Started {
  env: Record<string, string>
  stop(): Promise<unknown>
}

/** `directory`: of this guide, for files of the server's own. */
export type Setup = (directory: string) => Promise<Started>

export const setups: Record<string, Setup> = {
  /** A daemon with a fresh data directory and one workspace. */
  daemon: async () => {
    const daemon = await startDaemon()
    return { env: environmentOf(daemon, daemon.apiKey), stop: () => daemon.close() }
  },
  /** A daemon that speaks HTTPS, with a certificate of an authority of its own, and one workspace. */
  'https-daemon': async () => {
    const authority = new TestAuthority()
    const { certFile, keyFile } = authority.issue()
    const daemon = await startDaemon({
      env: { PIPECTL_TLS_CERT_FILE: certFile, PIPECTL_TLS_KEY_FILE: keyFile },
    })
    const env = {
      NODE_EXTRA_CA_CERTS: authority.caFile,
      PIPECTL_URL: daemon.url,
      PIPECTL_API_KEY: daemon.apiKey,
    }
    const stop = async () => {
      await daemon.close()
      authority.close()
    }
    return { env, stop }
  },
  /** PostgreSQL with a certificate, that takes one user only with a certificate, and the table `orders`. */
  'certified-postgresql': async (directory) => {
    const authority = new TestAuthority()
    const postgres = await startPostgres({ clientCa: authority.ca })
    await postgres.show(authority.issue({ names: 'DNS:localhost' }))
    const { certFile, keyFile } = authority.issue({ commonName: 'certified', names: 'DNS:client.test' })
    const certificates = path.join(directory, 'certificates')
    mkdirSync(certificates)
    for (const [name, file] of Object.entries({
      'ca.pem': authority.caFile,
      'loader.pem': certFile,
      'loader.key': keyFile,
    }))
      copyFileSync(file, path.join(certificates, name))
    authority.close()
    await postgres.query("CREATE USER certified PASSWORD 'secret'")
    await postgres.query('CREATE TABLE orders (id bigint, total numeric)')
    await postgres.query('GRANT ALL ON orders TO certified')
    const env = {
      DATABASE_ADDRESS: `postgres://certified@localhost:${postgres.port}/${postgres.database}`,
      PIPECTL_DESTINATION_PASSWORD: 'secret',
      CERTIFICATES: certificates,
    }
    return { env, stop: () => postgres.stop() }
  },
  /** A data directory as the oldest version that this one reads has left it. */
  'earlier-data-dir': async (directory) => {
    const archive = new URL('./fixtures/format-25.tar.gz', import.meta.url).pathname
    const place = path.join(directory, 'earlier')
    mkdirSync(place)
    execFileSync('tar', ['-xzf', archive, '-C', place])
    return { env: { PIPECTL_DATA_DIR: path.join(place, 'data') }, stop: async () => {} }
  },
  /** PostgreSQL, an empty database. */
  postgresql: async () => {
    const postgres = await startPostgres()
    return { env: postgresEnvironment(postgres, postgres.database), stop: () => postgres.stop() }
  },
  /** MariaDB, an empty database. */
  mariadb: async () => {
    const { host, port, user, password, database, stop } = await startMariadb()
    const env = {
      MYSQL_HOST: host,
      MYSQL_TCP_PORT: String(port),
      MYSQL_USER: user,
      MYSQL_PWD: password,
      MYSQL_DATABASE: database,
      /** For --url. */
      DATABASE_ADDRESS: `mysql://${user}@${host}:${port}/${database}`,
      PIPECTL_DESTINATION_PASSWORD: password,
    }
    return { env, stop }
  },
  /** An HTTP endpoint that takes everything. */
  'http-endpoint': async () => {
    const sink = await startHttpSink()
    return { env: { ENDPOINT_URL: sink.url }, stop: () => sink.stop() }
  },
  /** The server that the recipes send to. */
  elasticsearch: async () => {
    const { sink } = await startIndexSink('ApiKey word')
    const env = { ES_URL: sink.url, PIPECTL_DESTINATION_AUTH_HEADER: 'ApiKey word' }
    return { env, stop: () => sink.stop() }
  },
  clickhouse: async () => {
    const { sink } = await startClickHouseSink('loader', 'word')
    const env = { CLICKHOUSE_URL: sink.url, PIPECTL_DESTINATION_SECRET_HEADERS_X_CLICKHOUSE_KEY: 'word' }
    return { env, stop: () => sink.stop() }
  },
  loki: async () => {
    const { sink } = await startLokiSink('shop')
    return { env: { LOKI_URL: sink.url }, stop: () => sink.stop() }
  },
  slack: async () => {
    const { sink, url } = await startSlackSink()
    return { env: { PIPECTL_DESTINATION_URL: url, SLACK_WEBHOOK: url }, stop: () => sink.stop() }
  },
  /** A nats-server with a user and the stream EVENTS of `events.>`. */
  nats: async () => {
    const nats = await startNats({ auth: { user: 'loader', password: 'a word of its own' } })
    const connection = await nats.connect()
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name: 'EVENTS', subjects: ['events.>'] })
    const stop = async () => {
      await connection.close()
      await nats.stop()
    }
    const env = {
      /** For --url. */
      NATS_ADDRESS: `nats://loader@127.0.0.1:${nats.servers[0]?.port}`,
      PIPECTL_DESTINATION_PASSWORD: nats.password ?? '',
    }
    return { env, stop }
  },
  /** An S3 server with the bucket `events`. */
  'object-store': async () => {
    const { endpoint, stop } = await startS3('events')
    const env = {
      BUCKET: 'events',
      S3_ENDPOINT: endpoint,
      ACCESS_KEY: 'S3RVER',
      PIPECTL_DESTINATION_SECRET_KEY: 'S3RVER',
    }
    return { env, stop }
  },
}

/** One daemon for the guides of a test file, each in a workspace of its own; not for guides of its data directory or metrics. */
export async function shareDaemon(): Promise<{ setup: Setup; close(): Promise<void> }> {
  const daemon = await startDaemon()
  let count = 0
  const setup = async () => {
    const { api_key: key } = await createWorkspace(daemon.dataDir, `guide-${++count}`)
    return { env: environmentOf(daemon, key), stop: async () => {} }
  }
  return { setup, close: () => daemon.close() }
}

/** One PostgreSQL, with a database for each guide. */
export async function sharePostgres(): Promise<{ setup: Setup; close(): Promise<void> }> {
  const postgres = await startPostgres()
  let count = 0
  const setup = async () => {
    const database = `guide_${++count}`
    await postgres.query(`CREATE DATABASE ${database}`)
    return { env: postgresEnvironment(postgres, database), stop: async () => {} }
  }
  return { setup, close: () => postgres.stop() }
}

function environmentOf(daemon: TestDaemon, key: string): Record<string, string> {
  return {
    PIPECTL_URL: daemon.url,
    PIPECTL_API_KEY: key,
    PIPECTL_DATA_DIR: daemon.dataDir,
    METRICS_URL: daemon.metricsUrl,
  }
}

function postgresEnvironment(
  { host, port, user, password }: TestPostgres,
  database: string,
): Record<string, string> {
  const address = `${host}:${port}/${database}`
  return {
    /** For psql, with the password. */
    DATABASE_URL: `postgres://${user}:${password}@${address}`,
    /** For --url, without it. */
    DATABASE_ADDRESS: `postgres://${user}@${address}`,
    PIPECTL_DESTINATION_PASSWORD: password,
    /** For psql without an address. */
    ...{ PGHOST: host, PGPORT: String(port), PGUSER: user, PGPASSWORD: password, PGDATABASE: database },
  }
}
