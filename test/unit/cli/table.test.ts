/** Tables fit the terminal: columns give way in their order, long texts are wrapped, wide characters count as two. */
import stringWidth from 'string-width'
import t from 'tap'
import { drawTable, type Table } from '../../../src/apps/cli/table.ts'

const id = '018f0000-0000-7000-8000-000000000001'
const lanes: Table = {
  columns: [
    { label: 'LANE', shrinksTo: 12, keepsEnd: true },
    'STATE',
    { label: 'OLDEST', gives: 1 },
    { label: 'TARGET', shrinksTo: 10, gives: 2 },
    { label: 'ID', isSpare: true },
  ],
  rows: [
    ['orders/warehouse', 'retrying', '3m 5s', 'db.example.com/shop orders', id],
    ['a-pipe-with-a-long-name/and-a-lane-with-one', 'idle', '-', `https://x.example/${'y'.repeat(60)}`, id],
    ['倉庫/データベースの倉庫', 'delivering', '1s', '倉庫', id],
    ['👩‍👩‍👧/é́', 'delivering', '1s', '-', id],
  ],
  notes: [`23502: ${'null value in column "total" '.repeat(9)}`, null, `x${'字'.repeat(100)}`, null],
}

const lines = (table: Table, width: number) => drawTable(table, width, false).slice(0, -1).split('\n')

t.test('no line is wider than the terminal, whatever is in it', async (t) => {
  for (const width of [40, 60, 80, 120, 200]) {
    for (const line of lines(lanes, width)) t.ok(stringWidth(line) <= width, `${width}: ${line}`)
  }
})

t.test('columns are cut first, then left out: the least important first', async (t) => {
  const heads = (width: number) => lines(lanes, width)[0]?.split(/ {2,}/)
  t.strictSame(heads(200), ['LANE', 'STATE', 'OLDEST', 'TARGET', 'ID'])
  t.strictSame(heads(80), ['LANE', 'STATE', 'OLDEST', 'TARGET'])
  t.strictSame(heads(40), ['LANE', 'STATE', 'OLDEST'])
  t.strictSame(heads(24), ['LANE', 'STATE'])
  t.match(lines(lanes, 80).join('\n'), /a-pipe-with.*….*lane-with-one +idle/)
})

t.test('a wide character takes two places, and what is joined is never cut apart', async (t) => {
  const table: Table = {
    columns: ['A', 'B'],
    rows: [
      ['倉庫', '|'],
      ['👩‍👩‍👧', '|'],
      ['abcd', '|'],
    ],
  }
  const places = lines(table, 80)
    .slice(1)
    .map((line) => stringWidth(line.slice(0, line.indexOf('|'))))
  t.strictSame(places, [6, 6, 6])
  const narrow: Table = { columns: [{ label: 'A', shrinksTo: 6 }, 'B'], rows: [['倉庫倉庫倉庫', 'x']] }
  t.equal(lines(narrow, 9)[1], '倉庫…   x')
})

t.test('a note stands below its row, wrapped and indented, in four lines at most', async (t) => {
  const drawn = lines(lanes, 60)
  const at = drawn.findIndex((line) => line.startsWith('orders/'))
  t.match(drawn.slice(at + 1, at + 5), [/^ {2}└ 23502: null/, /^ {4}\S/, /^ {4}\S/, /^ {4}.*…$/])
  t.match(drawn[at + 5], /^a-pipe/)
  t.match(lines(lanes, Number.POSITIVE_INFINITY)[2], /^ {2}└ 23502: (null value in column "total" ){8}/)
})

t.test('a value is wrapped at its words, below each other; what is to be copied stays whole', async (t) => {
  const url = 'https://pipectl.example.com/v1/ingest/018f0000-0000-7000-8000-000000000001'
  const table: Table = {
    columns: ['FIELD', { label: 'VALUE', wraps: true }],
    rows: [
      ['a_field_with_a_long_name', 'some words that go on and on until there is no place left for them'],
      ['ingest', `POST ${url}`],
      ['endless', 'x'.repeat(200)],
    ],
  }
  const drawn = lines(table, 80)
  t.match(drawn[2], /^ {26}\S/, 'goes on below itself')
  t.ok(
    drawn.some((line) => line.trim() === url),
    'one line',
  )
  for (const line of drawn) t.ok(line.length <= 80, line)
  t.equal(drawn.join('').match(/x/g)?.length, 200 + 1, 'nothing is lost')
})

t.test(
  'text of others does nothing on the terminal; states are painted, and padded all the same',
  async (t) => {
    const table: Table = {
      columns: ['A', 'B'],
      rows: [['blocked', 'x\u001b[2J']],
      notes: ['\u001b]0;x\u0007'],
    }
    t.equal(drawTable(table, 80, false), 'A        B\nblocked  x\u{fffd}[2J\n  └ \u{fffd}]0;x\u{fffd}\n')
    t.match(drawTable(table, 80, true), '\u001b[31mblocked\u001b[0m  x')
    t.equal(drawTable({ columns: ['A'], rows: [], empty: 'nothing yet' }, 80, true), 'nothing yet\n')
  },
)
