/** The man page that `npm run build` makes: man and groff have nothing against it, and nothing of the program is missing. */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Command } from 'commander'
import t from 'tap'
import { exitCodes as daemonExitCodes } from '../../src/apps/cli/failure.ts'
import { buildProgram } from '../../src/apps/cli/program.ts'
import { exitCodes } from '../../src/apps/client/failure.ts'
import { version } from '../../src/platform/version.ts'
import { settingDefinitions } from '../../src/settings/settings.ts'
import { cleanEnv } from '../support/daemon.ts'

const file = new URL('../../dist/man/pipectl.1', import.meta.url).pathname
const env = cleanEnv({ MANWIDTH: '300', LC_ALL: 'C.UTF-8', MANPAGER: 'cat' })
const shown = execFileSync('man', ['-l', file], { env, encoding: 'utf8', maxBuffer: 1 << 24 })
const program = await buildProgram()

function commandsOf(command: Command, name = ''): { name: string; command: Command }[] {
  const own = `${name}${command.name()}`
  return [{ name: own, command }, ...command.commands.flatMap((one) => commandsOf(one, `${own} `))]
}
const commands = commandsOf(program).filter(({ command }) => command.name() !== '__complete')

/** The part of one command: from its heading to the next. */
function partOf(name: string): string {
  const parts = shown.split(/^ {3}(?=pipectl )/m).slice(1)
  return parts.find((part) => new RegExp(`^${name}( <| \\[|\\n)`).test(part)) ?? ''
}

function warningsOf(page: string): string {
  const man = spawnSync('man', ['--warnings', '-l', page], { env, encoding: 'utf8' })
  const groff = spawnSync('groff', ['-man', '-ww', '-Tutf8', page], { env, encoding: 'utf8' })
  if (man.status === null || groff.status === null) throw man.error ?? groff.error ?? new Error('not run')
  return `${man.stderr}${groff.stderr}`
}

t.test('man and groff warn of nothing, at any width', async (t) => {
  t.equal(warningsOf(file), '')
  for (const MANWIDTH of ['60', '80']) {
    const { stderr } = spawnSync('man', ['--warnings', '-l', file], {
      env: { ...env, MANWIDTH },
      encoding: 'utf8',
    })
    t.equal(stderr, '')
  }
  t.notMatch(readFileSync(file, 'latin1'), /[^\n\x20-\x7e]/, 'ASCII alone: it looks the same in any locale')
})

t.test('it has the parts of a man page, and the version', async (t) => {
  const headings = [...shown.matchAll(/^[A-Z][A-Z ]+$/gm)].map(([heading]) => heading)
  t.same(headings, [
    ...[
      'NAME',
      'SYNOPSIS',
      'DESCRIPTION',
      'COMMANDS',
      'TOPICS',
      'CONNECTION OPTIONS',
      'SETTINGS',
      'ENVIRONMENT',
    ],
    ...['FILES', 'EXIT STATUS', 'SEE ALSO'],
  ])
  t.match(shown, new RegExp(`pipectl ${version().replaceAll('.', '\\.')}`))
  t.match(shown, /^ {7}pipectl - \w/m)
})

t.test('every command that does something, with its options, arguments and example', async (t) => {
  let options = 0
  for (const { name, command } of commands) {
    if (command === program || (command.commands.length > 0 && command.options.length === 0)) continue
    const part = partOf(name)
    t.ok(part.includes(`Examples:`) && part.split('Examples:')[1]!.includes(name), name)
    for (const argument of command.registeredArguments) t.ok(part.includes(argument.name()), name)
    for (const { flags, helpGroupHeading } of command.options) {
      const place = helpGroupHeading === 'Connection:' ? shown.split('CONNECTION OPTIONS')[1]! : part
      t.ok(place.includes(`       ${flags}`), `${name} ${flags}`)
      options++
    }
  }
  t.ok(commands.length > 70 && options > 200, `${commands.length} commands, ${options} options`)
})

t.test('every setting with its default, and every exit code', async (t) => {
  for (const { key, env: variable } of settingDefinitions)
    t.match(shown, new RegExp(`${key}, .*${variable}\n`))
  const [, codes = ''] = /^EXIT STATUS\n([\s\S]*?)\n[A-Z]/m.exec(shown) ?? []
  const listed = [...codes.matchAll(/^ {7}(\d+) /gm)].map(([, code]) => Number(code))
  const known = [...Object.values(exitCodes), ...Object.values(daemonExitCodes)]
  t.same(
    listed,
    [...new Set(known)].sort((a, b) => a - b),
  )
})

t.test('negative control: what is missing or not well made is noticed', async (t) => {
  t.equal(partOf('pipectl pipes none'), '')
  const damaged = path.join(t.testdir(), 'damaged.1')
  writeFileSync(
    damaged,
    readFileSync(file, 'utf8').replace('.SH "COMMANDS"', '.SH "COMMANDS"\n.XX\n\\[none]'),
  )
  t.match(warningsOf(damaged), /XX[\s\S]*none/)
})
