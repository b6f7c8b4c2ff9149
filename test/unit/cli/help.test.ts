/**
 * The help of every command is in help.txt, where a reviewer sees each change. `npm run help:texts` writes it again.
 * Rules for every command are tested here.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import type { Command } from 'commander'
import t from 'tap'
import { foldedOptions } from '../../../src/apps/cli/help.ts'
import { buildProgram } from '../../../src/apps/cli/program.ts'
import { destinationTypes, fieldsOf, wordsOf } from '../../../src/contract/destination-words.ts'
import { runCli } from '../../support/cli.ts'

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

t.test('every help says what the command does, then has an example of that very command', async (t) => {
  const without = leaves.filter((command) => {
    const [, examples = ''] = /^[^\n]+\.\n\nExamples?:\n((?: {2}.*\n)+)\nUsage:/.exec(helpOf(command)) ?? []
    return !examples.includes(fullName(command))
  })
  t.same(names(without), [])
})

t.test('a group has examples of its commands', async (t) => {
  const groups = all.filter((one) => one.commands.length > 0)
  t.same(names(groups.filter((one) => !/^[^\n]+\.\n\nExamples?:\n {2}pipectl /.test(helpOf(one)))), [])
})

t.test('the commands are in groups', async (t) => {
  t.same(
    [...helpOf(program).matchAll(/^(\w.*):$/gm)].map(([, heading]) => heading),
    [
      ...['Examples', 'Options', 'Getting started', 'Pipes and destinations', 'Operate', 'Access'],
      ...['Data directory', 'Cluster', 'Terms'],
    ],
  )
})

t.test('pipectl alone: how to begin and every command, in 15 lines of 80 columns, exit code 0', async (t) => {
  const { code, stdout, stderr } = await runCli([])
  t.same({ code, stderr }, { code: 0, stderr: '' })
  const lines = stdout.trimEnd().split('\n')
  t.equal(lines.length, 15)
  t.same(
    lines.filter((line) => line.length > 80),
    [],
  )
  const words = new Set(stdout.split(/\s+/))
  t.same(
    program.commands.map((one) => one.name()).filter((name) => name !== '__complete' && !words.has(name)),
    [],
  )
})

t.test('help leads to the help of any command, and says which word it does not know', async (t) => {
  const [direct, asked] = await Promise.all([
    runCli(['lanes', 'rewind', '--help']),
    runCli(['help', 'lanes', 'rewind']),
  ])
  t.same(asked, direct)
  t.match(await runCli(['help', 'lanes', 'rewnd']), {
    code: 2,
    stderr:
      'error: there is no help on "rewnd"\n  next: did you mean rewind? `pipectl lanes --help` lists what there is\n',
  })
})

t.test('no help is longer than 60 lines; options that it only names are described in a topic', async (t) => {
  const long = await Promise.all(
    leaves.map(async (command) => {
      const { stdout } = await runCli([...fullName(command).split(' ').slice(1), '--help'])
      return stdout.trimEnd().split('\n').length > 60 ? fullName(command) : null
    }),
  )
  t.same(
    long.filter((one) => one !== null && one !== 'pipectl serve'),
    [],
  )
  for (const topic of new Set(Object.values(foldedOptions)))
    t.match(await runCli(['help', ...topic.replace('TYPE', 'database').split(' ')]), {
      code: 0,
      stdout: /--\w/,
    })
  const folded = leaves.flatMap((one) =>
    one.options.filter((option) => option.helpGroupHeading !== undefined),
  )
  const described = await Promise.all(
    ['connection', 'destinations delivery', 'destinations transform', 'destinations infer'].map(
      async (topic) => (await runCli(['help', ...topic.split(' ')])).stdout,
    ),
  )
  const types = await Promise.all(
    destinationTypes.map(async (type) => (await runCli(['help', 'destinations', wordsOf(type).kind])).stdout),
  )
  const texts = [...described, ...types].join('\n')
  t.same(
    [...new Set(folded.map((one) => one.long!))].filter((name) => !texts.includes(name)),
    [],
  )
})

t.test('help destinations TYPE has every key of the type', async (t) => {
  for (const type of destinationTypes) {
    const { stdout } = await runCli(['help', 'destinations', wordsOf(type).kind])
    for (const [key] of fieldsOf(type)) t.match(stdout, new RegExp(`^ {2}${key}\\*? `, 'm'), `${type} ${key}`)
  }
})

t.test('wrong usage has the form of every error, with what was probably meant', async (t) => {
  const wrong: [args: string[], message: string, hint: string][] = [
    [['pieps', 'list'], "unknown command 'pieps'", 'did you mean pipes?'],
    [['pipes', 'craete', 'x'], "unknown command 'craete'", 'did you mean create?'],
    [['status', '--chekc'], "unknown option '--chekc'", 'did you mean --check?'],
    [
      ['limits', 'set', 'events', '--records', '10'],
      "unknown option '--records'",
      'did you mean --records-per-request, --records-per-second or --records-per-day?',
    ],
    [
      ['parked', 'show', 'hooks/ep-parks/01a209c2'],
      "missing required argument 'parked'",
      'for example `pipectl parked show orders/database 1a2b3c4d`',
    ],
    [
      ['lanes', 'rewind', 'orders'],
      "required option '--to <point>' not specified",
      'for example `pipectl lanes',
    ],
    [['pipes', 'get', 'a', 'b'], "too many arguments for 'get'", '`pipectl pipes get --help`'],
    [
      ['pipes', 'list', '-o', 'xml'],
      "option '-o, --output <format>' argument 'xml' is invalid",
      '`pipectl pipes list --help`',
    ],
  ]
  for (const [args, message, hint] of wrong) {
    const { code, stdout, stderr } = await runCli(args)
    t.same({ code, stdout }, { code: 2, stdout: '' }, args.join(' '))
    t.match(stderr, /^error: [^\n]+\n {2}next: [^\n]+\n$/)
    t.ok(stderr.startsWith(`error: ${message}`), stderr)
    t.ok(stderr.includes(`  next: ${hint}`), stderr)
  }
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
