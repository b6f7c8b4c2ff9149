/** How fast a backlog of 1,000,000 records of about 500 bytes reaches each kind of destination, beside the floors of a plain client. */
import { gunzipSync } from 'node:zlib'
import { startDaemon } from '../test/support/daemon.ts'
import { startMariadb } from '../test/support/mariadb.ts'
import { startPostgres } from '../test/support/postgres.ts'
import { startSigV4Receiver } from '../test/support/s3.ts'
import { blockedDestination, drain, fill } from './backlog.ts'
import { type Floor, type FloorTable, httpFloor, mariadbFloor, postgresFloor } from './delivery-floors.ts'
import { cpuSeconds, peakRssMiB } from './process-stats.ts'
import { recordColumns } from './records.ts'
import { startSink } from './sink.ts'
import { count, table } from './table.ts'

const total = Number(process.env.BENCH_RECORDS ?? 1_000_000)
const columns = (idRole?: string) => {
  const [id, ...others] = recordColumns
  return [{ ...id, nullable: false, ...(idRole ? { semantic_role: idRole } : {}) }, ...others]
}

interface Target {
  name: string
  destination: Record<string, unknown>
  stored(): Promise<number>
  floor?: Floor
}

export async function benchDelivery(): Promise<string> {
  const rows: string[][] = []
  for (const open of [httpTarget, postgresTargets, mariadbTargets, objectStoreTarget]) {
    const { targets, close } = await open()
    try {
      for (const target of targets) rows.push(await measure(target))
    } finally {
      await close()
    }
  }
  const head = ['delivery', 'records', 'seconds', 'records/s', 'floor', 'ratio', 'daemon CPU', 'peak RSS MiB']
  return table(head, rows)
}

async function measure(target: Target): Promise<string[]> {
  const daemon = await startDaemon()
  try {
    const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
    const id = await blockedDestination(daemon, pipeId, target.destination)
    await fill(daemon, pipeId, total)
    const before = await target.floor?.seconds(total)
    const cpuBefore = cpuSeconds(daemon.pid)
    const seconds = await drain(daemon, pipeId, [id])
    const cpu = ((cpuSeconds(daemon.pid) - cpuBefore) / seconds) * 100
    const stored = await target.stored()
    if (stored !== total) throw new Error(`${target.name}: ${stored} of ${total} records arrived`)
    const peakRss = peakRssMiB(daemon.pid)
    const after = await target.floor?.seconds(total)
    const floor = Math.min(before ?? Number.NaN, after ?? Number.NaN)
    return [
      target.name,
      count(total),
      seconds.toFixed(2),
      count(total / seconds),
      ...(target.floor ? [count(total / floor), (floor / seconds).toFixed(2)] : ['', '']),
      `${count(cpu)}%`,
      count(peakRss),
    ]
  } finally {
    await daemon.close()
  }
}

interface Opened {
  targets: Target[]
  close(): Promise<void>
}

async function httpTarget(): Promise<Opened> {
  const [sink, floorSink] = [await startSink(), await startSink()]
  return {
    targets: [
      {
        name: 'HTTP endpoint, ndjson',
        destination: {
          destination_type: 'destination_http_endpoint',
          destination_config: { url: sink.url, body_format: 'ndjson' },
        },
        stored: async () => sink.records(),
        floor: httpFloor(floorSink.url),
      },
    ],
    close: async () => {
      sink.close()
      floorSink.close()
    },
  }
}

async function postgresTargets(): Promise<Opened> {
  const shape =
    'id text PRIMARY KEY, type text, user_id bigint, amount numeric, currency text, ok boolean, tags jsonb, context jsonb, note text'
  return await databaseTargets('PostgreSQL', 'postgresql', await startPostgres(), shape, postgresFloor)
}

async function mariadbTargets(): Promise<Opened> {
  const shape =
    'id varchar(64) PRIMARY KEY, type varchar(64), user_id bigint, amount decimal(20,6), currency char(3), ok boolean, tags json, context json, note text'
  return await databaseTargets('MariaDB', 'mariadb', await startMariadb(), shape, mariadbFloor)
}

interface DatabaseServer {
  host: string
  port: number
  database: string
  user: string
  password: string
  query(sql: string): Promise<Record<string, unknown>[]>
  stop(): Promise<void>
}

/** An insert, with and without `exactly_once`, and an upsert, into tables of the same shape. */
async function databaseTargets(
  label: string,
  dialect: string,
  server: DatabaseServer,
  shape: string,
  floorOf: (table: FloorTable) => Floor,
): Promise<Opened> {
  const { host, port, database, user: username, password } = server
  const target = async (how: string, role?: string, exactly_once = false): Promise<Target> => {
    const tableName = `bench_${how}${exactly_once ? '_once' : ''}`
    await server.query(`CREATE TABLE ${tableName} (${shape})`)
    return {
      name: `${label} ${how}${exactly_once ? ', exactly once' : ''}`,
      destination: {
        destination_type: 'destination_database',
        destination_config: {
          dialect,
          host,
          port,
          database,
          username,
          password,
          table: tableName,
          exactly_once,
        },
        columns: columns(role),
      },
      stored: async () => Number((await server.query(`SELECT count(*) AS n FROM ${tableName}`))[0]?.n),
      floor: floorOf({
        ...{ host, port, user: username, password, database, shape },
        table: 'bench_floor',
        isUpsert: role !== undefined,
      }),
    }
  }
  return {
    targets: [
      await target('insert'),
      await target('insert', undefined, true),
      await target('upsert', 'dedupe_id'),
    ],
    close: () => server.stop(),
  }
}

async function objectStoreTarget(): Promise<Opened> {
  const account = { bucket: 'bench', region: 'us-east-1', accessKey: 'bench', secretKey: 'bench-secret' }
  const server = await startSigV4Receiver(account)
  return {
    targets: [
      {
        name: 'object store, gzip ndjson',
        destination: {
          destination_type: 'destination_object_store',
          destination_config: {
            bucket: account.bucket,
            endpoint: server.endpoint,
            access_key: account.accessKey,
            secret_key: account.secretKey,
          },
        },
        stored: async () => {
          const lines = (body: Buffer) => gunzipSync(body).toString('latin1').trimEnd().split('\n').length
          return [...server.objects.values()].reduce((sum, { body }) => sum + lines(body), 0)
        },
      },
    ],
    close: () => server.stop(),
  }
}
