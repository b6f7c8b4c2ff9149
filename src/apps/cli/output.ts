/**
 * The output of a command on stdout. One View is enough for every format: the body of the API as text (json), the
 * listed items (ndjson, yaml), their names (name), and rows for people (table).
 */
import { indented, singleLine } from '../client/json-text.ts'
import { printable, printableJson } from '../client/printable.ts'
import { defaultFormat, type Format } from './define.ts'
import { io } from './io.ts'
import type { Column, Table } from './table.ts'
import { coloursOn } from './terminal.ts'

export type { Table }

export interface View {
  /** JSON text: the unchanged body of the API. */
  json: string
  /** One JSON text per listed item. Default: the complete body. */
  items?: () => string[]
  /** The ids or names that other commands accept as an argument. */
  names: () => string[]
  table: () => Table
}

/** A view of one resource: one row per field. */
export function oneView(json: string, name: string, rows: string[][]): View {
  return { json, names: () => [name], table: () => fieldTable(rows) }
}

interface ListView<T> {
  json: string
  /** The JSON of one element, if it differs from the element. */
  item?: (one: T) => unknown
  /** The JSON texts of the elements, to show them as they were sent. Otherwise they are made from `item`. */
  items?: () => string[]
  name: (one: T) => string
  /** Each column with a function that returns the text of an element. */
  columns: readonly (readonly [column: string | Column, text: (one: T) => string])[]
  /** The note below the row of an element. Null: none. */
  note?: (one: T) => string | null
  empty?: string
}

/** A view of a list: one row per element. */
export function listView<T>(
  list: readonly T[],
  { json, item = (one) => one, items, name, columns, note = () => null, empty }: ListView<T>,
): View {
  return {
    json,
    items: items ?? (() => list.map((one) => JSON.stringify(item(one)))),
    names: () => list.map(name),
    table: () => ({
      columns: columns.map(([column]) => column),
      rows: list.map((one) => columns.map(([, text]) => text(one))),
      notes: list.map(note),
      empty,
    }),
  }
}

/** The fields of one resource with their values, which are never truncated. */
export function fieldTable(rows: readonly (readonly string[])[]): Table {
  return {
    columns: [
      { label: 'FIELD', shrinksTo: 38 },
      { label: 'VALUE', wraps: true },
    ],
    rows,
  }
}

/** Fields as rows, each with its value as text. */
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
  const screen = { pretty: isTTY === true, colours: coloursOn(io().stdout), width }
  io().stdout.write(await render(view, format, screen))
}

/** Fallback width when the terminal does not report one. */
const unknownWidth = 80

interface Screen {
  /** For a terminal: indented JSON without control sequences. */
  pretty: boolean
  colours: boolean
  /** For tables. */
  width?: number
}

/** The text of a view in a format. */
export async function render(
  view: View,
  format: Format,
  { pretty, colours, width = Number.POSITIVE_INFINITY }: Screen,
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

/** JSON is valid YAML. Parsing it as YAML keeps all digits of numbers. */
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
