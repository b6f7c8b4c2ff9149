/** A Parquet thread that hangs delays only the lanes with Parquet, and is replaced. */
import { rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import t from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { startHttpSink } from '../support/http-sink.ts'
import { startSigV4Receiver } from '../support/s3.ts'
import { until } from '../support/until.ts'

const account = { bucket: 'events', region: 'us-east-1', accessKey: 'key', secretKey: 'secret' }
const hook = fileURLToPath(new URL('../support/hanging-parquet-thread.cjs', import.meta.url))
const flush = { max_records: 1, max_bytes: 1_000_000, max_seconds: 1 }

t.test('lanes without Parquet deliver while the thread hangs; those with it continue after it', async (t) => {
  const file = `${t.testdir()}/hangs`
  const [store, sink] = await Promise.all([startSigV4Receiver(account), startHttpSink()])
  t.teardown(() => Promise.all([store.stop(), sink.stop()]))
  const env = { NODE_OPTIONS: `--require=${hook}`, PARQUET_THREAD_HANGS: file }
  const daemon = await startDaemon({ env })
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'p' })
  const bucket = (prefix: string) => ({
    destination_type: 'destination_object_store',
    destination_config: {
      ...{ bucket: account.bucket, endpoint: store.endpoint, format: 'parquet' },
      ...{ access_key: account.accessKey, secret_key: account.secretKey },
      key_template: `${prefix}/{first_seq}.{ext}`,
    },
    columns: [{ column_name: 'n', column_type: 'number', source_field: 'n' }],
    flush,
  })
  const ids = [
    await daemon.createDestination(pipeId, bucket('a')),
    await daemon.createDestination(pipeId, bucket('b')),
  ]
  const endpoint = {
    destination_type: 'destination_http_endpoint',
    destination_config: { url: sink.url },
    flush,
  }
  await daemon.createDestination(pipeId, endpoint)
  const stored = async () => {
    const rows = { a: [] as unknown[], b: [] as unknown[] }
    for (const [key, { body }] of [...store.objects].sort()) {
      const found = await parquetReadObjects({ file: new Uint8Array(body).buffer, compressors })
      rows[key[0] as 'a' | 'b'].push(...found.map(({ n }) => n))
    }
    return rows
  }
  await daemon.ingest(pipeId, { n: 0 })
  await until('both lanes have used the thread', () => store.objects.size === 2)

  writeFileSync(file, '')
  for (const n of [1, 2, 3]) await daemon.ingest(pipeId, { n })
  await until('the endpoint has every record', () => sink.records().length === 4)
  t.equal(store.objects.size, 2, 'negative control: the thread hangs')
  const failed = await until('the lane whose file it had gets a transient error', () =>
    daemon.log.find(({ msg, code }) => msg === 'delivery.attempted' && code === 'parquet_failed'),
  )
  t.match(failed, { outcome: 'transient' })
  // The next file starts another thread, which hangs as well.
  await daemon.ingest(pipeId, { n: 4 })
  await until('the endpoint has this one too', () => sink.records().length === 5)
  t.equal(store.objects.size, 2)

  rmSync(file)
  await until('both lanes have delivered', async () => {
    const lanes = await Promise.all(ids.map((id) => daemon.lane(pipeId, id)))
    return lanes.every(({ delivered_records }) => delivered_records === 5)
  })
  t.same(await stored(), { a: [0, 1, 2, 3, 4], b: [0, 1, 2, 3, 4] })
  t.notOk(daemon.log.some(({ msg }) => msg === 'delivery.worker_died'))
  t.equal(await daemon.stop(), 0)
})
