import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { openScanner, type Preparation, prepare, prepareBody } from '../../../src/ingest/prepare.ts'

const KiB = 1024
const MiB = 1024 * KiB
const dist = new URL('../../../dist/', import.meta.url).pathname

const rules: Preparation = {
  format: 'json',
  limits: { maxRecords: 50_000, maxKeys: 10_000, maxValues: Number.POSITIVE_INFINITY },
  pipeMaxRecords: null,
  enrichment: { keys: ['ts'], text: '"ts":"now"' },
  requiredFields: [],
  schema: null,
  withHash: false,
}

/** `[{"a":0},{"a":1}…]`, the last record filled up with text to the length. */
function arrayOf(records: number, bytes: number): Buffer {
  const texts = Array.from({ length: records }, (_, index) => `{"a":${index}}`)
  const rest = bytes - texts.join(',').length - '[,{"a":""}]'.length
  return Buffer.from(`[${texts.join(',')},{"a":"${'x'.repeat(rest)}"}]`)
}

function storedByValues(bytes: Buffer, asked: Preparation = rules): Buffer {
  return prepareBody(bytes, asked, () => {})!.body
}

t.test('scanner: a body that its memory holds exactly is scanned, one byte more is not', async (t) => {
  const memory = 4 * 64 * KiB
  const scanner = openScanner(memory)!
  // 128 KiB of its own, the body, 16 bytes between, the stored text: less its brackets, more by the timestamp.
  const most = (memory - 128 * KiB - 16 - ',"ts":"now"'.length) / 2
  const body = (length: number) => Buffer.from(`{"a":"${'x'.repeat(length - 8)}"}`)
  const largest = body(Math.floor(most) - 1)
  t.ok(scanner.scan(largest, rules))
  t.ok(scanner.body().equals(storedByValues(largest)))
  t.notOk(scanner.scan(body(largest.length + 2), rules))
  t.notOk(scanner.scan(body(memory), rules))
  t.ok(scanner.scan(largest, rules), 'and the next is scanned again')
  t.ok(scanner.body().equals(storedByValues(largest)))
})

t.test('scanner: it grows for larger bodies and for what is stored of them', async (t) => {
  const scanner = openScanner(resourceLimits.parserScannerBytes)!
  for (const length of [KiB, 100 * KiB, 64 * KiB, 10 * MiB, 2 * KiB, 20 * MiB, 200]) {
    const body = arrayOf(10, length)
    t.ok(scanner.scan(body, rules), `${length} bytes`)
    t.ok(scanner.body().equals(storedByValues(body)))
  }
  const small = Buffer.from(`[${Array.from({ length: 20_000 }, () => '{}').join(',')}]`)
  const wide = { ...rules, enrichment: { keys: ['w'], text: `"w":"${'y'.repeat(2_000)}"` } }
  t.ok(scanner.scan(small, wide))
  t.ok(scanner.body().equals(storedByValues(small, wide)))
})

t.test('scanner: what does not fit goes by JSON.parse and gives the same', async (t) => {
  const scanner = openScanner(resourceLimits.mainScannerBytes)!
  const body = arrayOf(1_000, 200 * KiB)
  const keys = (count: number) => Array.from({ length: count }, (_, index) => `key ${index}`)
  const enrichments = [
    { keys: ['w'], text: `"w":"${'y'.repeat(33 * KiB)}"` },
    { keys: ['w'], text: `"w":"${'é'.repeat(17 * KiB)}"` },
    { keys: ['w'], text: `"w":"${'y'.repeat(2 * KiB)}"` },
    { keys: keys(81), text: '"ts":"now"' },
    { keys: ['k'.repeat(30 * KiB)], text: '"ts":"now"' },
  ]
  for (const enrichment of enrichments) {
    const asked = { ...rules, enrichment }
    t.notOk(scanner.scan(body, asked))
    t.ok(prepare(scanner, body, asked, () => {})!.body.equals(storedByValues(body, asked)))
    t.ok(scanner.scan(body, rules), 'the rules after that are its own again')
    t.ok(scanner.body().equals(storedByValues(body)))
  }
  const wide = Buffer.from(`{${keys(65).map((key) => `"${key}":1`)}}`)
  t.ok(scanner.scan(wide, { ...rules, requiredFields: keys(64) }))
  t.notOk(scanner.scan(wide, { ...rules, requiredFields: keys(65) }))
  t.notOk(scanner.scan(Buffer.from('{"a":1}'), { ...rules, requiredFields: keys(64) }))
})

t.test('scanner: what is stored may be no larger than a message may be', async (t) => {
  const scanner = openScanner(160 * MiB)!
  const asked = { ...rules, enrichment: { keys: ['w'], text: `"w":"${'y'.repeat(8_000)}"` } }
  const body = (records: number) => Buffer.from(`[${Array.from({ length: records }, () => '{}').join(',')}]`)
  const most = Math.floor(resourceLimits.storedBytesPerMessage / (8_000 + '"w":""{}'.length + 2))
  t.ok(scanner.scan(body(most), asked))
  t.notOk(scanner.scan(body(most + 1), asked))
  t.throws(() => prepareBody(body(most + 1), asked, () => {}), { code: 'payload_too_large' })
})

t.test('scanner: the memory that is asked for, and what is thrown then', async (t) => {
  const scanner = openScanner(resourceLimits.mainScannerBytes)!
  const body = arrayOf(3, 100)
  const asked: number[] = []
  prepareBody(body, rules, (bytes) => asked.push(bytes))
  prepare(scanner, body, rules, (bytes) => asked.push(bytes))
  t.equal(asked[1], asked[0])
  const full = () => {
    throw new Error('no room')
  }
  t.throws(() => prepare(scanner, body, rules, full), /no room/)
})

t.test('scanner: where it cannot run every body goes by JSON.parse', async (t) => {
  const asked = JSON.stringify({ ...rules, limits: { maxRecords: 1, maxKeys: 1, maxValues: 9 } })
  const program = `
    import { openScanner, prepare } from '${dist}ingest/prepare.js'
    const scanner = openScanner(${resourceLimits.mainScannerBytes})
    const { body } = prepare(scanner, Buffer.from('{"a":1}'), ${asked}, () => {})
    console.log(scanner === null ? 'none' : 'scanner', body.toString())`
  const run = (limit: string, ...flags: string[]) => {
    const command = ['-c', `ulimit -v ${limit}; exec "$@"`, 'sh', process.execPath, ...flags]
    return execFileSync('sh', [...command, '--input-type=module', '-e', program], { encoding: 'utf8' }).trim()
  }
  const stored = '{"a":1,"ts":"now"}'
  t.equal(run('unlimited'), `scanner ${stored}`)
  // Node.js 20 has a memory only where it can reserve 8 GiB of addresses; 24 checks bounds in software there.
  const inLittleSpace = Number.parseInt(process.versions.node, 10) < 24 ? 'none' : 'scanner'
  t.equal(run('4000000'), `${inLittleSpace} ${stored}`, 'little address space')
  // Other processors do not know SSE4.1 and do without.
  const without = process.arch === 'x64' ? 'none' : 'scanner'
  t.equal(run('unlimited', '--no-enable-sse4-1'), `${without} ${stored}`)
})

t.test('scanner: a program that was not wholly built says so', async (t) => {
  const copy = t.testdir({ 'package.json': '{"type":"module"}' })
  mkdirSync(path.join(copy, 'ingest'))
  for (const file of ['platform/error-code.js', 'ingest/scanner-module.js'])
    cpSync(path.join(dist, file), path.join(copy, file))
  const { openScannerModule } = await import(path.join(copy, 'ingest/scanner-module.js'))
  t.throws(() => openScannerModule(MiB), /ingest\/scanner\.wasm is missing: npm run build creates it/)
})
