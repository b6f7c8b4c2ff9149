import { readFileSync } from 'node:fs'
import t from 'tap'
import { buildProgram } from '../../src/cli/program.ts'

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
const program = await buildProgram()

/** The table under "## Commands": command → its subcommands. */
function tableOf(text: string): Record<string, string[]> {
  const section = /## Commands\n([\s\S]*?)\n##+ /.exec(text)?.[1] ?? ''
  const rows = [...section.matchAll(/^\| `([a-z]+)` \| (.*?) \| .*\|$/gm)]
  return Object.fromEntries(rows.map(([, name, list]) => [name, (list ?? '').match(/[a-z-]+/g) ?? []]))
}

t.test('--help and the README list the same commands', async (t) => {
  const commands = program.commands.filter((one) => one.name() !== '__complete')
  const expected = Object.fromEntries(
    commands.map((one) => [one.name(), one.commands.map((sub) => sub.name())]),
  )
  t.same(tableOf(readme), expected)
  t.ok(commands.length > 15)
})

t.test('negative control: a command that the README lacks is noticed', async (t) => {
  const without = tableOf(readme.replace(/^\| `doctor` .*\n/m, ''))
  t.notOk('doctor' in without)
  t.ok('doctor' in tableOf(readme))
})
