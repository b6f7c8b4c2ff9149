/** docs/compatibility.md lists the products that the tests run, and only these as tested. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { notRun, products } from '../compat/products.ts'
import { fillTable, namedIn } from '../compat/table.ts'

const page = readFileSync(new URL('../../docs/compatibility.md', import.meta.url), 'utf8')
const listed = Object.values(products).map(({ name, from, ran }) => [name, from, ran])

t.test('the page has a row for each product; `npm run docs:compatibility` writes them', async (t) => {
  t.same(namedIn(page).tested, listed)
  t.same(namedIn(page).notRun, notRun)
  t.ok(listed.length > 10)
})

t.test('every row has a version and a day', async (t) => {
  const rows = page.match(/^\| .* \| \d+(\.\d+)+ \| .* \| 20\d\d-\d\d-\d\d \|$/gm)
  t.equal(rows?.length, listed.length)
})

t.test('negative control: a row that is missing is seen, and a failed test is no row', async (t) => {
  const [row = ''] = page.match(/^\| MySQL \| .*\n/m) ?? []
  t.not(row, '')
  t.notSame(namedIn(page.replace(row, '')).tested, listed)
  const result = { version: '1.0', day: '2026-01-02', passed: true }
  const results = Object.fromEntries(Object.keys(products).map((id) => [id, result]))
  t.same(namedIn(fillTable(page, results)).tested, listed)
  t.throws(
    () => fillTable(page, { ...results, mysql: { ...result, passed: false } }),
    /mysql: its test did not pass/,
  )
})
