import t from 'tap'
import { decimalOf } from '../../../src/destinations/decimal-text.ts'
import type { DeliveryError } from '../../../src/destinations/driver.ts'
import { rowsOf } from '../../../src/destinations/mysql/rows.ts'
import { planInsert } from '../../../src/destinations/mysql/statement.ts'
import type { TableDescription } from '../../../src/destinations/mysql/table.ts'
import type { ColumnKind, MysqlColumn } from '../../../src/destinations/mysql/values.ts'
import { makeBatch } from '../../support/batches.ts'

const column = (kind: ColumnKind): MysqlColumn => ({
  name: 'v',
  kind,
  type: kind,
  members: new Set(),
  timePrecision: 6,
  isNotNull: false,
  hasDefault: true,
  isGenerated: false,
})

t.test(
  'a numeric column takes nothing longer than 1,000 characters, and the error names the column',
  async (t) => {
    for (const kind of ['integer', 'bit', 'number'] as const) {
      const table: TableDescription = {
        database: 'd',
        name: 't',
        columns: [column(kind)],
        uniqueKeys: [],
        isTransactional: true,
        engine: 'InnoDB',
      }
      const plan = planInsert(table, [], 'ingest_ts')
      const longest = '7'.repeat(1_000)
      // 64 bits have 20 digits.
      for (const text of kind === 'bit' ? [] : [longest, `"${longest}"`])
        t.equal([...rowsOf(makeBatch([[`{"v":${text}}`]]), plan)][0]?.values[0], longest, kind)
      for (const text of [`${longest}7`, `"${longest}7"`, `" ${longest}"`]) {
        const error = t.throws(() =>
          Array.from(rowsOf(makeBatch([['{"v":1}'], [`{"v":${text}}`]]), plan)),
        ) as DeliveryError
        t.match(error, { class: 'permanent', code: 'invalid_value', failedSeq: 2 })
        t.match(error.message, /^Column "v" .* 1001 characters.* at most 1000/)
        t.ok(error.message.length < 400, 'the value itself is not in the message')
      }
    }
  },
)

t.test('whole numbers are told from fractions however they are written', async (t) => {
  const fractions = ['1.5', '-0.1', '1e-1', '10e-2', ' 1.50 ', '.5', '+.5e0', '15E-1', '1.05e1', '0.001e2']
  const others = [
    '1',
    '-1',
    '1.0',
    '1.',
    '.0',
    '.',
    '',
    ' ',
    '1e5',
    '1.5e1',
    '1.50e1',
    '100e-2',
    '0e-99',
    '0.000',
    '1e',
    '1x',
    'e',
    '--1',
    '1 2',
    '1.5.5',
  ]
  const isFraction = (text: string) => (decimalOf(text)?.scale ?? 0) > 0
  for (const text of fractions) t.equal(isFraction(text), true, text)
  for (const text of others) t.equal(isFraction(text), false, text)
})
