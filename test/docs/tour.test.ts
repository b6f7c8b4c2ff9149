/**
 * The way of a record as ARCHITECTURE.md tells it: one record is sent to a daemon, and the functions of both tables are
 * called, in their order. The second table begins after the commit; what follows it runs at the same time as the 202.
 */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { linesOf, type NamedFunction, traceCalls } from '../support/call-trace.ts'
import { startDaemon } from '../support/daemon.ts'
import { startPostgres } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const page = readFileSync(new URL('../../ARCHITECTURE.md', import.meta.url), 'utf8')
const committed = 'SegmentWriter.commit'
const last = 'DurableState.#save'
/** JSON.parse of a body that the scanner does not accept: no function on the way of a plain record. */
const elsewhere = { file: 'src/ingest/prepare.ts', name: 'prepareBody' }

/** Rows of a section: | thread | `file` | `function` | what happens | */
function rowsOf(heading: string): NamedFunction[] {
  const section = page.split(`### ${heading}\n`)[1]?.split('\n## ')[0]?.split('\n### ')[0] ?? ''
  return [...section.matchAll(/^\| \w+ \| `(src\/[^`]+)` \| `([^`]+)` \|/gm)].map(
    ([, file = '', name = '']) => ({ file, name }),
  )
}

const toResponse = rowsOf('From the socket to the fsync and the 202')
const toCursor = rowsOf('From the log to the row and the cursor')
const tour = [...toResponse, ...toCursor]

const isSame = (one: NamedFunction, other: NamedFunction) =>
  one.name === other.name && one.file === other.file

/** The first function that is not called after those before it; null: all of them are. */
function missed(functions: readonly NamedFunction[], calls: readonly NamedFunction[]): string | null {
  let at = 0
  for (const one of functions) {
    const index = calls.slice(at).findIndex((call) => isSame(call, one))
    if (index < 0) return one.name
    at += index + 1
  }
  return null
}

function afterCommit(calls: readonly NamedFunction[]): readonly NamedFunction[] {
  return calls.slice(calls.findIndex(({ name }) => name === committed) + 1)
}

async function callsOfOneRecord(): Promise<NamedFunction[]> {
  const trace = traceCalls([...tour, elsewhere], t.testdir())
  const postgres = await startPostgres()
  t.teardown(() => postgres.stop())
  const { host, port, database, user: username, password } = postgres
  await postgres.query('CREATE TABLE visits (page text)')
  const daemon = await startDaemon(trace.options)
  t.teardown(() => daemon.close())
  const pipeId = await daemon.createPipe({ pipe_name: 'visits' })
  const destinationId = await daemon.createDestination(pipeId, {
    destination_type: 'destination_database',
    destination_config: { host, port, database, username, password, table: 'visits' },
    columns: [{ column_name: 'page', column_type: 'string' }],
  })
  await until('the lane waits', async () => (await daemon.lane(pipeId, destinationId)).lane_state === 'idle')
  trace.clear()
  await daemon.ingest(pipeId, { page: '/' })
  // The range is saved before the attempt, and the cursor after it.
  await until('the cursor is saved', () => missed(toCursor, afterCommit(trace.calls())) === null)
  t.same(await postgres.query('SELECT page FROM visits'), [{ page: '/' }])
  return trace.calls()
}

const calls = await callsOfOneRecord()

t.test('a record takes the way from the socket to the 202, function by function', async (t) => {
  t.equal(missed(toResponse, calls), null)
})

t.test('and from the log to the row and the cursor', async (t) => {
  t.equal(missed(toCursor, afterCommit(calls)), null)
  t.equal(toCursor.at(-1)?.name, last)
})

t.test('negative control: a function of another path, or in another order, is noticed', async (t) => {
  t.equal(missed([...toResponse, elsewhere], calls), elsewhere.name)
  const exchanged = toResponse.with(0, toResponse[1]!).with(1, toResponse[0]!)
  t.equal(missed(exchanged, calls), toResponse[0]!.name)
  t.throws(() => linesOf({ file: elsewhere.file, name: 'noSuchFunction' }), /no noSuchFunction/)
})

t.test('the tour can be read in one sitting, and is as long as the page says', async (t) => {
  const [, count, lines] = /name (\d+) functions, about (\d+) lines/.exec(page) ?? []
  t.equal(Number(count), tour.length)
  const actual = tour.reduce((sum, one) => sum + linesOf(one), 0)
  t.ok(actual <= 530 && Math.abs(actual - Number(lines)) <= 25, `${actual} lines`)
})

t.test('the page has a row for every module', async (t) => {
  const modules = readdirSync(new URL('../../src/', import.meta.url), { withFileTypes: true })
  const table = page.split('\n## Modules\n')[1]?.split('\n## ')[0] ?? ''
  const rows = [...table.matchAll(/^\| (`.+?`) \| /gm)].flatMap(([, names = '']) => names.split(', '))
  t.same(
    rows.map((name) => name.replaceAll('`', '')).sort(),
    modules
      .filter((one) => one.isDirectory())
      .map(({ name }) => name)
      .sort(),
  )
})
