/** docs/comparison.md: its figures are those that were measured, as the README's tables have them. */
import { readFileSync } from 'node:fs'
import t from 'tap'

const root = new URL('../../../', import.meta.url)
const [page, readme] = ['docs/comparison.md', 'README.md'].map((name) =>
  readFileSync(new URL(name, root), 'utf8'),
) as [string, string]
const [, speed = ''] = /\n## Speed\n([\s\S]*?)\n## /.exec(readme) ?? []
const figuresOf = (text: string): string[] => text.match(/\d{1,3}(?:,\d{3})+|\d+ MB/g) ?? []

t.test('every figure of its table is in the tables of the README', async (t) => {
  const [, table = ''] = /^Measured, [\s\S]*?\n\n([\s\S]*?)\n\n/m.exec(page) ?? []
  const figures = figuresOf(table)
  t.ok(figures.length >= 6, figures.join(' '))
  const measured = figuresOf(speed)
  t.same(
    figures.filter((figure) => !measured.includes(figure)),
    [],
  )
})
