/**
 * `npm run docs:compatibility`: writes the table of docs/compatibility.md from the results of the tests of this folder, which have to
 * have run before (`npm run test:full -- --only compat`). Throws if one of them did not run or did not pass.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { type ProductId, products } from './products.ts'
import { resultOf } from './results.ts'
import { fillTable } from './table.ts'

const file = new URL('../../docs/compatibility.md', import.meta.url)
const ids = Object.keys(products) as ProductId[]
writeFileSync(
  file,
  fillTable(readFileSync(file, 'utf8'), Object.fromEntries(ids.map((id) => [id, resultOf(id)]))),
)
