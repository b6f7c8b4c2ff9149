/** CONTRIBUTING.md names commands and groups of tests that exist. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { groups } from '../tiers.ts'

const root = new URL('../../', import.meta.url)
const page = readFileSync(new URL('CONTRIBUTING.md', root), 'utf8')
const { scripts } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as {
  scripts: Record<string, string>
}

function unknownCommands(text: string): string[] {
  const named = [...text.matchAll(/npm run ([\w:-]+)/g)].map(([, name = '']) => name)
  return named.filter((name) => scripts[name] === undefined)
}

/** The groups in the table | changed | groups |. */
function groupsIn(text: string): string[] {
  const table = text.split('\n| changed | groups |\n')[1]?.split('\n\n')[0] ?? ''
  const cells = [...table.matchAll(/\| ([^|]+) \|$/gm)].map(([, cell = '']) => cell)
  return cells.flatMap((cell) => [...cell.matchAll(/`([\w-]+)`/g)].map(([, name = '']) => name))
}

t.test('every command is a script of package.json', async (t) => {
  t.same(unknownCommands(page), [])
  t.same(unknownCommands('`npm run no-such`'), ['no-such'], 'negative control')
})

t.test('every group of tests is one of test/tiers.ts', async (t) => {
  const named = groupsIn(page)
  t.ok(named.length > 10, `${named.length} groups`)
  t.same(
    named.filter((name) => groups[name] === undefined),
    [],
  )
})
