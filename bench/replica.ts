/**
 * What a replica costs: ingest without one and with one, in turns; the requests of a day at constant rates; and how fast a replica
 * is restored, against reading the same objects alone. The store is on the same machine, and its CPU is not that of the daemon.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import type { BucketServer } from '../test/support/bucket-server.ts'
import { spawnCli } from '../test/support/cli.ts'
import { startDaemon } from '../test/support/daemon.ts'
import { replicaEnv, replicated } from '../test/support/replica.ts'
import { until } from '../test/support/until.ts'
import { inTurns, type Measured } from './ingest.ts'
import { arrayOf100, type Case, single } from './ingest-cases.ts'
import { daemonTarget, type Target } from './ingest-targets.ts'
import { load } from './load.ts'
import { pacedLoad } from './paced-load.ts'
import { record } from './records.ts'
import { count, table } from './table.ts'

const seconds = Number(process.env.BENCH_SECONDS ?? 10)
/** How much is restored. */
const restoredMiB = Number(process.env.BENCH_RESTORED_MIB ?? 1024)
const bytesPerMiB = 1024 * 1024
const secondsPerDay = 86_400

export async function benchReplica(): Promise<string> {
  return [await costTable(), await requestsTable(), await restoreTable()].join('\n\n')
}

interface Store {
  account: BucketServer['account']
  endpoint: string
  state(): Promise<{ counts: BucketServer['counts']; bytes: number }>
  stop(): void
}

async function startStore(): Promise<Store> {
  const child = fork(new URL('store-process.ts', import.meta.url), { execArgv: ['--import=tsx'] })
  const started = (await message(child)) as Pick<Store, 'account' | 'endpoint'>
  return {
    ...started,
    async state() {
      const answer = message(child)
      child.send('state')
      return (await answer) as Awaited<ReturnType<Store['state']>>
    },
    stop: () => void child.kill(),
  }
}

async function message(child: ChildProcess): Promise<unknown> {
  return await new Promise((resolve) => child.once('message', resolve))
}

const envOf = (store: Pick<Store, 'account' | 'endpoint'>, more: Record<string, string> = {}) =>
  replicaEnv(store as BucketServer, { PIPECTL_REPLICA_INTERVAL: '1s', ...more })

async function costTable(): Promise<string> {
  const rows: string[][] = []
  for (const one of [single, arrayOf100]) {
    const stores = [await startStore(), await startStore()]
    const targets: Target[] = [await daemonTarget('none')]
    for (const [index, mode] of ['async', 'sync'].entries()) {
      const env = envOf(stores[index]!, { PIPECTL_REPLICA_MODE: mode })
      const target = await daemonTarget(mode, { env })
      targets.push({
        ...target, // A look takes some of the daemon's CPU.
        settled: () => replicated(target.daemon, { everyMs: 1_000 }),
      })
    }
    const measured = await inTurns(one, targets)
    rows.push(...measured.map((each) => costRow(one, each, measured[0]!)))
    for (const store of stores) store.stop()
  }
  const head = ['ingest', 'replica', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs/request', 'failed']
  return table([...head, '× requests/s of none', '× CPU of none'], rows)
}

function costRow(one: Case, each: Measured, none: Measured): string[] {
  const { target, requestsPerSecond, p50Ms, p99Ms, cpuUsPerRequest, failed } = each
  return [
    ...[one.name, target.name, count(requestsPerSecond), p50Ms.toFixed(2), p99Ms.toFixed(2)],
    ...[cpuUsPerRequest.toFixed(1), count(failed)],
    ...[
      (requestsPerSecond / none.requestsPerSecond).toFixed(2),
      (cpuUsPerRequest / none.cpuUsPerRequest).toFixed(2),
    ],
  ]
}

/** The requests that change the bucket, which stores charge for as PUTs. */
async function requestsTable(): Promise<string> {
  const rows: string[][] = []
  for (const mode of ['async', 'sync'])
    for (const rate of [1, 100, 10_000]) {
      const store = await startStore()
      const env = envOf(store, { PIPECTL_REPLICA_MODE: mode })
      const target = await daemonTarget(mode, { env })
      await replicated(target.daemon)
      const before = await store.state()
      const { url, headers } = target
      const sent = { url, headers, bodies: [record(0)], connections: 64, rate, seconds: 3 * seconds }
      const { p50Ms, p99Ms } = await pacedLoad(sent)
      const after = await store.state()
      const puts = putsOf(after.counts) - putsOf(before.counts)
      const perDay = (puts / (3 * seconds)) * secondsPerDay
      rows.push([mode, count(rate), count(perDay), p50Ms.toFixed(1), p99Ms.toFixed(1)])
      await target.close()
      store.stop()
    }
  return table(['mode', 'requests/s', 'PUTs a day', 'p50 ms', 'p99 ms'], rows)
}

function putsOf({ create, put, begin_upload, part, complete_upload }: BucketServer['counts']): number {
  return create + put + begin_upload + part + complete_upload
}

async function restoreTable(): Promise<string> {
  const store = await startStore()
  const env = envOf(store, {
    PIPECTL_BUFFER_MAX_BYTES: '100GiB',
    PIPECTL_BUFFER_DELIVERED_MAX_BYTES: '100GiB',
  })
  const daemon = await startDaemon({ env })
  const kept = mkdtempSync(path.join(os.tmpdir(), 'pipectl-bench-restore-'))
  const keyFile = path.join(kept, 'sealing.key')
  try {
    copyFileSync(path.join(daemon.dataDir, 'sealing.key'), keyFile)
    const pipeId = await daemon.createPipe({ pipe_name: 'bench' })
    const headers = { Authorization: `Bearer ${daemon.apiKey}`, 'Content-Type': 'application/json' }
    const body = `[${Array.from({ length: 1_000 }, (_, at) => record(at)).join(',')}]`
    const url = `${daemon.dataUrl}/v1/ingest/${pipeId}`
    await until(
      `${restoredMiB} MiB are stored`,
      async () => {
        await load({ url, headers, bodies: [body], connections: 4, seconds: 2 })
        return (await store.state()).bytes >= restoredMiB * bytesPerMiB
      },
      { timeoutMs: 3_600_000 },
    )
    await daemon.stop()
    const read = await readAll(store)
    const startedAt = performance.now()
    const into = path.join(kept, 'data')
    const args = ['restore', '--from', env.PIPECTL_REPLICA_URL!, '--key-file', keyFile, '--data-dir', into]
    const { code, stderr } = await spawnCli(args, { env })
    if (code !== 0) throw new Error(stderr)
    const restoreSeconds = (performance.now() - startedAt) / 1000
    const readRate = read.bytes / bytesPerMiB / read.seconds
    const rate = read.bytes / bytesPerMiB / restoreSeconds
    return table(
      ['restore of', 'objects', 'read alone MiB/s', 'restored MiB/s', '× read alone'],
      [
        [
          `${count(read.bytes / bytesPerMiB)} MiB`,
          count(read.objects),
          readRate.toFixed(0),
          rate.toFixed(0),
          (rate / readRate).toFixed(2),
        ],
      ],
    )
  } finally {
    await daemon.close()
    rmSync(kept, { recursive: true, force: true })
    store.stop()
  }
}

/** Four at a time, as a restore. */
async function readAll({ account, endpoint }: Store) {
  const { bucket, region, accessKey: accessKeyId, secretKey: secretAccessKey } = account
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
  })
  const names: string[] = []
  for (let after: string | undefined; ; after = names.at(-1)) {
    const page = await client.send(
      new ListObjectsV2Command({ Bucket: bucket, ...(after && { StartAfter: after }) }),
    )
    names.push(...(page.Contents ?? []).map(({ Key }) => Key!))
    if (page.IsTruncated !== true) break
  }
  const objects = names.length
  let bytes = 0
  const startedAt = performance.now()
  const worker = async () => {
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: name }))
      for await (const part of Body as AsyncIterable<Buffer>) bytes += part.length
    }
  }
  await Promise.all(Array.from({ length: 4 }, worker))
  client.destroy()
  return { bytes, objects, seconds: (performance.now() - startedAt) / 1000 }
}
