/** Prints a schema: a table of its paths on a terminal, JSON elsewhere, so that it can be written to a file. */
import { type Command, Option } from 'commander'
import { type SchemaRow, schemaRows } from '../../client/schema-rows.ts'
import { io } from '../io.ts'
import { listView, print } from '../output.ts'
import { schemaText } from './files.ts'

const schemaFormats = ['table', 'json', 'yaml'] as const

export interface SchemaOutput {
  output?: (typeof schemaFormats)[number]
}

export function addSchemaOutput(command: Command): void {
  command.addOption(
    new Option(
      '-o, --output <format>',
      'output format (default: table on a terminal; elsewhere json, the schema itself)',
    ).choices(schemaFormats),
  )
}

export async function printSchema(schema: object, { output }: SchemaOutput): Promise<void> {
  const format = output ?? (io().stdout.isTTY === true ? 'table' : 'json')
  const view = listView(schemaRows(schema), {
    json: schemaText(schema).trimEnd(),
    name: ({ path }) => path,
    columns: [
      [{ label: 'PATH', shrinksTo: 20, keepsEnd: true }, ({ path }: SchemaRow) => path],
      ['TYPE', ({ type }) => type],
      ['REQUIRED', ({ isRequired }) => (isRequired ? 'yes' : 'no')],
      [{ label: 'RULES', wraps: true }, ({ rules }) => (rules === '' ? '-' : rules)],
    ],
    empty: 'the schema has no rules for single keys',
  })
  await print(view, format)
}
