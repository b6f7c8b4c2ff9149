import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { SchemaElement } from 'hyparquet'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import t from 'tap'
import { fromTheStart } from '../../../src/apps/cli/ingest/input.ts'
import { checkPages, ParquetReader } from '../../../src/apps/cli/ingest/parquet-reader.ts'
import { textOf } from '../../../src/apps/cli/ingest/parquet-values.ts'
import { openFile, openSource } from '../../../src/apps/cli/ingest/source.ts'

const folder = mkdtempSync(path.join(os.tmpdir(), 'pipectl-parquet-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

type Schema = ConstructorParameters<typeof ParquetWriter>[0]['schema']
type ColumnData = Parameters<ParquetWriter['write']>[0]['columnData']

function parquet(schema: Schema, columnData: ColumnData, rowGroupSize = 1000): Buffer {
  const writer = new ByteWriter()
  const file = new ParquetWriter({ writer, schema })
  file.write({ columnData, rowGroupSize })
  file.finish()
  return Buffer.from(writer.getBytes())
}

async function rowsOf(bytes: Buffer, offset = 0): Promise<string[]> {
  const file = path.join(folder, 'f.parquet')
  writeFileSync(file, bytes)
  const source = await openSource(openFile(file))
  try {
    const reader = await ParquetReader.open(source, { ...fromTheStart, offset })
    const rows: string[] = []
    for (let next = await reader.next(); next !== null; next = await reader.next()) {
      rows.push(...next.map((piece) => piece.bytes.toString()))
    }
    return rows
  } finally {
    source.close()
  }
}

const root = (children: number) => ({ name: 'root', num_children: children })
const leaf = { repetition_type: 'OPTIONAL' as const }

t.test('every digit of integers and floats stays', async (t) => {
  const schema: Schema = [
    root(4),
    { name: 'i', type: 'INT64', ...leaf },
    { name: 'u', type: 'INT64', converted_type: 'UINT_64', ...leaf },
    { name: 'f', type: 'FLOAT', ...leaf },
    { name: 'g', type: 'DOUBLE', ...leaf },
  ]
  const bytes = parquet(schema, [
    { name: 'i', data: [9007199254740993n, -9223372036854775808n, null] },
    { name: 'u', data: [18446744073709551615n, 0n, null] },
    { name: 'f', data: [0.1, 16777216, Number.NaN] },
    { name: 'g', data: [0.1, 5e-324, Number.POSITIVE_INFINITY] },
  ])
  t.same(await rowsOf(bytes), [
    '{"i":9007199254740993,"u":18446744073709551615,"f":0.1,"g":0.1}',
    '{"i":-9223372036854775808,"u":0,"f":16777216,"g":5e-324}',
    '{"i":null,"u":null,"f":"NaN","g":"Infinity"}',
  ])
})

t.test('annotated values are text or digits, made of the integers and bytes of the file', async (t) => {
  const text = (element: Omit<SchemaElement, 'name'>, value: unknown) =>
    textOf({ element: { name: 'c', ...element }, children: [], count: 1, path: ['c'] })(value)
  const decimal = (scale: number) => ({ converted_type: 'DECIMAL', precision: 38, scale }) as const
  const wide = (value: bigint) =>
    Uint8Array.from(Buffer.from(BigInt.asUintN(128, value).toString(16).padStart(32, '0'), 'hex'))
  const bytes = { type: 'FIXED_LEN_BYTE_ARRAY' } as const
  const long = { type: 'INT64' } as const
  const stamp = (unit: 'MILLIS' | 'MICROS' | 'NANOS', isAdjustedToUTC: boolean) =>
    ({ ...long, logical_type: { type: 'TIMESTAMP', unit, isAdjustedToUTC } }) as const
  t.equal(
    text({ ...bytes, ...decimal(10) }, wide(12345678901234567890123456789n)),
    '1234567890123456789.0123456789',
  )
  t.equal(text({ ...bytes, ...decimal(10) }, wide(-1n)), '-0.0000000001')
  t.equal(text({ type: 'INT32', ...decimal(2) }, -5), '-0.05')
  t.equal(text({ ...long, ...decimal(0) }, 123456789012345678n), '123456789012345678')
  t.equal(text({ type: 'INT32', converted_type: 'DATE' }, -1), '"1969-12-31"')
  t.equal(text(stamp('NANOS', true), 1_700_000_000_123_456_789n), '"2023-11-14T22:13:20.123456789Z"')
  t.equal(text(stamp('MICROS', false), -1n), '"1969-12-31T23:59:59.999999"')
  t.equal(text({ ...long, converted_type: 'TIME_MICROS' }, 3_723_000_004n), '"01:02:03.000004"')
  t.equal(
    text({ ...bytes, logical_type: { type: 'UUID' } }, wide(1n)),
    '"00000000-0000-0000-0000-000000000001"',
  )
  t.equal(text({ type: 'BYTE_ARRAY' }, Uint8Array.from([0, 255])), '"AP8="')
  t.equal(text({ type: 'BYTE_ARRAY', converted_type: 'JSON' }, Buffer.from('{"n":1.0}')), '{"n":1.0}')
  t.equal(text({ type: 'INT32', converted_type: 'UINT_32' }, -1), '4294967295')
  t.equal(text({ type: 'DOUBLE' }, -0), '-0.0')
})

t.test('lists, structs and maps are JSON', async (t) => {
  const schema: Schema = [
    root(2),
    { name: 'tags', repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
    { name: 'element', type: 'INT64', repetition_type: 'OPTIONAL' },
    { name: 'm', repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'MAP' },
    { name: 'key_value', repetition_type: 'REPEATED', num_children: 2 },
    { name: 'key', type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'REQUIRED' },
    { name: 'value', type: 'INT64', repetition_type: 'OPTIONAL' },
  ]
  const bytes = parquet(schema, [
    { name: 'tags', data: [[9007199254740993n, null], [], null] },
    { name: 'm', data: [{ b: 9007199254740993n, a: null }, {}, null] },
  ])
  t.same(await rowsOf(bytes), [
    '{"tags":[9007199254740993,null],"m":{"b":9007199254740993,"a":null}}',
    '{"tags":[],"m":{}}',
    '{"tags":null,"m":null}',
  ])
})

t.test('a start at a row gives the rows after it, over row groups', async (t) => {
  const schema: Schema = [root(1), { name: 'n', type: 'INT32', repetition_type: 'REQUIRED' }]
  const bytes = parquet(schema, [{ name: 'n', data: Array.from({ length: 5000 }, (_, n) => n) }], 700)
  for (const offset of [0, 1, 699, 700, 4999, 5000]) {
    const rows = await rowsOf(bytes, offset)
    t.equal(rows.length, 5000 - offset)
    if (rows.length > 0) t.same([rows[0], rows.at(-1)], [`{"n":${offset}}`, '{"n":4999}'])
  }
})

t.test('a footer or page that lies is an error that names the file', async (t) => {
  const schema: Schema = [root(1), { name: 'n', type: 'INT32', repetition_type: 'REQUIRED' }]
  const bytes = parquet(schema, [{ name: 'n', data: Array.from({ length: 100 }, (_, n) => n) }])
  const damaged = (change: (copy: Buffer) => void) => {
    const copy = Buffer.from(bytes)
    change(copy)
    return copy
  }
  const longFooter = damaged((copy) => copy.writeUInt32LE(0x7fffffff, copy.length - 8))
  await t.rejects(
    rowsOf(longFooter),
    /f\.parquet: this Parquet file cannot be read: its footer is longer than the file/,
  )
  await t.rejects(rowsOf(bytes.subarray(0, bytes.length - 1)), /it does not end with PAR1/)
  await t.rejects(rowsOf(Buffer.concat([bytes.subarray(0, 4), bytes.subarray(200)])), /cannot be read/)
  for (let at = bytes.length - 9; at > 4; at -= 1) {
    const flipped = damaged((copy) => {
      copy[at] = (copy[at] ?? 0) ^ 0xff
    })
    const end = await rowsOf(flipped).then(
      () => 'read',
      (error: unknown) => (error instanceof Error ? error.message : ''),
    )
    t.ok(end === 'read' || /f\.parquet: this Parquet file cannot be read/.test(end), `byte ${at}: ${end}`)
  }
  // A page header with 2^31 - 1 values and bytes: DATA_PAGE, sizes as zigzag varints.
  const varint = [0xfe, 0xff, 0xff, 0xff, 0x0f]
  const page = Uint8Array.from([
    0x15,
    0x00,
    0x15,
    ...varint,
    0x15,
    0x02,
    0x2c,
    0x15,
    ...varint,
    0x15,
    0x00,
    0x00,
    0x00,
    0,
    0,
  ])
  t.throws(() => checkPages(page.buffer), /a page claims/)
})
