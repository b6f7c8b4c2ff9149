/**
 * The help of every command is in help.txt, where a reviewer sees each change. `npm run help:texts` writes it again.
 * Rules for every command are tested here.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Command } from 'commander'
import t from 'tap'
import { buildProgram } from '../../../src/apps/cli/program.ts'

const file = new URL('../../../test/unit/cli/help.txt', import.meta.url)
const program = await buildProgram()

function withChildren(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withChildren)]
}
function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`
}
function helpOf(command: Command): string {
  let text = ''
  command.configureOutput({ writeOut: (part) => (text += part), getOutHelpWidth: () => 100 })
  command.outputHelp()
  return text
}

const all = withChildren(program).filter((one) => one.name() !== '__complete')
const leaves = all.filter((one) => one.commands.length === 0)
const names = (commands: readonly Command[]) => commands.map(fullName)
const heading = (command: Command) => `$ ${fullName(command)} --help`

t.test('each command has the help that was reviewed', async (t) => {
  const texts = new Map(all.map((command) => [heading(command), helpOf(command)]))
  if (process.env.WRITE_HELP === '1')
    writeFileSync(file, [...texts].map(([name, help]) => `${name}\n\n${help}`).join('\n'))
  const reviewed = sections(readFileSync(file, 'utf8'))
  t.same([...reviewed.keys()], [...texts.keys()], 'the commands, in their order')
  for (const [name, help] of texts)
    if (help.trimEnd() !== reviewed.get(name)) t.equal(help.trimEnd(), reviewed.get(name), name)
})

function sections(text: string): Map<string, string> {
  const parts = text.split(/^(\$ pipectl.* --help)$/m).slice(1)
  return new Map(
    parts.flatMap((part, at) => (at % 2 === 0 ? [[part, (parts[at + 1] ?? '').trim()] as const] : [])),
  )
}

t.test('the help of every command has an example of that very command', async (t) => {
  const without = leaves.filter((command) => {
    const examples = /\nExamples?:\n(.*)$/s.exec(helpOf(command))?.[1] ?? ''
    return !examples.includes(fullName(command))
  })
  t.same(names(without), [])
})

t.test('no command takes a secret as the value of a flag', async (t) => {
  const secrets = /^--(api-key|password|secret-key|session-token|auth-header|signing-secret|token)$/
  t.same(names(leaves.filter((one) => one.options.some(({ long }) => secrets.test(long ?? '')))), [])
})

t.test('what destroys something can be told not to ask', async (t) => {
  const destroying = [
    'pipes delete',
    'destinations delete',
    'destinations reset-pin',
    'lanes skip',
    'lanes rewind',
    'parked edit',
    'parked discard',
    'keys revoke',
    'users delete',
    'secrets forget',
    'apply',
  ]
  const telling = names(leaves.filter((one) => one.options.some(({ long }) => long === '--yes')))
  t.same(
    destroying.filter((name) => !telling.includes(`pipectl ${name}`)),
    [],
  )
})
