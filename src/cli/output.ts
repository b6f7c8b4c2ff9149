/**
 * What a command prints on stdout. One View is enough for every format: the API's own body as text (json), the things
 * it lists (ndjson, yaml), their names (name), and rows for people (table).
 */
import { indented, singleLine } from '../client/json-text.ts'
import { printable, printableJson } from '../client/printable.ts'
import type { Format } from './define.ts'
import { coloursOn, paint } from './terminal.ts'

export interface Table {
  columns: string[]
  rows: string[][]
  /** Said when there is no row. */
  empty?: string
}

export interface View {
  /** JSON text: the API's body, untouched. */
  json: string
  /** One JSON text for each thing listed; default: the whole body. */
  items?: () => string[]
  /** What another command takes as an argument: ids or names. */
  names: () => string[]
  table: () => Table
}

/** A view of one thing: its fields, one a row. */
export function oneView(json: string, name: string, rows: string[][]): View {
  return { json, names: () => [name], table: () => ({ columns: ['FIELD', 'VALUE'], rows }) }
}

export function show(value: unknown): string {
  if (value === null || value === undefined) return '-'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/** `table` on a terminal, `json` in a pipe or file, unless asked otherwise. */
function chosenFormat(asked: Format | undefined): Format {
  return asked ?? (process.stdout.isTTY === true ? 'table' : 'json')
}

export async function print(view: View, asked: Format | undefined): Promise<void> {
  const format = chosenFormat(asked)
  process.stdout.write(await render(view, format, process.stdout.isTTY === true, coloursOn(process.stdout)))
}

/** The text of a view in a format; `pretty`: for a terminal, JSON indented, and nothing in it acts there. */
export async function render(view: View, format: Format, pretty: boolean, colours: boolean): Promise<string> {
  const items = () => view.items?.() ?? [view.json]
  switch (format) {
    case 'json':
      return `${pretty ? printableJson(indented(view.json)) : view.json}\n`
    case 'ndjson':
      return lines(
        items()
          .map(singleLine)
          .map(pretty ? printableJson : String),
      )
    case 'yaml':
      return toYaml(view.json, pretty)
    case 'name':
      return lines(pretty ? view.names().map(printable) : view.names())
    case 'table':
      return renderTable(view.table(), colours)
  }
}

function lines(texts: string[]): string {
  return texts.map((text) => `${text}\n`).join('')
}

/** JSON is YAML: read as such, and numbers keep their digits. */
async function toYaml(json: string, onTerminal: boolean): Promise<string> {
  const [{ parseDocument, visit }, { yamlText }] = await Promise.all([
    import('yaml'),
    import('./yaml-text.ts'),
  ])
  const document = parseDocument(json, { intAsBigInt: true })
  visit(document, {
    Collection: (_, node) => {
      node.flow = false
    },
    Scalar: (_, node) => {
      node.type = undefined
    },
  })
  return yamlText(document, onTerminal)
}

async function renderTable(table: Table, colours: boolean): Promise<string> {
  if (table.rows.length === 0) return `${table.empty ?? 'none'}\n`
  const { default: CliTable } = await import('cli-table3')
  const gaps = { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '', bottom: '', 'bottom-mid': '' }
  const frame = { top: '', 'top-mid': '', 'top-left': '', 'top-right': '', left: '', right: '', middle: '  ' }
  const drawn = new CliTable({
    chars: { ...gaps, ...frame, 'bottom-left': '', 'bottom-right': '' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0, compact: true },
  })
  drawn.push(
    table.columns.map((column) => paint('bold', column, colours)),
    ...table.rows.map((row) => row.map((cell) => paintState(printable(cell), colours))),
  )
  return `${drawn.toString().replace(/[ ]+$/gm, '')}\n`
}

const stateColours: Record<string, 'red' | 'green' | 'yellow'> = {
  blocked: 'red',
  stalled: 'red',
  retrying: 'yellow',
  paused: 'yellow',
  active: 'green',
  flowing: 'green',
  fail: 'red',
  warn: 'yellow',
  ok: 'green',
}

function paintState(cell: string, colours: boolean): string {
  const colour = stateColours[cell]
  return colour === undefined ? cell : paint(colour, cell, colours)
}
