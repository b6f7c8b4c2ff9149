import { Command } from 'commander'
import t from 'tap'
import { registerCommands } from '../../../src/cli/commands.ts'

const program = new Command('pipectl')
registerCommands(program)

function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves)
}
function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`
}
function helpOf(command: Command): string {
  let text = ''
  command.configureOutput({ writeOut: (part) => (text += part) })
  command.outputHelp()
  return text
}

const visible = leaves(program).filter((one) => one.name() !== '__complete')

t.test('there is every command that people were promised', async (t) => {
  const names = visible.map((one) => fullName(one).replace('pipectl ', ''))
  const promised = [
    ...['list', 'get', 'create', 'update', 'pause', 'resume', 'delete'].map((one) => `pipes ${one}`),
    ...[
      'list',
      'get',
      'create',
      'update',
      'block',
      'unblock',
      'reset-pin',
      'test',
      'try-transform',
      'drift',
      'delete',
    ].map((one) => `destinations ${one}`),
    ...['list', 'skip', 'retry', 'rewind', 'blocking-message'].map((one) => `lanes ${one}`),
    ...['list', 'show', 'edit', 'replay', 'discard', 'export'].map((one) => `parked ${one}`),
    ...['get', 'set', 'clear'].map((one) => `limits ${one}`),
    ...['list', 'add', 'remove'].map((one) => `origins ${one}`),
    ...['list', 'create', 'revoke', 'rotate', 'purge'].map((one) => `keys ${one}`),
    ...['create', 'list', 'password', 'role', 'delete', 'setup-link'].map((one) => `users ${one}`),
    ...['add', 'use', 'list', 'remove'].map((one) => `profile ${one}`),
    ...['get', 'set', 'clear', 'test'].map((one) => `alerts ${one}`),
    ...[
      'ingest',
      'pull',
      'why',
      'messages',
      'tail',
      'status',
      'usage',
      'audit',
      'top',
      'config show',
      'openapi',
      'completion',
      'doctor',
      'verify',
      'version',
      'repair',
      'migrate',
      'backup',
      'restore',
    ],
    ...['apply', 'diff', 'export'],
    ...['forget', 'rotate-key'].map((one) => `secrets ${one}`),
    ...['drain', 'undrain'].map((one) => `nodes ${one}`),
  ]
  t.same([...names].sort(), promised.sort())
})

t.test('the help of every command has an example of that very command', async (t) => {
  for (const command of visible) {
    const help = helpOf(command)
    t.match(help, /\nExamples?:\n/, fullName(command))
    const examples = help.slice(help.lastIndexOf('Example'))
    t.ok(examples.includes(fullName(command)), `${fullName(command)} shows itself`)
  }
})

t.test('no command takes a secret as the value of a flag', async (t) => {
  const secrets = /^--(api-key|password|secret-key|session-token|auth-header|signing-secret|token)$/
  for (const command of visible) {
    for (const option of command.options) t.notMatch(option.long, secrets, fullName(command))
  }
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
  for (const name of destroying) {
    const command = visible.find((one) => fullName(one) === `pipectl ${name}`)
    t.ok(
      command?.options.some((option) => option.long === '--yes'),
      name,
    )
  }
})
