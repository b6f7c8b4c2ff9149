/** The README's tour of a record's way: every file and function that it names exists and is as long as it says. */
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import ts from 'typescript'

const root = new URL('../../', import.meta.url)
const readme = readFileSync(new URL('README.md', root), 'utf8')

interface Stop {
  file: string
  name: string
  lines: number
}

/** Rows of the form | `file#name` | what happens | lines |. */
function stopsOf(text: string): Stop[] {
  const rows = text.matchAll(/^\| `(src\/[^`#]+)#([^`]+)` \| .+ \| (\d+) \|$/gm)
  return [...rows].map(([, file = '', name = '', lines]) => ({ file, name, lines: Number(lines) }))
}

/** Lines of a function, method or interface with this name; null: there is none, or several. */
function linesOf(file: string, source: string, name: string): number | null {
  const parsed = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true)
  const found: number[] = []
  const visit = (node: ts.Node): void => {
    const isNamed =
      ts.isFunctionDeclaration(node) ||
      ts.isMethodDeclaration(node) ||
      ts.isInterfaceDeclaration(node) ||
      (ts.isPropertyAssignment(node) && ts.isArrowFunction(node.initializer))
    if (isNamed && node.name?.getText().replace(/^#/, '') === name) {
      const lineAt = (position: number) => parsed.getLineAndCharacterOfPosition(position).line
      found.push(lineAt(node.getEnd()) - lineAt(node.getStart()) + 1)
    }
    ts.forEachChild(node, visit)
  }
  visit(parsed)
  return found.length === 1 ? found[0]! : null
}

function problemsIn(stops: Stop[]): string[] {
  return stops.flatMap(({ file, name, lines }) => {
    const url = new URL(file, root)
    if (!existsSync(url)) return [`${file} does not exist`]
    const actual = linesOf(file, readFileSync(url, 'utf8'), name)
    if (actual === null) return [`${file} has no ${name}`]
    const isNear = Math.abs(actual - lines) <= Math.max(5, lines / 5)
    return isNear ? [] : [`${file}#${name} has ${actual} lines, not about ${lines}`]
  })
}

t.test('every stop of the tour exists and is about as long as it says', async (t) => {
  t.same(problemsIn(stopsOf(readme)), [])
  t.ok(stopsOf(readme).length >= 10)
})

t.test('the tour is short: it can be read at a sitting', async (t) => {
  const lines = stopsOf(readme).reduce((sum, stop) => sum + stop.lines, 0)
  t.match(readme, new RegExp(`about ${Math.round(lines / 10) * 10} lines`))
  t.ok(lines <= 500, `${lines} lines`)
})

t.test('negative control: a made-up file, function or length is noticed', async (t) => {
  const made = (row: string) => problemsIn(stopsOf(`| ${row} |\n`))
  t.same(made('`src/ingest/ingest.ts#createIngest` | takes a request | 38'), [])
  t.same(made('`src/ingest/no-such.ts#createIngest` | takes a request | 49'), [
    'src/ingest/no-such.ts does not exist',
  ])
  t.same(made('`src/ingest/accept.ts#noSuchFunction` | takes a request | 49'), [
    'src/ingest/accept.ts has no noSuchFunction',
  ])
  t.match(made('`src/ingest/ingest.ts#createIngest` | takes a request | 500'), [/not about 500/])
})

t.test('every link and every path of the repository that the README names leads somewhere', async (t) => {
  const links = [...readme.matchAll(/\]\(([^)#]+)\)/g)].map(([, link = '']) => link)
  const paths = [...readme.matchAll(/`((?:src|test|config|systemd|openapi|bin)\/[\w./-]*)`/g)]
  const named = [...links.filter((link) => !link.includes('://')), ...paths.map(([, name = '']) => name)]
  t.ok(named.length >= 10)
  t.same(
    named.filter((name) => !existsSync(new URL(name, root))),
    [],
  )
})
