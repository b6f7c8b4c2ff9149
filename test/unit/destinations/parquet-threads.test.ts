/** Parquet objects are encoded in a thread of their own, whose end harms the file that it has and no other. */
import '../buffer/typescript-workers.ts'
import { createHash } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import workerThreads, { type WorkerOptions } from 'node:worker_threads'
import { parquetMetadata } from 'hyparquet'
import t from 'tap'
import type { Batch, ObjectStoreSpec, RejectedRecord } from '../../../src/destinations/driver.ts'
import { ParquetThreads } from '../../../src/destinations/object-store/parquet-threads.ts'
import { failureOf, makeBatch, makeSpec } from '../../support/batches.ts'
import { type Column, everyColumn } from '../../support/parquet-columns.ts'

const started: workerThreads.Worker[] = []
/** Of the threads that are started from now on. */
let oldHeapMiB: number | undefined
const BuiltWorker = workerThreads.Worker
workerThreads.Worker = class extends BuiltWorker {
  constructor(file: string | URL, options?: WorkerOptions) {
    const limits = oldHeapMiB === undefined ? {} : { maxOldGenerationSizeMb: oldHeapMiB }
    super(file, { ...options, resourceLimits: { ...options?.resourceLimits, ...limits } })
    started.push(this)
  }
}
syncBuiltinESMExports()
t.beforeEach(() => {
  started.length = 0
  oldHeapMiB = undefined
})

function spec(columns: readonly Column[], more: Partial<ObjectStoreSpec> = {}): ObjectStoreSpec {
  const config = { bucket: 'b', format: 'parquet', compression: 'none' }
  return { ...makeSpec('destination_object_store', config, columns), ...more }
}

const failure = (encoding: Promise<unknown>) => failureOf(encoding.then(() => {}))
const n: Column[] = [{ column_name: 'n', column_type: 'number' }]
const text: Column[] = [{ column_name: 'text', column_type: 'string' }]
const good = makeBatch([['{"n":1}'], ['{"n":2}']])
const bad = makeBatch([['{"n":1}', '{"n":"x"}'], ['{"n":2}']])

function rowGroups(bytes: Buffer): number[] {
  return parquetMetadata(new Uint8Array(bytes).buffer).row_groups.map(({ num_rows }) => Number(num_rows))
}

t.test('objects have the bytes that they had when they were encoded in the delivery thread', async (t) => {
  const record = (m: number, at: number) => ({
    text: at % 7 === 0 ? null : `${'p'.repeat(1_000)}${m}-${at}`,
    n: m + at / 8,
    flag: at % 3 === 0,
    o: { at, m: 'ä𝄞' },
    list: [at % 5],
    nothing: at % 11 === 0 ? 'x' : undefined,
    ingest_ts: new Date(1.7e12 + at * 1000).toISOString(),
    left: 'l'.repeat(at % 900),
  })
  const counts = Array.from({ length: 40 }, (_, m) => (m === 3 ? 4_000 : 200))
  const made = makeBatch(counts.map((count, m) => Array.from({ length: count }, (_, at) => record(m, at))))
  const batch: Batch = {
    ...made,
    messages: made.messages.map((message, at) => ({ ...message, msgId: `message-${at}` })),
  }
  const what = { ...spec(everyColumn), timestampField: 'ingest_ts' }
  const { bytes, rowCount } = await new ParquetThreads().encode(batch, what, { park: null })
  t.equal(rowCount, 11_800)
  t.equal(
    createHash('sha256').update(bytes).digest('hex'),
    '90daacc1b90fde5c63632a0b0a544638056226689a4e78c4e83c0f3d6fac5834',
  )
})

t.test('a thread that is killed in the middle of a file harms no other file', async (t) => {
  const threads = new ParquetThreads()
  let waiting: Promise<unknown> = Promise.resolve()
  const killed = threads.encode(bad, spec(n), {
    park: async () => {
      waiting = threads.encode(good, spec(n), { park: null })
      await started[0]?.terminate()
    },
  })
  t.match(await failure(killed), { class: 'transient', code: 'parquet_failed', timedOut: 'rolled_back' })
  t.match(await waiting, { rowCount: 2 })
  t.equal(started.length, 2)
  const kept: RejectedRecord[] = []
  const again = await threads.encode(bad, spec(n), { park: async (some) => void kept.push(...some) })
  t.match([again.rowCount, kept], [2, [{ seq: 1, recordIndex: 1, code: 'wrong_type', column: 'n' }]])
  t.equal(started.length, 2, 'one thread for all that follow')
})

t.test('a file of many row groups needs the memory of one', async (t) => {
  const record = { text: 'x'.repeat(1_000), left: 'y'.repeat(7_000) }
  const batch = makeBatch(Array.from({ length: 80 }, () => Array.from({ length: 300 }, () => record)))
  // 190 MB of records. With the text of each until its group is encoded, 8 MiB of values would keep 64 MiB.
  oldHeapMiB = 48
  const { bytes } = await new ParquetThreads().encode(batch, spec(text), { park: null })
  t.same(rowGroups(bytes), [8_388, 8_388, 7_224])
  // The negative control.
  oldHeapMiB = 12
  const tooMuch = new ParquetThreads().encode(batch, spec(text), { park: null })
  const error = await failure(tooMuch)
  t.match(error, { class: 'transient', code: 'parquet_failed', message: /memory/ })
})

t.test('workspaces take turns, and their lanes within them', async (t) => {
  const threads = new ParquetThreads()
  const order: string[] = []
  const encode = async (workspaceId: string, destinationId: string) => {
    await threads.encode(good, spec(n, { workspaceId, destinationId }), { park: null })
    order.push(`${workspaceId}/${destinationId}`)
  }
  await Promise.all([
    ...[encode('a', '1'), encode('a', '1'), encode('a', '1'), encode('a', '1')],
    ...[encode('a', '2'), encode('b', '3'), encode('b', '3')],
  ])
  t.same(order, ['a/1', 'a/1', 'b/3', 'a/2', 'b/3', 'a/1', 'a/1'])
  t.equal(started.length, 1)
})

t.test('nothing is started before the first file', async (t) => {
  new ParquetThreads()
  t.equal(started.length, 0)
})
