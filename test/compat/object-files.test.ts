/** DuckDB reads the objects of a destination, in every format and compression, with every type of column. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import t, { type Test } from 'tap'
import { startDaemon } from '../support/daemon.ts'
import { drained } from '../support/ledger.ts'
import { startSigV4Receiver } from '../support/s3.ts'
import { tried, versionIn } from './results.ts'

/** What is used of @duckdb/node-api. Its types name types of later versions of Node.js. */
interface DuckDb {
  DuckDBInstance: { create(): Promise<{ connect(): Promise<Connection>; closeSync(): void }> }
}
interface Connection {
  runAndReadAll(sql: string): Promise<{ getRowObjectsJson(): Record<string, unknown>[] }>
  closeSync(): void
}

const account = { bucket: 'events', region: 'eu-west-1', accessKey: 'AKIDTEST', secretKey: 'secret' }
const receiver = await startSigV4Receiver(account)
const daemon = await startDaemon()
t.teardown(async () => {
  await daemon.close()
  await receiver.stop()
})

const count = 400
const columns = [
  { column_name: 'n', column_type: 'number' },
  { column_name: 'big', column_type: 'string' },
  { column_name: 'ratio', column_type: 'number' },
  { column_name: 'flag', column_type: 'boolean' },
  { column_name: 'body', column_type: 'string' },
  { column_name: 'at', column_type: 'string', semantic_role: 'record_ts', source_field: 'at' },
  { column_name: 'document', column_type: 'object' },
  { column_name: 'list', column_type: 'array' },
  { column_name: 'came', column_type: 'string', semantic_role: 'received_at' },
  { column_name: 'id', column_type: 'string', semantic_role: 'dedupe_id' },
]

const body = (n: number) => (n % 7 === 0 ? null : `tab\t"quote" \\ line\n${n} 🫖`)
const record = (n: number) =>
  JSON.stringify({
    ...{ n, ratio: n / 8, flag: n % 2 === 0, body: body(n), at: '2026-03-04T05:06:07.890+02:00' },
    ...{ document: { of: n, text: 'é' }, list: [n, null, 'x'] },
  }).replace('{', `{"big":12345678901234567890${n},`)

/** The values of a row as a Parquet object has them. */
const expected = (n: number) => ({
  ...{ n, big: `12345678901234567890${n}`, ratio: n / 8, flag: n % 2 === 0, body: body(n) },
  ...{ at: '2026-03-04 03:06:07.89', document: `{"of":${n},"text":"é"}`, list: `[${n},null,"x"]` },
})

const kinds = [
  ['ndjson', 'none', 'ndjson'],
  ['ndjson', 'gzip', 'ndjson.gz'],
  ['json_array', 'none', 'json'],
  ['json_array', 'gzip', 'json.gz'],
  ['parquet', 'none', 'parquet'],
  ['parquet', 'snappy', 'parquet'],
  ['parquet', 'gzip', 'parquet'],
  ['parquet', 'zstd', 'parquet'],
] as const

async function fillBucket(): Promise<void> {
  const pipeId = await daemon.createPipe({ pipe_name: 'objects', pipe_add_ingest_ts: false })
  const { bucket, region, accessKey: access_key, secretKey: secret_key } = account
  const ids = []
  for (const [format, compression] of kinds)
    ids.push(
      await daemon.createDestination(pipeId, {
        destination_type: 'destination_object_store',
        destination_name: `${format}-${compression}`,
        destination_config: {
          ...{ bucket, region, access_key, secret_key, endpoint: receiver.endpoint, format, compression },
          key_template: `${format}/${compression}/{first_seq}.{ext}`,
        },
        flush: { max_records: 1_000, max_bytes: 1 << 24, max_seconds: 1 },
        ...(format === 'parquet' ? { columns } : {}),
      }),
    )
  for (let first = 0; first < count; first += 80)
    await daemon.ingest(
      pipeId,
      `[${Array.from({ length: 80 }, (_, index) => record(first + index)).join(',')}]`,
    )
  for (const id of ids) await drained(daemon, pipeId, id)
}

/** Writes every object into a folder, as a copy of the bucket. */
function copyBucket(t: Test): string {
  const folder = t.testdir()
  for (const [key, { body }] of receiver.objects) {
    const file = path.join(folder, key)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, body)
  }
  return folder
}

await tried(t, 'duckdb', async (t) => {
  await fillBucket()
  const folder = copyBucket(t)
  const { DuckDBInstance }: DuckDb = createRequire(import.meta.url)('@duckdb/node-api')
  const instance = await DuckDBInstance.create()
  const connection = await instance.connect()
  t.teardown(() => {
    connection.closeSync()
    instance.closeSync()
  })
  const rows = async (sql: string) => (await connection.runAndReadAll(sql)).getRowObjectsJson()
  for (const [format, compression, extension] of kinds) {
    const files = path.join(folder, format, compression, `*.${extension}`)
    if (format === 'parquet') {
      const read = `FROM read_parquet('${files}') ORDER BY n`
      t.same(
        await rows(
          `SELECT n, big, ratio, flag, body, "at"::timestamp::text AS "at", document::text AS document, list::text AS list ${read}`,
        ),
        Array.from({ length: count }, (_, n) => expected(n)),
        `${format}, ${compression}`,
      )
      const [types] =
        await rows(`SELECT typeof(n) AS n, typeof(flag) AS flag, typeof("at") AS "at", typeof(document) AS document,
        typeof(came) AS came, count(DISTINCT id) OVER () AS ids FROM read_parquet('${files}') LIMIT 1`)
      t.match(types, {
        ...{ n: 'DOUBLE', flag: 'BOOLEAN', document: 'JSON', ids: `${count}` },
        ...{ at: 'TIMESTAMP WITH TIME ZONE', came: 'TIMESTAMP WITH TIME ZONE' },
      })
    } else {
      const lines = format === 'ndjson' ? 'newline_delimited' : 'array'
      const found =
        await rows(`SELECT json::text AS text FROM read_json_objects('${files}', format = '${lines}')
        ORDER BY (json ->> 'n')::int`)
      t.same(
        found.map(({ text }) => text),
        Array.from({ length: count }, (_, n) => record(n)),
        `${format}, ${compression}`,
      )
      const [sum] = await rows(`SELECT sum(n)::int AS sum, count(*)::int AS rows FROM read_json('${files}')`)
      t.same(sum, { sum: (count * (count - 1)) / 2, rows: count })
    }
  }
  return versionIn(String((await rows('SELECT version() AS version'))[0]?.version))
})
