import { Readable } from 'node:stream'
import t from 'tap'
import { Batcher, bodyOf } from '../../../src/apps/cli/ingest/batcher.ts'
import type { InputPiece } from '../../../src/apps/cli/ingest/input.ts'
import { isLines, StreamSplitter } from '../../../src/apps/cli/ingest/layout.ts'
import { LineSplitter } from '../../../src/apps/cli/ingest/line-splitter.ts'
import { SplitReader } from '../../../src/apps/cli/ingest/reader.ts'
import { RecordSplitter } from '../../../src/apps/cli/ingest/record-splitter.ts'
import { Failure } from '../../../src/apps/client/failure.ts'

/** The records of a text, given in pieces of so many bytes. */
function split(
  text: string,
  pieceBytes: number,
): { records: string[]; ends: number[]; error: string | null } {
  const bytes = Buffer.from(text)
  const splitter = new RecordSplitter()
  const records: string[] = []
  const ends: number[] = []
  try {
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      for (const record of splitter.push(bytes.subarray(at, at + pieceBytes))) {
        records.push(record.bytes.toString())
        ends.push(record.end)
      }
    }
    splitter.finish()
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return { records, ends, error: error.message }
  }
  return { records, ends, error: null }
}

const a = '{"s":"}\\"{\\\\","n":[1,{"x":{}}]}'
const b = '{ "é":\n1.10 }'

t.test(
  'one object, an array, NDJSON and objects in any layout give the same records, byte for byte',
  async (t) => {
    const layouts = [`${a}\n${b}\n`, `[${a},${b}]`, ` [ ${a} ,\n ${b} ]\n`, `${a}${b}`, `${a}\r\n\r\n${b}`]
    for (const layout of layouts) {
      for (const pieceBytes of [1, 2, 3, 7, 1000]) {
        const found = split(layout, pieceBytes)
        t.same(found.records, [a, b], JSON.stringify({ layout, pieceBytes }))
        t.equal(found.error, null)
      }
    }
    t.same(split(a, 5).records, [a])
    t.same(split('[]', 1), { records: [], ends: [], error: null })
    t.same(split('\ufeff{"a":1}', 1000).records, ['{"a":1}'], 'a byte order mark is not part of a record')
  },
)

t.test('what is not a record is named by its number and byte, after the records before it', async (t) => {
  const wrong: [string, number, RegExp][] = [
    [`${a}\n42\n`, 1, /the input, line 2 \(record 2, byte \d+\): it is not a JSON object/],
    [`[${a},[]]`, 1, /record 2,.*not\s+an object/],
    [`[${a} ${b}]`, 1, /a comma or \] is missing before it/],
    [`[${a}]${b}`, 1, /something follows the closing/],
    [`[${a}`, 1, /the array is not closed/],
    [`${a}\n{"cut":`, 1, /record 2,.*the input ends inside it/],
    [`[${a},]`, 1, /not an object/],
    ['"text"', 0, /line 1 \(record 1, byte 0\)/],
  ]
  for (const [text, before, message] of wrong) {
    for (const pieceBytes of [1, 1000]) {
      const found = split(text, pieceBytes)
      t.equal(found.records.length, before, text)
      t.match(found.error, message)
    }
  }
})

t.test('a run that goes on at the end of any record finds exactly the rest', async (t) => {
  for (const text of [`${a}\n${b}\n${a}`, `[${a}, ${b},${a}]`]) {
    const whole = split(text, 1000)
    const bytes = Buffer.from(text)
    for (const [index, end] of whole.ends.entries()) {
      const splitter = new RecordSplitter({
        offset: end,
        records: index + 1,
        lines: bytes.subarray(0, end).toString().split('\n').length - 1,
        insideArray: text.startsWith('['),
      })
      const rest = splitter.push(bytes.subarray(end))
      splitter.finish()
      t.same(
        rest.map((record) => record.bytes.toString()),
        whole.records.slice(index + 1),
      )
      t.same(
        rest.map((record) => record.end),
        whole.ends.slice(index + 1),
      )
    }
  }
})

t.test('NDJSON: a line that is no record is named with its reason, and the others are records', async (t) => {
  const text = `{"a":1}\nnot json\n\n{"a":}\r\n {"a":3}{"a":4}\n[1]\n{"open": "\n{"a":1}}\n{"a":5}`
  const bytes = Buffer.concat([Buffer.from(text), Buffer.from([0x0a, 0x7b, 0xff, 0x7d, 0x0a])])
  for (const pieceBytes of [1, 3, 1000]) {
    const splitter = new LineSplitter()
    const pieces: InputPiece[] = []
    for (let at = 0; at < bytes.length; at += pieceBytes) {
      pieces.push(...splitter.push(bytes.subarray(at, at + pieceBytes)))
    }
    pieces.push(...splitter.finish())
    const found = pieces.map((one) => [
      one.kind,
      one.line,
      one.kind === 'record' ? String(one.bytes) : one.reason,
    ])
    t.match(found, [
      ['record', 1, '{"a":1}'],
      ['invalid', 2, /^it is not valid JSON: Unexpected token/],
      ['invalid', 4, /^it is not valid JSON: Unexpected token '}'$/],
      ['record', 5, '{"a":3}'],
      ['record', 5, '{"a":4}'],
      ['invalid', 6, 'it is not a JSON object'],
      ['invalid', 7, /^it is not valid JSON: Unterminated string/],
      ['invalid', 8, /^it is not valid JSON/],
      ['record', 9, '{"a":5}'],
      ['invalid', 10, 'it is not valid UTF-8'],
    ])
    for (const [index, one] of pieces.entries()) {
      const rest = new LineSplitter({
        offset: one.end,
        records: 0,
        lines: one.linesBeforeEnd,
        insideArray: false,
      })
      const after = [...rest.push(bytes.subarray(one.end)), ...rest.finish()]
      t.same(
        after.map(({ kind, line, end }) => [kind, line, end]),
        pieces.slice(index + 1).map(({ kind, line, end }) => [kind, line, end]),
        'a run that goes on after it finds the rest, on the same lines',
      )
    }
  }
})

t.test('how an input is laid out is seen in its first lines', async (t) => {
  const cases: [string, boolean | null][] = [
    ['{"a":1}\n{"a":2}\n', true],
    ['{"a":1}\n', true],
    ['{"a":1', null],
    ['{"a":1}x\n{"a":2}\n', true],
    ['id,name\n1,x\n', true],
    ['{\n "a": 1\n}\n', false],
    ['{"a":[\n{"b":1}\n]}\n', false],
    ['{"a":1}\n{\n "a": 2\n}\n', false],
    ['[{"a":1},\n{"a":2}]\n', false],
    ['', null],
  ]
  for (const [text, expected] of cases) t.equal(isLines(Buffer.from(text), false), expected, text)
  t.equal(isLines(Buffer.from('{"a":1}'), true), true)
  const stream = new StreamSplitter('stdin')
  const pieces = ['{"a"', ':1}\n', '{"b":2', '}\nx\n'].flatMap((text) => stream.push(Buffer.from(text)))
  t.same(
    pieces.map((one) => one.kind),
    ['record', 'record', 'invalid'],
  )
})

t.test('batches end at the limits, keep the order and the bytes', async (t) => {
  const records = Array.from({ length: 10 }, (_, index) => `{"i":${index},"v":1.0}`)
  const source = () => Readable.from([Buffer.from(records.join('\n'))])
  const batcher = new Batcher(new SplitReader(source(), new RecordSplitter()), null)
  const first = await batcher.next({ maxRecords: 4, maxBytes: 1e6 })
  t.equal(first && bodyOf(first.records).toString(), `[${records.slice(0, 4).join(',')}]`)
  const second = await batcher.next({ maxRecords: 100, maxBytes: records[4]!.length * 2 + 3 })
  t.equal(second?.records.length, 2, 'two records, a comma and brackets are just that many bytes')
  const end = records.slice(0, 7).join('\n').length
  const until = await batcher.next({ maxRecords: 100, maxBytes: 1e6 }, end)
  t.same(
    until?.records.map(({ bytes }) => bytes.toString()),
    [records[6]],
    'and at an offset that is given',
  )
  const third = await batcher.next({ maxRecords: 100, maxBytes: 3 })
  t.equal(third?.records.length, 1, 'a record over the limit goes alone')
  t.equal((await batcher.next({ maxRecords: 100, maxBytes: 1e6 }))?.records.length, 2)
  t.equal(await batcher.next({ maxRecords: 100, maxBytes: 1e6 }), null)
})

t.test('records before a fault are sent before the fault is reported', async (t) => {
  const input = Readable.from([Buffer.from(`${a}\n${b}\nnull`)])
  const batcher = new Batcher(new SplitReader(input, new RecordSplitter()), null)
  t.equal((await batcher.next({ maxRecords: 10, maxBytes: 1e6 }))?.records.length, 2)
  await t.rejects(batcher.next({ maxRecords: 10, maxBytes: 1e6 }), { message: /record 3/ })
})

t.test('live input that pauses is sent without waiting for a full batch', async (t) => {
  const live = new Readable({ read() {} })
  const batcher = new Batcher(new SplitReader(live, new RecordSplitter()), 1)
  live.push(`${a}\n`)
  t.equal((await batcher.next({ maxRecords: 10, maxBytes: 1e6 }))?.records.length, 1)
  live.push(`${b}\n`)
  live.push(null)
  t.equal((await batcher.next({ maxRecords: 10, maxBytes: 1e6 }))?.records.length, 1)
  t.equal(await batcher.next({ maxRecords: 10, maxBytes: 1e6 }), null)
})
