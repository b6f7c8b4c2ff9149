/**
 * The output of a command on stdout. One View is enough for every format: the API's own body as text (json), the
 * listed items (ndjson, yaml), their names (name), and rows for people (table).
 */
import { indented, singleLine } from '../client/json-text.ts'
import { printable, printableJson } from '../client/printable.ts'
import { defaultFormat, type Format } from './define.ts'
import { io } from './io.ts'
import type { Table } from './table.ts'
import { coloursOn } from './terminal.ts'

export type { Table }

export interface View {
  /** JSON text: the API's body, untouched. */
  json: string
  /** One JSON text for each thing listed; default: the whole body. */
  items?: () => string[]
  /** The ids or names that another command takes as an argument. */
  names: () => string[]
  table: () => Table
}

/** A view of one thing: its fields, one a row. */
export function oneView(json: string, name: string, rows: string[][]): View {
  return { json, names: () => [name], table: () => fieldTable(rows) }
}

/** Fields of one thing, each with its value, which is never cut. */
export function fieldTable(rows: readonly (readonly string[])[]): Table {
  return {
    columns: [
      { label: 'FIELD', shrinksTo: 38 },
      { label: 'VALUE', wraps: true },
    ],
    rows,
  }
}

/** Fields as rows, each with its value in words. */
export function rowsOf(fields: object): string[][] {
  return Object.entries(fields).map(([key, value]) => [key, show(value)])
}

export function show(value: unknown): string {
  if (value === null || value === undefined) return '-'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

export async function print(view: View, format: Format = defaultFormat): Promise<void> {
  const { isTTY, columns } = io().stdout
  const width = isTTY === true ? columns || unknownWidth : Number.POSITIVE_INFINITY
  io().stdout.write(await render(view, format, isTTY === true, coloursOn(io().stdout), width))
}

/** Fallback width when the terminal does not report one. */
const unknownWidth = 80

/** The text of a view in a format; `pretty`: for a terminal, JSON indented, and nothing in it acts there; `width`: of its tables. */
export async function render(
  view: View,
  format: Format,
  pretty: boolean,
  colours: boolean,
  width = Number.POSITIVE_INFINITY,
): Promise<string> {
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
      return (await import('./table.ts')).drawTable(view.table(), width, colours)
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
