/** Servers for a move, a data directory with something of everything in it, and what can be compared before and after. */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type CliResult, runCli, startCli } from './cli.ts'
import { startDaemon, TestDaemon } from './daemon.ts'
import { type HttpSink, startHttpSink } from './http-sink.ts'
import { startNats, type TestNats } from './nats.ts'
import { startPostgres, type TestPostgres } from './postgres.ts'

export interface MoveTargets {
  postgres: TestPostgres
  nats: TestNats
  /** The environment of nodes. */
  env: Record<string, string>
  /** A new directory with this key. */
  directory(name: string, keyFile: string): string
  /** `more`: of the environment. */
  migrate(args: string[], dataDir: string, more?: Record<string, string>): Promise<CliResult>
  startMigrate(args: string[], dataDir: string): ReturnType<typeof startCli>
  stop(): Promise<void>
}

export async function startMoveTargets(replicas: 1 | 3 = 1): Promise<MoveTargets> {
  const root = mkdtempSync(path.join(os.tmpdir(), 'pipectl-move-'))
  const [postgres, nats] = await Promise.all([
    startPostgres({ ssl: false }),
    startNats({ replicas, maxPayload: 16 << 20 }),
  ])
  const { user, password, host, port, database } = postgres
  const env = {
    PIPECTL_METADATA_URL: `postgres://${user}:${password}@${host}:${port}/${database}?sslmode=disable`,
    PIPECTL_BUFFER_NATS: nats.url,
    PIPECTL_CLUSTER_REPLICAS: String(replicas),
  }
  const commandLine = (args: string[], dataDir: string) => [
    'migrate',
    ...args,
    '--data-dir',
    dataDir,
    '-o',
    'json',
  ]
  return {
    ...{ postgres, nats, env },
    directory(name, keyFile) {
      const directory = path.join(root, name)
      mkdirSync(directory, { mode: 0o700 })
      copyFileSync(keyFile, path.join(directory, 'sealing.key'))
      return directory
    },
    migrate: (args, dataDir, more = {}) => runCli(commandLine(args, dataDir), { env: { ...env, ...more } }),
    startMigrate: (args, dataDir) => startCli(commandLine(args, dataDir), { env }),
    async stop() {
      await Promise.all([postgres.stop(), nats.stop()])
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** The daemon on another directory with the same keys. */
export async function startMoved(
  before: TestDaemon,
  dataDir: string,
  env: Record<string, string> = {},
): Promise<TestDaemon> {
  const daemon = await new TestDaemon({ dataDir, env }).start()
  daemon.apiKey = before.apiKey
  daemon.workspaceId = before.workspaceId
  return daemon
}

export interface FilledDaemon {
  daemon: TestDaemon
  sink: HttpSink
  pipes: string[]
  /** A pull lane of the first pipe that has taken some messages. */
  pull: string
  /** An endpoint of the first pipe that parks records that hold `"bad"`. */
  parking: string
  /** An endpoint of the second pipe that rejects everything now, with a range under way. */
  stuck: string
}

/** `messages`: in each of the two pipes. */
export async function startFilled(messages: number): Promise<FilledDaemon> {
  const sink = await startHttpSink()
  sink.respondWith(({ path: at, text }) => ({
    status: at === '/stuck' ? 503 : text.includes('"bad"') ? 422 : 200,
  }))
  const daemon = await startDaemon()
  const first = await daemon.createPipe({ pipe_name: 'first', pipe_description: 'zwei Wörter' })
  const second = await daemon.createPipe({ pipe_name: 'second' })
  const pull = await daemon.createDestination(first, {
    destination_type: 'destination_pull',
    destination_config: {},
  })
  const parking = await daemon.createDestination(first, {
    destination_type: 'destination_http_endpoint',
    destination_name: 'shop',
    destination_config: {
      ...{ url: `${sink.url}/shop`, body_format: 'json_object' },
      auth_header: 'Bearer of-the-shop',
    },
    on_permanent_error: 'park',
  })
  const stuck = await daemon.createDestination(second, {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: `${sink.url}/stuck` },
  })
  await daemon.api('PUT', `/v1/pipes/${first}/limits`, {
    ...{ pl_ingest_max_records_per_request: 500, pl_ingest_max_records_per_second: 100_000 },
    ...{ pl_ingest_max_records_per_day: 1_000_000, pl_ingest_max_bytes_per_day: null },
    ...{ pl_delivery_max_records_per_flush: 100, pl_delivery_max_bytes_per_flush: 1_000_000 },
    pl_delivery_max_seconds_per_flush: 1,
  })
  await daemon.api('POST', `/v1/pipes/${first}/allowed-origins`, { origin_domain: 'https://shop.example' })
  await daemon.api('POST', '/v1/api-keys', { api_key_name: 'app', api_key_scopes: ['ingest'] })
  for (let n = 0; n < messages; n += 1) {
    const headers: Record<string, string> = n % 4 === 0 ? { 'idempotency-key': `key ${n}` } : {}
    const records = [{ n, text: 'ß'.repeat(n % 50), ...(n === 3 ? { why: 'bad' } : {}) }]
    await Promise.all(
      [first, second].map((pipe) => daemon.api('POST', `/v1/ingest/${pipe}`, records, { headers })),
    )
  }
  for (let n = 0; n < 5; n += 1) await daemon.api('GET', `/v1/pull/${pull}`)
  return { daemon, sink, pipes: [first, second], pull, parking, stuck }
}

/** Everything that the API says of the workspace, without seqs and what time changes. */
export async function everything(daemon: TestDaemon, filled: FilledDaemon): Promise<unknown> {
  const { pipes, parking, stuck, pull } = filled
  const [first, second] = pipes
  const paths = [
    ...['/v1/pipes', '/v1/api-keys', '/v1/audit?limit=200', `/v1/pipes/${first}`, `/v1/pipes/${second}`],
    ...[`/v1/pipes/${first}/limits`, `/v1/pipes/${first}/allowed-origins`],
    ...[`/v1/pipes/${first}/destinations/${parking}`, `/v1/pipes/${second}/destinations/${stuck}`],
    `/v1/pipes/${first}/destinations/${pull}`,
    `/v1/pipes/${first}/destinations/${parking}/parked`,
    ...[`/v1/pipes/${first}/messages?limit=100`, `/v1/pipes/${second}/messages?limit=100`],
    '/v1/usage',
  ]
  const said: Record<string, unknown> = {}
  for (const at of paths) {
    const { status, body } = await daemon.api('GET', at)
    said[at] = { status, body: comparable(body) }
  }
  return said
}

const differs =
  /(^|_)(seq|cursor)(_|$)|^(next|after|batch_id|attempts|next_attempt_ts|retry|error|lane_state|last_error|blocking|waiting|oldest|api_key_last_used_ts|failed_attempts)/

function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => (differs.test(name) ? [] : [[name, comparable(inner)]])),
  )
}

/** The messages that the pull lane still returns, in order; it acknowledges each with the next pull. */
export async function pullAll(daemon: TestDaemon, destinationId: string): Promise<number[]> {
  const numbers: number[] = []
  for (;;) {
    const { status, body } = await daemon.api<{ records?: { n: number }[] }>(
      'GET',
      `/v1/pull/${destinationId}?wait_ms=0`,
    )
    if (status !== 200) return numbers
    numbers.push(...(body.records ?? []).map(({ n }) => n))
  }
}
