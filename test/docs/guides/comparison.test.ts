/** docs/comparison.md: its figures are those that were measured, as docs/benchmarks.md has them. */
import { readFileSync } from 'node:fs'
import t from 'tap'

const root = new URL('../../../', import.meta.url)
const [page, benchmarks] = ['docs/comparison.md', 'docs/benchmarks.md'].map((name) =>
  readFileSync(new URL(name, root), 'utf8'),
) as [string, string]
const figuresOf = (text: string): string[] => text.match(/\d{1,3}(?:,\d{3})+|\d+ MB/g) ?? []

t.test('every figure of its table is in the benchmarks', async (t) => {
  const [, table = ''] = /^Measured, [\s\S]*?\n\n([\s\S]*?)\n\n/m.exec(page) ?? []
  const figures = figuresOf(table)
  t.ok(figures.length >= 6, figures.join(' '))
  const measured = figuresOf(benchmarks)
  t.same(
    figures.filter((figure) => !measured.includes(figure)),
    [],
  )
})
