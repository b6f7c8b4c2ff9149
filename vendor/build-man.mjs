/**
 * Part of `npm run build`, and `npm run man`: the man page of the built program, dist/man/pipectl.1. Commands and options are
 * read from the program itself, settings from their table; environment, files and exit codes are written here.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { examplesOf, topicsOf } from '../dist/apps/cli/help.js'
import { buildProgram } from '../dist/apps/cli/program.js'
import { version } from '../dist/platform/version.js'
import { settingDefinitions } from '../dist/settings/settings.js'
import { environment, exits, files } from './docs/cli-facts.mjs'

const connection = 'Connection:'
const target = path.resolve(import.meta.dirname, '..', 'dist', 'man', 'pipectl.1')

const signs = { '\\': '\\e', '-': '\\-', '~': '\\(ti', '^': '\\(ha', '`': '\\(ga', "'": '\\(aq', '…': '...' }

const program = await buildProgram()
function page() {
  const commands = leaves(program).filter(({ command }) => command.name() !== '__complete')
  const shared = sharedOptions(commands)
  return `${[
    `.TH PIPECTL 1 "" ${quoted(`pipectl ${version()}`)} "User Commands"`,
    // Long options and addresses: neither hyphenated nor stretched. The register, since .TP sets hyphenation again.
    '.nr HY 0',
    '.nh',
    '.ad l',
    section('NAME', text(`pipectl - ${lowerFirst(program.description()).replace(/\.$/, '')}`)),
    section('SYNOPSIS', '.B pipectl', '.I command', '[\\fIarguments\\fR] [\\fIoptions\\fR]'),
    section('DESCRIPTION', ...description()),
    section('COMMANDS', ...commands.flatMap((one) => commandPart(one))),
    section('TOPICS', ...topicParts(program), ...program.commands.flatMap(topicParts)),
    section('CONNECTION OPTIONS', text(connectionWords), ...shared.flatMap(tagged)),
    section('SETTINGS', text(settingsWords), ...settingDefinitions.flatMap(settingPart)),
    section(
      'ENVIRONMENT',
      text('In addition to the variables of the settings:'),
      ...environment.flatMap(tagged),
    ),
    section('FILES', ...files.flatMap(tagged)),
    section('EXIT STATUS', text(exitWords), ...exits.flatMap(tagged)),
    section(
      'SEE ALSO',
      text('The guides, which a running daemon serves at /docs/ of its management address.'),
    ),
  ].join('\n')}\n`
}

const connectionWords = 'Commands that speak to a daemon have these options:'
const settingsWords =
  'A flag takes precedence over an environment variable, the variable over the settings file (TOML; --config or PIPECTL_CONFIG), and the file over the default.'
const exitWords =
  'Client commands exit with 0 to 7, 130 or 141; serve and the commands that work on a data directory also use the other codes.'

function description() {
  const words = afterHelp(program).split('\n')
  return [
    text(program.description()),
    '.PP',
    text(
      'pipectl serve runs the daemon. Most other commands speak to a daemon that runs; some work on a data directory.',
    ),
    '.PP',
    text('Pipes are named by name, id or a unique beginning of the id; destinations by PIPE/NAME.'),
    ...words.flatMap((line) => {
      const word = /^ {2}(\w+) {2,}(.*)$/.exec(line)
      return word === null ? [] : tagged([word[1], word[2]])
    }),
  ]
}

/** `.SS` with usage, options, help and examples. */
function commandPart({ command, name }) {
  const helper = command.createHelp()
  const words = command.registeredArguments.map(argumentText)
  const options = helper.visibleOptions(command).filter((one) => one.long !== '--help')
  const own = options.filter((one) => one.helpGroupHeading !== connection)
  const examples = examplesOf(command)
  const described = command.registeredArguments.filter((one) => one.description !== '')
  return [
    `.SS ${quoted([name, ...words, ...(options.length > 0 ? ['[options]'] : [])].join(' '))}`,
    text(sentence(command.description())),
    ...described.flatMap((one) => tagged([argumentText(one), helper.argumentDescription(one)])),
    ...own.flatMap((one) => tagged([one.flags, helper.optionDescription(one)])),
    ...(options.length > own.length ? ['.PP', text('Also the connection options.')] : []),
    ...paragraphs(afterHelp(command)),
    ...(examples.length > 0 ? ['.PP', 'Examples:', ...literal(examples)] : []),
  ]
}

/** `pipectl help …`, word for word. Those that only repeat options of a command are there already. */
function topicParts(command) {
  const { parent } = command
  const words = ['pipectl help', ...(parent === null ? [] : [command.name()])].join(' ')
  return [...topicsOf(command)]
    .filter(([name]) => !optionTopics.has(name))
    .flatMap(([name, text]) => [`.SS ${quoted(`${words} ${name}`)}`, ...literal(text().split('\n'))])
}
const optionTopics = new Set(['connection', 'transform', 'infer'])

function argumentText(argument) {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

function sharedOptions(commands) {
  const found = new Map()
  for (const { command } of commands) {
    const helper = command.createHelp()
    for (const one of helper.visibleOptions(command))
      if (one.helpGroupHeading === connection) found.set(one.flags, helper.optionDescription(one))
  }
  return [...found]
}

function settingPart({ key, env, flag, fallback, doc }) {
  const names = [key, flag, env].filter((one) => one !== undefined).join(', ')
  const ending = fallback === null || fallback === '' ? '' : ` Default: ${fallback}.`
  return tagged([names, `${doc}${ending}`])
}

/** The text that the command adds below its options. */
function afterHelp(command) {
  let whole = ''
  command.emit('afterHelp', { error: false, command, write: (part) => (whole += part) })
  return whole.trim()
}

function leaves(command, parents = '') {
  const name = `${parents}${command.name()}`
  // `pipectl nodes` is a command with commands below it.
  const children = command.commands.flatMap((child) => leaves(child, `${name} `))
  const isRun = command !== program && (children.length === 0 || command.options.length > 0)
  return [...(isRun ? [{ command, name }] : []), ...children]
}

/** Text with some indented lines, which stay as they are. */
function paragraphs(help) {
  if (help === '') return []
  return help.split(/\n\n+/).flatMap((part) => {
    const lines = part.split('\n')
    const at = lines.findIndex((line) => /^\s|\S {2,}\S/.test(line))
    const [running, kept] = at === -1 ? [lines, []] : [lines.slice(0, at), lines.slice(at)]
    return ['.PP', ...running.map(text), ...(kept.length > 0 ? literal(kept) : [])]
  })
}

function literal(lines) {
  return ['.RS 4', '.EX', ...lines.map(text), '.EE', '.RE']
}

function section(name, ...lines) {
  return [`.SH ${quoted(name)}`, ...lines].join('\n')
}

function tagged([term, meaning]) {
  return ['.TP', `.B ${quoted(term)}`, text(meaning)]
}

function quoted(words) {
  return `"${inline(words).replaceAll('"', '\\(dq')}"`
}

/** A line of its own: a dot or quote at its beginning would be a request. */
function text(line) {
  return inline(line).replace(/^(?=[.'])/, '\\&')
}

/** Every character as it is typed: a hyphen that can be copied, and no quote turned into another. */
function inline(words) {
  return words.replaceAll(/[\\\-~^`'…]|[^\n\x20-\x7e]/gu, (sign) => signs[sign] ?? named(sign))
}

function named(sign) {
  return `\\[u${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, '0')}]`
}

function sentence(words) {
  const whole = `${words.charAt(0).toUpperCase()}${words.slice(1)}`
  return /[.)]$/.test(whole) ? whole : `${whole}.`
}

function lowerFirst(words) {
  return /^[A-Z][a-z]/.test(words) ? `${words.charAt(0).toLowerCase()}${words.slice(1)}` : words
}

mkdirSync(path.dirname(target), { recursive: true })
writeFileSync(target, page())
