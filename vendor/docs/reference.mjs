/**
 * The tables of the guides that are generated from the program's own tables: commands, settings, error codes, operations.
 * A page holds each between two comments; everything between them is replaced:
 *
 *   <!-- generated: settings -->
 *   …
 *   <!-- end -->
 */
import { buildProgram } from '../../dist/apps/cli/program.js'
import { errorHints } from '../../dist/apps/client/failure.js'
import { destinationTypes, fieldsOf, wordsOf } from '../../dist/contract/destination-words.js'
import { offeredOptions } from '../../dist/contract/destinations/config-field.js'
import { errorCatalogue } from '../../dist/contract/errors.js'
import { scopeOf } from '../../dist/contract/operation.js'
import { operationTable } from '../../dist/contract/operations.js'
import { bytes, count } from '../../dist/platform/quantities.js'
import { settingDefinitions } from '../../dist/settings/settings.js'
import { environment, exits, files } from './cli-facts.mjs'

/** By the name in the comment: a function that returns Markdown. */
const sections = {
  commands,
  'exit-codes': () =>
    table(
      ['code', 'meaning'],
      exits.map(([code, meaning]) => [code, meaning]),
    ),
  environment: () => table(['variable', 'meaning'], environment.map(variableRow)),
  files: () => table(['path', 'content'], files.map(variableRow)),
  ...Object.fromEntries(
    destinationTypes.map((type) => [`keys-of-${wordsOf(type).kind}`, () => keysOf(type)]),
  ),
  settings,
  errors,
  operations,
}

/** The page with its generated sections filled in. Throws where it asks for a section that does not exist. */
export async function fillPage(text) {
  const pattern = /^<!-- generated: ([a-z-]+) -->\n[\s\S]*?^<!-- end -->$/gm
  let filled = text
  for (const [whole, name] of text.matchAll(pattern)) {
    const section = sections[name]
    if (section === undefined) throw new Error(`there is no generated section ${name}`)
    const body = `<!-- generated: ${name} -->\n\n${await section()}\n\n<!-- end -->`
    filled = filled.replace(whole, () => body)
  }
  return filled
}

async function commands() {
  const groups = new Map()
  for (const command of (await buildProgram()).commands.filter((one) => one.name() !== '__complete')) {
    const heading = command.helpGroup().replace(/:$/, '')
    const rows = leavesOf(command, 'pipectl ').map(({ usage, description }) => [
      `\`${usage}\``,
      sentence(description),
    ])
    groups.set(heading, [...(groups.get(heading) ?? []), ...rows])
  }
  const parts = [...groups].map(([heading, rows]) => {
    const title = heading === '' || groups.size === 1 ? '' : `### ${heading}\n\n`
    return `${title}${table(['command', 'description'], rows)}`
  })
  return parts.join('\n\n')
}

function leavesOf(command, parents) {
  const name = `${parents}${command.name()}`
  const children = command.commands.flatMap((child) => leavesOf(child, `${name} `))
  // `pipectl nodes` is a command with commands below it.
  const isRun = children.length === 0 || command.options.length > 0
  const usage = [name, ...command.registeredArguments.map(argumentText)].join(' ')
  return [...(isRun ? [{ usage, description: command.description() }] : []), ...children]
}

function argumentText(argument) {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}

function keysOf(type) {
  const rows = fieldsOf(type).map(([key, field]) => [`\`${key}\``, keyDefault(field), keyText(field)])
  return table(['key', 'default', 'description'], rows)
}

function keyDefault({ needed, default: fallback, usual, kind }) {
  if (needed) return 'required'
  if (usual !== undefined) return coded(usual)
  return fallback === undefined || kind === 'map' ? 'none' : `\`${fallback}\``
}

/** A text of the table as Markdown: words that are not English are code. */
function coded(text) {
  return text.replaceAll(/([^\s;,]*?(?:_|:\/\/|\{|\*|\[|(?<=\s)\.\w)[^\s;,]*?)(?=[.:;,]?(?:\s|$))/g, '`$1`')
}

function keyText(field) {
  const { label, hint, kind, secret, minimum, maximum } = field
  const listed = offeredOptions(field).map(([value, words]) =>
    words === value ? `\`${value}\`` : `\`${value}\`: ${coded(words)}`,
  )
  return [
    coded(hint ?? `${label}.`),
    ...(listed.length === 0 ? [] : [`${listed.join('; ')}.`]),
    ...(kind === 'integer' ? [`${minimum} to ${maximum}.`] : []),
    ...(secret === 'text' || secret === 'map' ? ['Secret: responses show `[redacted]`.'] : []),
  ].join(' ')
}

function settings() {
  const groups = new Map([['General', []]])
  for (const one of settingDefinitions) {
    const name = one.key.includes('.') ? one.key.split('.')[0] : 'General'
    groups.set(name, [...(groups.get(name) ?? []), settingRow(one)])
  }
  const header = ['setting', 'environment variable', 'default', 'description']
  return [...groups].map(([name, rows]) => `### ${name}\n\n${table(header, rows)}`).join('\n\n')
}

function settingRow({ key, env, flag, kind, values, fallback, reloads, doc }) {
  const names = flag === undefined ? `\`${env}\`` : `\`${env}\`, flag \`${flag}\``
  const allowed = values === undefined ? '' : ` One of ${values.map((one) => `\`${one}\``).join(', ')}.`
  const reload = reloads === true ? ' Reloaded on SIGHUP.' : ''
  return [`\`${key}\``, names, defaultOf(kind, fallback), `${doc}${allowed}${reload}`]
}

const unitOf = { seconds: ' s', interval: ' s', hours: ' h' }

function defaultOf(kind, fallback) {
  if (fallback === null) return 'not set'
  if (Array.isArray(fallback)) return 'none'
  if (kind === 'bytes') return bytes(fallback).replace('.0 ', ' ')
  const value = typeof fallback === 'number' ? count(fallback) : `\`${fallback}\``
  return `${value}${unitOf[kind] ?? ''}`
}

function errors() {
  const rows = Object.entries(errorCatalogue).map(([code, { status, message }]) => [
    `\`${code}\``,
    String(status),
    message,
    sentence(errorHints[code] ?? ''),
  ])
  rows.sort(([first], [second]) => (first < second ? -1 : 1))
  return table(['code', 'status', 'default message', 'what to do'], rows)
}

function operations() {
  const rows = operationTable.map((one) => [
    `\`${one.method} ${one.path}\``,
    sentence(one.summary),
    scopeText(one),
    `\`${one.operationId}\``,
  ])
  return table(['request', 'description', 'scope', 'operation'], rows)
}

function scopeText(operation) {
  const scope = scopeOf(operation)
  if (scope === null) return 'no key'
  return operation.auth === 'pipe' ? `\`${scope}\`, if the pipe requires a key` : `\`${scope}\``
}

function table(header, rows) {
  const line = (cells) => `| ${cells.map(cell).join(' | ')} |`
  return [line(header), `|${header.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}

/** A bar would begin the next cell, and a page contains no HTML. In code both stay as they are, except for the bar. */
function cell(text) {
  const parts = text.replaceAll('\n', ' ').replaceAll('|', '\\|').split('`')
  return parts.map((part, at) => (at % 2 === 0 ? part.replaceAll('<', '&lt;') : part)).join('`')
}

function variableRow([names, meaning]) {
  const list = names.split(', ').map((name) => (name === '…' ? name : `\`${name}\``))
  return [list.join(', '), meaning]
}

function sentence(words) {
  if (words === '') return ''
  // A command or a path keeps its case.
  const whole = /^[a-z]+\b/.test(words) ? `${words.charAt(0).toUpperCase()}${words.slice(1)}` : words
  return /[.!?]$/.test(whole) ? whole : `${whole}.`
}
