/** `pipectl query`: queries the file of a SQLite destination, or lists its tables. */
import { type Command, Option } from 'commander'
import { queryLimits } from '../../contract/query-limits.ts'
import { count, counted } from '../../platform/quantities.ts'
import type { Client, TableRows } from '../client/client.ts'
import { usageFailure } from '../client/failure.ts'
import { cellTexts, rowObjects, shownCell } from '../client/table-rows.ts'
import { fullName, lanePath } from '../client/workspace.ts'
import { clientCommand, type Format, formats } from './define.ts'
import { repeated } from './flag-options.ts'
import { io } from './io.ts'
import { listView, print, type View } from './output.ts'
import { findDestination } from './references.ts'
import { say } from './terminal.ts'

interface Options {
  param: string[]
  limit?: string
  timeout?: string
}

export function addQueryCommand(program: Command): void {
  clientCommand<Options>(program, {
    usage: 'query <destination> [sql]',
    summary: 'query the tables of a SQLite destination, or list them; reads only',
    help: `Without SQL it lists the tables of the file, with their columns. The query is one SELECT, VALUES or WITH … SELECT, on all
tables of the file. A --param is a number, true, false or null if its value is written like one in JSON, otherwise text;
put a text that looks like a number in double quotes. Integers keep all their digits.`,
    examples: [
      'pipectl query events',
      "pipectl query events 'SELECT name, count(*) FROM events GROUP BY name'",
      "pipectl query orders/sqlite 'SELECT * FROM orders WHERE country = :country' --param country=AT -o table",
    ],
    output: false,
    options: (command) =>
      command
        .addOption(
          new Option('--param <name=value>', 'value of the parameter :name; can be repeated')
            .default([], 'none')
            .argParser(repeated),
        )
        .option(
          '--limit <count>',
          `maximum number of rows: 1 to ${queryLimits.rows.max} (default ${queryLimits.rows.default})`,
        )
        .option(
          '--timeout <seconds>',
          `stop the query after this time: 1 to ${queryLimits.seconds.max} (default ${queryLimits.seconds.default})`,
        )
        .addOption(
          new Option(
            '-o, --output <format>',
            'output format (default: table on a terminal; elsewhere ndjson, one row per line)',
          ).choices(formats),
        ),
    action: async (client, [reference, sql], options) => {
      const { pipe, destination } = await findDestination(client, reference!, 'destination_sqlite')
      const path = lanePath(destination)
      if (sql === undefined) return await printTables(client, path, options.output)
      const { body, text } = await client.call('queryDestination', {
        path,
        body: {
          sql,
          params: Object.fromEntries(options.param.map(parameter)),
          ...wholeNumber('limit', options.limit),
          ...wholeNumber('timeout_seconds', options.timeout),
        },
      })
      await print(rowsView(body, text), options.output ?? defaultFormat())
      if (body.truncated_by !== null) say(truncationNote(body, fullName(pipe, destination)))
    },
  })
}

/** Rows are data for the next program, as the records of `tail` are. */
function defaultFormat(): Format {
  return io().stdout.isTTY === true ? 'table' : 'ndjson'
}

async function printTables(
  client: Client,
  path: ReturnType<typeof lanePath>,
  output: Format | undefined,
): Promise<void> {
  const { body, text } = await client.call('listTables', { path })
  const view = listView(body.tables, {
    json: text,
    name: (one) => one.table,
    columns: [
      ['TABLE', (one) => one.table],
      ['KIND', (one) => one.kind],
      [
        { label: 'COLUMNS', wraps: true },
        (one) => one.columns.map(({ name, type }) => `${name} ${type}`.trim()).join(', '),
      ],
    ],
    empty: 'the file has no tables yet',
  })
  await print(view, output ?? defaultFormat())
}

function rowsView({ columns }: TableRows, json: string): View {
  const rows = cellTexts(json)
  return {
    json,
    items: () => rowObjects(columns, rows),
    names: () => rows.map((row) => shownCell(row[0] ?? '')),
    table: () => ({
      columns: columns.map(({ name }) => ({ label: name, shrinksTo: 24 })),
      rows: rows.map((row) => row.map(shownCell)),
      empty: 'no rows',
    }),
  }
}

function truncationNote({ rows, truncated_by }: TableRows, name: string): string {
  const shown = counted(rows.length, 'row')
  return truncated_by === 'rows'
    ? `Only the first ${shown}: there are more. --limit shows up to ${count(queryLimits.rows.max)}.`
    : `Only the first ${shown} of ${name}: the response has reached its maximum size. Select fewer columns or rows.`
}

function parameter(text: string): [string, string | number | boolean | null] {
  const at = text.indexOf('=')
  if (at < 1) throw usageFailure(`--param ${text} has no name`, 'write it as --param name=value')
  return [text.slice(0, at), parameterValue(text.slice(at + 1))]
}

/** A number that loses digits stays a text: SQLite compares it with a column of type INTEGER exactly. */
function parameterValue(text: string): string | number | boolean | null {
  if (text === 'true' || text === 'false') return text === 'true'
  if (text === 'null') return null
  const isNumber = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/.test(text)
  if (isNumber && (/[.eE]/.test(text) || String(Number(text)) === text)) return Number(text)
  return /^".*"$/s.test(text) ? text.slice(1, -1) : text
}

function wholeNumber(name: string, text: string | undefined): object {
  if (text === undefined) return {}
  // The daemon explains a value that is no number.
  return { [name]: /^\d{1,9}$/.test(text) ? Number(text) : text }
}
