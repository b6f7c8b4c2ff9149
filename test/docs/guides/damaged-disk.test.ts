/** docs/damaged-disk.md: walked, and it speaks of commands, options, events and settings that exist. */
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import t from 'tap'
import { buildProgram } from '../../../src/apps/cli/program.ts'
import { settingDefinitions } from '../../../src/settings/settings.ts'
import { walk } from '../../support/guide-walker.ts'

const root = new URL('../../../', import.meta.url)
const page = readFileSync(new URL('docs/damaged-disk.md', root), 'utf8')
const source = readdirSync(new URL('src/', root), { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => readFileSync(path.join(new URL('src/', root).pathname, file), 'utf8'))
  .join('\n')
const program = await buildProgram()

/** Command lines of the page: in blocks and between backquotes. */
const commandsOf = (text: string) =>
  [...text.matchAll(/(?:^|`)pipectl ([a-z]+(?: [a-z-]+)?[^`\n|]*)/gm)].map(([, line = '']) => line.trim())

function problemIn(line: string): string | null {
  const words = line.split(/\s+/)
  let command = program
  for (const word of words) {
    const child = command.commands.find((one) => one.name() === word)
    if (child === undefined) break
    command = child
  }
  if (command === program) return `${line}: no such command`
  const known = command.options.flatMap((one) => [one.long, one.short])
  const unknown = words.filter((word) => word.startsWith('-') && !known.includes(word))
  return unknown.length === 0 ? null : `${line}: no ${unknown.join(', ')}`
}

t.test('every command and option exists', async (t) => {
  const commands = commandsOf(page)
  t.ok(commands.length >= 8, commands.join('; '))
  t.same(
    commands.map(problemIn).filter((one) => one !== null),
    [],
  )
})

t.test('every event is one that is logged', async (t) => {
  const events = [...page.matchAll(/`((?:buffer|lane)\.[a-z_]+)`/g)].map(([, event = '']) => event)
  const settings: string[] = settingDefinitions.map(({ key }) => key)
  t.ok(events.length >= 10)
  t.same(
    events.filter((event) => !settings.includes(event) && !source.includes(`'${event}'`)),
    [],
  )
})

t.test('negative control: what does not exist is noticed', async (t) => {
  t.match(problemIn('verify --no-such-option'), /no --no-such-option/)
  t.match(problemIn('reparation --yes'), /no such command/)
})

await walk('damaged-disk')
