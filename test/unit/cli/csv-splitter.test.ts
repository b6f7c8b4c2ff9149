import t from 'tap'
import {
  type CsvOptions,
  type CsvType,
  parseDelimiter,
  parseTypes,
} from '../../../src/apps/cli/ingest/csv-columns.ts'
import { CsvSplitter } from '../../../src/apps/cli/ingest/csv-splitter.ts'
import type { InputPiece, StartAt } from '../../../src/apps/cli/ingest/input.ts'

const plain: CsvOptions = { delimiter: null, header: null, types: new Map(), nullText: null }

function split(text: string | Buffer, options: Partial<CsvOptions> = {}, pieceBytes = 1e6): InputPiece[] {
  const bytes = Buffer.from(text)
  const splitter = new CsvSplitter('t.csv', { ...plain, ...options })
  const pieces: InputPiece[] = []
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    pieces.push(...splitter.push(bytes.subarray(at, at + pieceBytes)))
  }
  return [...pieces, ...splitter.finish()]
}
const texts = (pieces: readonly InputPiece[]) =>
  pieces.map((one) => (one.kind === 'record' ? one.bytes.toString() : `line ${one.line}: ${one.reason}`))

t.test('values are text in their own bytes, wherever the input is cut', async (t) => {
  const text =
    '\ufeffid,"na""me",note\r\n007,Łódź,\r\n1.10,"a ""b"", c","two\nlines\t\\\u0001"\n\n12345678901234567890,,"",\n,x,y'
  const expected = [
    '{"id":"007","na\\"me":"Łódź","note":""}',
    '{"id":"1.10","na\\"me":"a \\"b\\", c","note":"two\\nlines\\t\\\\\\u0001"}',
    'line 6: it has 4 values, and the header 3',
    '{"id":"","na\\"me":"x","note":"y"}',
  ]
  for (const pieceBytes of [1, 2, 3, 7, 1000])
    t.same(texts(split(text, {}, pieceBytes)), expected, `${pieceBytes}`)
  for (const one of split(text)) if (one.kind === 'record') JSON.parse(one.bytes.toString())
})

t.test('each row has the offset after it, and a start there gives the rows after it', async (t) => {
  const text = 'a;b\n1;"x\ny"\n2;z\n3;w'
  const all = split(text)
  t.same(
    all.map(({ line, end, linesBeforeEnd }) => ({ line, end, linesBeforeEnd })),
    [
      { line: 2, end: 12, linesBeforeEnd: 3 },
      { line: 4, end: 16, linesBeforeEnd: 4 },
      { line: 5, end: 19, linesBeforeEnd: 4 },
    ],
  )
  for (const [index, { end, linesBeforeEnd }] of all.entries()) {
    const start: StartAt = { offset: end, records: index + 1, lines: linesBeforeEnd, insideArray: false }
    const rest = new CsvSplitter('t.csv', plain, start, Buffer.from(text))
    const pieces = [...rest.push(Buffer.from(text).subarray(end)), ...rest.finish()]
    t.same(texts(pieces), texts(all.slice(index + 1)))
    t.same(pieces[0]?.line, all[index + 1]?.line)
  }
})

t.test('types keep every digit; empty is null; a value of another type is named', async (t) => {
  const types = parseTypes('n:number,b:boolean,j:json')
  const text =
    'n,b,j,s\n-12345678901234567890.10,TRUE,"{""a"":1.0}",0\n,,,\n007,true,{},x\n1,maybe,{},x\n1,f,{,x\n1e5,0,[1],"x"\n'
  t.same(texts(split(text, { types })), [
    '{"n":-12345678901234567890.10,"b":true,"j":{"a":1.0},"s":"0"}',
    '{"n":null,"b":null,"j":null,"s":""}',
    'line 4: the value of "n" is not a number',
    'line 5: the value of "b" is not a boolean',
    'line 6: the value of "j" is not JSON',
    '{"n":1e5,"b":false,"j":[1],"s":"x"}',
  ])
  t.same(texts(split('a,b\n,""\nNULL,"NULL"\n', { nullText: Buffer.from('') }))[0], '{"a":null,"b":""}')
  t.same(texts(split('a,b\nNULL,"NULL"\n', { nullText: Buffer.from('NULL') })), ['{"a":null,"b":"NULL"}'])
  t.throws(() => split('a,b\n1,2\n', { types: new Map<string, CsvType>([['c', 'number']]) }), /no column "c"/)
  t.throws(() => parseTypes('a:integer'), /not COLUMN:TYPE/)
})

t.test('the delimiter is found in the header line or given; names can be given', async (t) => {
  for (const delimiter of [',', ';', '\t', '|']) {
    t.same(texts(split(`"a,;"${delimiter}b\n1${delimiter}2`)), ['{"a,;":"1","b":"2"}'])
  }
  t.same(texts(split('a,b;c\n1,2;3', { delimiter: parseDelimiter(';') })), ['{"a,b":"1,2","c":"3"}'])
  t.same(texts(split('1,2', { header: ['x', 'y'] })), ['{"x":"1","y":"2"}'])
  t.throws(() => split('a,a\n'), /"a" twice/)
  t.throws(() => split('a,,b\n'), /column 2 of the header has no name/)
})

t.test('malformed rows are named and the next line is read', async (t) => {
  const bad = Buffer.concat([
    Buffer.from('a,b\n1,"x"y\nz,q"r\n'),
    Buffer.from([0xff, 0xfe]),
    Buffer.from(',1\n2,3\n4,"5'),
  ])
  t.same(texts(split(bad)), [
    'line 2: text follows a closing quotation mark',
    'line 3: a quotation mark is in the middle of a value',
    'line 4: it is not valid UTF-8',
    '{"a":"2","b":"3"}',
    'line 6: a quotation mark is not closed',
  ])
})

t.test('a row without an end is an error with its line, after the rows before it', async (t) => {
  for (const endless of ['"', 'x']) {
    const splitter = new CsvSplitter('t.csv', plain)
    t.equal(splitter.push(Buffer.from(`a,b\n1,2\n${endless}`)).length, 1)
    const chunk = Buffer.alloc(1024 * 1024, 'y')
    let error: unknown = null
    for (let sent = 0; sent < 40 && error === null; sent += 1) {
      try {
        splitter.push(chunk)
      } catch (thrown) {
        error = thrown
      }
    }
    t.match(error, { message: /t\.csv, line 3: the row does not end within 16 MiB/ })
    t.throws(() => splitter.push(chunk), /line 3/, 'and at every further call')
  }
})
