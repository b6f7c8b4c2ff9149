import '../buffer/typescript-workers.ts'
import { type FileMetaData, parquetMetadata, parquetReadObjects, parquetSchema } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import t from 'tap'
import { resolvedConfig } from '../../../src/contract/destinations/config-field.ts'
import { objectStore as objectStoreType } from '../../../src/contract/destinations/object-store.fields.ts'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  noProgress,
  type ObjectStoreSpec,
  type RejectedRecord,
} from '../../../src/destinations/driver.ts'
import { objectOf } from '../../../src/destinations/object-store/body.ts'
import { objectStore } from '../../../src/destinations/object-store/driver.ts'
import { anyKey, makeBatch } from '../../support/batches.ts'
import { type Column, everyColumn } from '../../support/parquet-columns.ts'
import { startSigV4Receiver } from '../../support/s3.ts'

const account = {
  bucket: 'events',
  region: 'eu-west-1',
  accessKey: 'AKIDTEST',
  secretKey: 'secret/of+the=test',
}
const receiver = await startSigV4Receiver(account)
t.teardown(() => receiver.stop())
t.beforeEach(() => {
  receiver.objects.clear()
  receiver.puts.length = receiver.requests.length = receiver.faults.length = 0
})

const settings = { databaseTls: false, egress: { allow: [], deny: [], private: 'allow' as const } }
const never = new AbortController().signal

function spec(columns: readonly Column[], config: Record<string, unknown> = {}): ObjectStoreSpec {
  return {
    destinationId: 'dest-1',
    pipeId: 'pipe-1',
    pipeName: 'orders',
    type: 'destination_object_store',
    columns: columns.map((column) => ({
      source_field: null,
      semantic_role: null,
      nullable: true,
      ...column,
    })),
    timestampField: 'ingest_ts',
    config: resolvedConfig(objectStoreType.fields, {
      bucket: account.bucket,
      region: account.region,
      endpoint: receiver.endpoint,
      access_key: account.accessKey,
      secret_key: account.secretKey,
      format: 'parquet',
      key_template: '{first_seq}.{ext}',
      ...config,
    }),
  }
}

async function deliver(what: ObjectStoreSpec, batch: Batch, progress?: AttemptProgress): Promise<void> {
  const driver = objectStore.open(what, settings, anyKey)
  try {
    await driver.deliver(batch, never, progress)
  } finally {
    await driver.close()
  }
}

async function failure(what: ObjectStoreSpec, batch: Batch): Promise<DeliveryError> {
  try {
    await deliver(what, batch)
  } catch (error) {
    if (error instanceof DeliveryError) return error
    throw error
  }
  throw new Error('delivery should have failed')
}

/** Collects the records that the lane would keep. */
function keeper(): { kept: RejectedRecord[]; progress: AttemptProgress } {
  const kept: RejectedRecord[] = []
  const progress: AttemptProgress = {
    ...noProgress,
    beforeRequest: async () => {},
    stored: () => {},
    park: async (rejected) => {
      kept.push(...rejected)
    },
  }
  return { kept, progress }
}

const key = '0000000000000001.parquet'

function fileOf(body = receiver.objects.get(key)!.body): ArrayBuffer {
  return new Uint8Array(body).buffer
}

/** Read by a library that is not the one that wrote it. */
async function rows(): Promise<Record<string, unknown>[]> {
  return parquetReadObjects({ file: fileOf(), compressors, utf8: false })
}

function metadata(): FileMetaData {
  return parquetMetadata(fileOf())
}

t.test('the schema comes from the columns alone', async (t) => {
  await deliver(spec(everyColumn), makeBatch([[{}]]))
  const { children } = parquetSchema(metadata())
  const leaves = children.map(({ element }) => element)
  t.match(leaves, [
    { name: 'text', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' },
    { name: 'n', type: 'DOUBLE', repetition_type: 'OPTIONAL' },
    { name: 'flag', type: 'BOOLEAN' },
    { name: 'o', type: 'BYTE_ARRAY', converted_type: 'JSON', logical_type: { type: 'JSON' } },
    { name: 'list', type: 'BYTE_ARRAY', logical_type: { type: 'JSON' } },
    { name: 'nothing', type: 'BYTE_ARRAY', converted_type: 'UTF8' },
    {
      name: 'at',
      type: 'INT64',
      logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MICROS' },
      repetition_type: 'OPTIONAL',
    },
    { name: 'came', type: 'INT64' },
    { name: 'came_ms', type: 'DOUBLE', repetition_type: 'REQUIRED' },
    { name: 'id', type: 'BYTE_ARRAY', repetition_type: 'REQUIRED' },
  ])
  const { headers } = receiver.objects.get(key)!
  t.equal(headers['content-type'], 'application/vnd.apache.parquet')
  t.equal(headers['content-encoding'], undefined)
})

t.test('each type, nulls and missing keys', async (t) => {
  const batch = makeBatch([
    [
      '{"text":"ä\\n𝄞","n":-1.50,"flag":true,"o":{"a":1.10,"big":12345678901234567890},"list":[1, {}],"nothing":"x","ingest_ts":"2026-03-04T07:06:07.891234+02:00"}',
      '{"text":12345678901234567890,"n":1e3,"flag":false,"o":[],"list":"s","nothing":{"b":1.0},"ingest_ts":null,"other":1}',
    ],
    ['{"text":null,"n":null,"flag":null,"o":null}'],
  ])
  await deliver(spec(everyColumn, { compression: 'none' }), batch)
  const [first, second, third] = await rows()
  const came = new Date(Date.UTC(2026, 0, 2, 3, 4, 5, 678))
  const { msgId } = batch.messages[0]!
  t.match(first, {
    text: 'ä\n𝄞',
    n: -1.5,
    flag: true,
    nothing: 'x',
    came,
    came_ms: came.getTime(),
    id: `${msgId}:0`,
  })
  t.same(asTime(first!.at), '2026-03-04T05:06:07.891Z')
  t.match(second, {
    text: '12345678901234567890',
    n: 1000,
    flag: false,
    nothing: '{"b":1.0}',
    id: `${msgId}:1`,
  })
  t.match(third, { text: null, n: null, flag: null, o: null, list: null, nothing: null, at: null })
  t.equal(third!.id, `${batch.messages[1]!.msgId}:0`)
  t.match(first, { o: { a: 1.1 }, list: [1, {}] })
  t.match(second, { o: [], list: 's' })
  const raw = receiver.objects.get(key)!.body
  t.ok(raw.includes('{"a":1.10,"big":12345678901234567890}'), 'digit for digit')
  t.ok(raw.includes('[1, {}]'))
})

function asTime(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value)
}

const n: Column[] = [{ column_name: 'n', column_type: 'number' }]

t.test('numbers that a double holds to the last digit are stored', async (t) => {
  const texts = [
    '0',
    '-0',
    '0.0',
    '1.10',
    '0.1',
    '1e21',
    '1E+2',
    '100e-2',
    '9007199254740992',
    '5e-324',
    '-0.000001',
    '1e-7',
    '0e999999',
    '123456789.125',
  ]
  await deliver(spec(n), makeBatch([texts.map((text) => `{"n":${text}}`)]))
  t.same(
    (await rows()).map(({ n }) => n),
    texts.map(Number),
  )
})

t.test('what does not fit fails alone, with its record, column and value', async (t) => {
  const columns: Column[] = [
    { column_name: 'n', column_type: 'number' },
    { column_name: 'flag', column_type: 'boolean' },
    { column_name: 'at', column_type: 'string', semantic_role: 'record_ts' },
    { column_name: 'text', column_type: 'string', nullable: false },
  ]
  const bad: [record: string, code: string, column: string, value: string | undefined][] = [
    ['{"text":"a","n":12345678901234567890}', 'inexact_number', 'n', '12345678901234567890'],
    ['{"text":"a","n":9007199254740993}', 'inexact_number', 'n', '9007199254740993'],
    ['{"text":"a","n":0.1000000000000000001}', 'inexact_number', 'n', '0.1000000000000000001'],
    ['{"text":"a","n":1e400}', 'inexact_number', 'n', '1e400'],
    ['{"text":"a","n":1e-400}', 'inexact_number', 'n', '1e-400'],
    [`{"text":"a","n":${'9'.repeat(5_000)}}`, 'inexact_number', 'n', '9'.repeat(199)],
    ['{"text":"a","n":"1"}', 'wrong_type', 'n', '1'],
    ['{"text":"a","n":true}', 'wrong_type', 'n', 'true'],
    ['{"text":"a","flag":0}', 'wrong_type', 'flag', '0'],
    ['{"text":"a","flag":"true"}', 'wrong_type', 'flag', 'true'],
    ['{"text":"a","ingest_ts":"2026-02-30T00:00:00Z"}', 'invalid_timestamp', 'at', '2026-02-30T00:00:00Z'],
    ['{"text":"a","ingest_ts":"2026-02-03T00:00:00"}', 'invalid_timestamp', 'at', '2026-02-03T00:00:00'],
    ['{"text":"a","ingest_ts":1}', 'invalid_timestamp', 'at', '1'],
    [
      '{"text":"a","ingest_ts":"2026-02-03T00:00:00.0000001Z"}',
      'inexact_timestamp',
      'at',
      '2026-02-03T00:00:00.0000001Z',
    ],
    ['{"text":"\\ud800"}', 'invalid_text', 'text', undefined],
    ['{"n":1}', 'missing_value', 'text', undefined],
    ['{"text":null}', 'missing_value', 'text', 'null'],
  ]
  for (const [record, code, column, value] of bad) {
    const batch = makeBatch([['{"text":"good"}'], ['{"text":"good"}', record]])
    const error = await failure(spec(columns), batch)
    t.match(error, { class: 'permanent', code, fault: 'records', failedSeq: 2 }, record.slice(0, 100))
    t.match(error.rejected, { seq: 2, recordIndex: 1, code, column, message: `"${column}"` })
    if (value !== undefined) t.ok(error.rejected?.value?.startsWith(value), value)
    t.equal(receiver.objects.size, 0)
  }
  // The others of them go when the lane parks what is rejected.
  const { kept, progress } = keeper()
  await deliver(
    spec(columns),
    makeBatch([['{"text":"good"}', ...bad.map(([record]) => record), '{"text":"last"}']]),
    progress,
  )
  t.same(
    kept.map(({ recordIndex, code }) => [recordIndex, code]),
    bad.map(([, code], at) => [at + 1, code]),
  )
  t.same(
    (await rows()).map(({ text }) => text),
    ['good', 'last'],
  )
})

t.test('of a batch whose records all do not fit there is no object', async (t) => {
  const { kept, progress } = keeper()
  await deliver(spec(n), makeBatch([['{"n":"a"}'], ['{"n":"b"}']]), progress)
  t.equal(kept.length, 2)
  t.equal(receiver.objects.size, 0)
})

t.test('of a large batch no more than a thousand refused records are held at once', async (t) => {
  const kept: number[] = []
  const calls: number[] = []
  const park = async (rejected: readonly RejectedRecord[]) => {
    calls.push(rejected.length)
    kept.push(...rejected.map(({ recordIndex }) => Number(recordIndex)))
  }
  const records = Array.from({ length: 5_000 }, (_, at) => ({ n: at % 2 === 0 ? at : 'x' }))
  const object = await objectOf(makeBatch([records]), spec(n), { park })
  t.same(calls, [1000, 1000, 500])
  t.same(
    kept,
    Array.from({ length: 2_500 }, (_, at) => 2 * at + 1),
  )
  t.equal(parquetMetadata(fileOf(object?.body)).num_rows, 2_500n)
})

t.test('the replay of a parked record is an object of its own beside that of the others', async (t) => {
  const batch = makeBatch([['{"n":1}', '{"n":"b"}']])
  await deliver(spec(n), batch, keeper().progress)
  const replayed = { ...batch, ...makeBatch([['{"n":2}']]), identity: 'parked-1', isReplay: true }
  await deliver(spec(n), replayed)
  const beside = '0000000000000001-replay-parked-1.parquet'
  t.same([...receiver.objects.keys()], [key, beside])
  t.same(await rows(), [{ n: 1 }])
  t.same(await parquetReadObjects({ file: fileOf(receiver.objects.get(beside)!.body), compressors }), [
    { n: 2 },
  ])
})

t.test('nothing is put where refused records cannot be kept', async (t) => {
  const progress = { ...keeper().progress, park: async () => Promise.reject(new Error('disk full')) }
  await t.rejects(deliver(spec(n), makeBatch([['{"n":1}', '{"n":"b"}']]), progress), {
    class: 'transient',
    code: 'not_set_aside',
  })
  t.equal(receiver.objects.size, 0)
})

t.test('records left out before keep the places of the others', async (t) => {
  const batch = makeBatch([['{"n":1}', '{"n":"b"}']])
  const messages = [{ ...batch.messages[0]!, places: [3, 7] }]
  const { kept, progress } = keeper()
  const columns = [...n, { column_name: 'id', column_type: 'string', semantic_role: 'dedupe_id' } as const]
  await deliver(spec(columns), { ...batch, messages }, progress)
  t.match(kept, [{ recordIndex: 7 }])
  t.same(await rows(), [{ n: 1, id: `${batch.messages[0]!.msgId}:3` }])
})

const wide = makeBatch([
  Array.from({ length: 3_000 }, (_, at) => ({
    text: `row ${at} ${'x'.repeat(at % 40)}`,
    n: at / 8,
    flag: at % 3 === 0,
  })),
])

for (const [compression, codec] of [
  [undefined, 'SNAPPY'],
  ['snappy', 'SNAPPY'],
  ['zstd', 'ZSTD'],
  ['gzip', 'GZIP'],
  ['none', 'UNCOMPRESSED'],
] as const) {
  t.test(`compression ${compression}: ${codec}, and the same bytes each time`, async (t) => {
    const what = spec(everyColumn.slice(0, 3), compression === undefined ? {} : { compression })
    await deliver(what, wide)
    const once = receiver.objects.get(key)!.body
    const read = await rows()
    t.equal(read.length, 3_000)
    t.match(read[2_999], { text: `row 2999 ${'x'.repeat(2_999 % 40)}`, n: 2_999 / 8, flag: false })
    for (const { meta_data } of metadata().row_groups[0]!.columns) t.equal(meta_data?.codec, codec)
    await deliver(what, wide)
    t.ok(receiver.objects.get(key)!.body.equals(once))
    t.same([...receiver.objects.keys()], [key])
  })
}

t.test('a large batch has several row groups, and every record', async (t) => {
  const pad = 'p'.repeat(2_000)
  const large = makeBatch(
    Array.from({ length: 100 }, (_, message) =>
      Array.from({ length: 100 }, (_, at) => ({ n: message * 100 + at, text: `${pad}${message}-${at}` })),
    ),
  )
  await deliver(spec(everyColumn.slice(0, 2), { compression: 'zstd' }), large)
  const { row_groups } = metadata()
  t.equal(row_groups.length, 3)
  const read = await rows()
  t.same(
    read.map(({ n }) => n),
    Array.from({ length: 10_000 }, (_, at) => at),
  )
  t.ok(read.every(({ text, n }) => text === `${pad}${Math.floor(Number(n) / 100)}-${Number(n) % 100}`))
})

t.test('many columns of small records are bounded by their cells', async (t) => {
  const columns = Array.from({ length: 256 }, (_, at) => ({
    column_name: `c${at}`,
    column_type: 'number' as const,
  }))
  await deliver(spec(columns), makeBatch([Array.from({ length: 10_000 }, () => '{"c255":1}')]))
  const { row_groups, num_rows } = metadata()
  t.equal(num_rows, 10_000n)
  t.equal(row_groups.length, 3)
})

t.test('others have their turns while records are read of which little is kept', async (t) => {
  const bodies = Array.from({ length: 12 }, (_, n) => `{"n":${n},"left":"${'x'.repeat(1024 * 1024)}"}`)
  const batch = makeBatch([bodies])
  // Whatever is loaded with the first one is there.
  await objectOf(batch, spec(n))
  let turns = 0
  const counted = () => {
    turns += 1
    next = setImmediate(counted)
  }
  let next = setImmediate(counted)
  await objectOf(batch, spec(n))
  clearImmediate(next)
  t.ok(turns >= bodies.length, `${turns} turns`)
})

t.test('one value of many megabytes', async (t) => {
  const text = 'ab'.repeat(10 * 1024 * 1024)
  await deliver(spec(everyColumn.slice(0, 1), { compression: 'zstd' }), makeBatch([[{ text }]]))
  const [row] = await rows()
  t.ok(row?.text === text)
})

t.test('a large JSON value is in the object once', async (t) => {
  const o = { text: 'ab'.repeat(512 * 1024) }
  await deliver(spec([everyColumn[3]!], { compression: 'none' }), makeBatch([[{ o }]]))
  t.same(await rows(), [{ o }])
  t.ok(receiver.objects.get(key)!.body.length < 1.1 * 1024 * 1024)
})

t.test('an attempt that is ended meanwhile puts nothing', async (t) => {
  const ended = new AbortController()
  const driver = objectStore.open(spec(n), settings, anyKey)
  const delivery = driver.deliver(makeBatch([['{"n":1}']]), ended.signal)
  ended.abort()
  await t.rejects(delivery, { class: 'transient', code: 'aborted' })
  await driver.close()
  t.equal(receiver.objects.size, 0)
})

t.test('names of columns are free text', async (t) => {
  const columns: Column[] = [
    { column_name: 'a.b', column_type: 'number' },
    { column_name: 'Größe in "m"', column_type: 'number', source_field: 'a.b' },
    { column_name: '__proto__', column_type: 'number' },
  ]
  await deliver(spec(columns), makeBatch([['{"a.b":1,"__proto__":3}']]))
  const names = parquetSchema(metadata()).children.map(({ element }) => element.name)
  t.same(names, ['a.b', 'Größe in "m"', '__proto__'])
  t.same(
    metadata().row_groups[0]!.columns.map(({ meta_data }) => [
      meta_data?.path_in_schema,
      meta_data?.num_values,
    ]),
    names.map((name) => [[name], 1n]),
  )
  t.match((await rows())[0], { 'a.b': 1, 'Größe in "m"': 1 })
})

t.test('a test of the destination names the columns and tries the newest message', async (t) => {
  const batch = makeBatch([['{"n":1}', '{"n":"one"}']])
  const checks = await objectStore.check(spec(everyColumn.slice(0, 2)), settings, never, {
    recent: batch.messages[0]!,
  })
  t.same(
    checks.filter(({ name }) => name === 'schema' || name === 'sample'),
    [
      { name: 'schema', ok: true, message: 'Objects have the columns text string?, n double?.' },
      {
        name: 'sample',
        ok: false,
        message:
          'Of the 2 records of the pipe\'s newest message 1 do not fit: Column "n" accepts numbers, and the record has a string.',
      },
    ],
  )
  const without = await objectStore.check(spec(n), settings, never, { recent: null })
  t.match(without.at(-1), { name: 'sample', ok: true })
  const plain = await objectStore.check(spec(n), settings, never)
  t.same(
    plain.map(({ name }) => name),
    ['bucket', 'write', 'schema'],
  )
})

t.test('files are made one at a time, and one whose attempt is over holds up no other', async (t) => {
  const calls: string[] = []
  const records = Array.from({ length: 3_000 }, () => ({ n: 'x' }))
  const make = (name: string) =>
    objectOf(makeBatch([records]), spec(n), {
      park: async () => {
        calls.push(name)
        await new Promise((resolve) => setImmediate(resolve))
      },
    })
  await Promise.all([make('a'), make('b'), make('c')])
  t.same(calls, ['a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'c'])
  const stop = new AbortController()
  const stuck = objectOf(makeBatch([records]), spec(n), {
    park: () => new Promise(() => {}),
    signal: stop.signal,
  })
  const next = make('d')
  stop.abort(new Error('stopped'))
  await t.rejects(stuck, /stopped/)
  t.equal(await next, null)
})

t.test('a row group holds 8 MiB of values over all columns, or one row that has more', async (t) => {
  const columns: Column[] = Array.from({ length: 256 }, (_, at) => ({
    ...{ column_name: `c${at}`, column_type: 'string' as const },
    source_field: `k${at >> 2}`,
  }))
  const record = (characters: number) =>
    Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`k${at}`, 'x'.repeat(characters)]))
  const rowsOf = async (...sizes: number[]) => {
    const object = await objectOf(makeBatch([sizes.map(record)]), spec(columns))
    return parquetMetadata(fileOf(object?.body)).row_groups.map(({ num_rows }) => Number(num_rows))
  }
  t.same(await rowsOf(20_000, 20_000), [1, 1], '5 MB each')
  t.same(await rowsOf(10_000, 10_000, 10_000, 10_000), [3, 1])
  t.same(await rowsOf(10, 40_000, 10), [1, 1, 1])
})
