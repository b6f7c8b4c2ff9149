/** Without mappings a record's keys decide which columns its statement names: strangers choose the keys. */
import t from 'tap'
import { resourceLimits } from '../../../src/contract/resource-limits.ts'
import { rowsOf } from '../../../src/destinations/mysql/rows.ts'
import { planInsert } from '../../../src/destinations/mysql/statement.ts'
import type { TableDescription } from '../../../src/destinations/mysql/table.ts'
import { makeBatch } from '../../support/batches.ts'

const table: TableDescription = {
  database: 'd',
  name: 't',
  columns: Array.from({ length: 20 }, (_, index) => ({
    name: `c${index}`,
    kind: 'text' as const,
    type: 'text',
    members: new Set<string>(),
    timePrecision: 0,
    isNotNull: false,
    hasDefault: true,
    isGenerated: false,
  })),
  uniqueKeys: [],
  isTransactional: true,
  engine: 'InnoDB',
}

/** A record whose keys are the bits of a number. */
const record = (bits: number) =>
  Object.fromEntries(table.columns.flatMap(({ name }, index) => ((bits >> index) & 1 ? [[name, 'x']] : [])))

t.test('a plan keeps the shapes used last, and no more than the limit', async (t) => {
  const plan = planInsert(table, [], 'ingest_ts')
  const shapeOf = (bits: number) => [...rowsOf(makeBatch([[record(bits)]]), plan)][0]?.columns
  const { rowShapes } = resourceLimits
  const [often, seldom] = [shapeOf(1), shapeOf(2)]
  for (let bits = 3; bits < rowShapes + 3; bits++) {
    shapeOf(bits)
    t.equal(shapeOf(1), often, 'one that is used again and again stays')
  }
  t.not(shapeOf(2), seldom, 'one that was not used for long is made again')
  const many = Array.from({ length: 10 * rowShapes }, (_, index) => record(index + 1))
  t.equal([...rowsOf(makeBatch([many]), plan)].length, many.length, 'more shapes than that in one batch')
})
