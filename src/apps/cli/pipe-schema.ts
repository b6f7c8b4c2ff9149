/** `pipectl pipes schema …`: infer, check, set, show, versions, types, remove. */
import { type Command, Option } from 'commander'
import type { Pipe } from '../../contract/pipe.ts'
import type { SchemaVersion } from '../../contract/pipe-schema.ts'
import { typesOfSchema } from '../../contract/schema-types.ts'
import { type MismatchAction, mismatchActions } from '../../contract/schema-words.ts'
import { ago, counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import { notFoundFailure, nothingToDoFailure, usageFailure } from '../client/failure.ts'
import { changedParts, lineDiff } from '../client/line-diff.ts'
import { printableJson } from '../client/printable.ts'
import { connect } from './connection.ts'
import { type CommonOptions, clientCommand, define, group } from './define.ts'
import { listView, print } from './output.ts'
import { addCheckCommand } from './pipe-schema/check.ts'
import { readSchemaFile, schemaText } from './pipe-schema/files.ts'
import { addInferCommand } from './pipe-schema/infer.ts'
import { addSchemaOutput, printSchema, type SchemaOutput } from './pipe-schema/output.ts'
import { setSchema } from './pipe-schema/set.ts'
import { findPipe, readPipe } from './references.ts'
import { confirm, writeData } from './terminal.ts'

export function addPipeSchemaCommands(pipes: Command): void {
  const schema = group(pipes, 'schema', 'the schema that the records of a pipe must match')
  addInferCommand(schema)
  addCheckCommand(schema)
  addSet(schema)
  addShow(schema)
  addVersions(schema)
  addTypes(schema)
  addRemove(schema)
}

function addSet(schema: Command): void {
  interface Options {
    file: string
    onMismatch?: MismatchAction
    tagField?: string
  }
  clientCommand<Options>(schema, {
    usage: 'set <pipe>',
    summary: 'set the schema of a pipe; it applies to the next request',
    examples: [
      'pipectl pipes schema set orders -f orders.schema.json',
      'pipectl pipes schema set orders -f orders.schema.json --on-mismatch tag',
      'pipectl pipes schema show orders 3 -o json | pipectl pipes schema set orders -f -',
    ],
    output: false,
    options: (command) =>
      command
        .requiredOption('-f, --file <file>', 'JSON file with the schema; - for stdin')
        .addOption(
          new Option(
            '--on-mismatch <what>',
            'records that do not match: reject the request, park them, or tag them with their errors',
          ).choices(mismatchActions),
        )
        .option('--tag-field <key>', 'the key of the errors in a tagged record'),
    action: async (client, [reference], { file, onMismatch, tagField }) => {
      const pipe_schema = readSchemaFile(file, `--file ${file}`)
      await setSchema(client, await readPipe(client, reference!), {
        pipe_schema,
        ...(onMismatch === undefined ? {} : { pipe_schema_on_mismatch: onMismatch }),
        ...(tagField === undefined ? {} : { pipe_schema_tag_field: tagField }),
      })
    },
  })
}

function addShow(schema: Command): void {
  define<SchemaOutput>(schema, {
    usage: 'show <pipe> [version]',
    summary: 'show the schema of a pipe, or an earlier version of it',
    help: '`pipectl pipes schema versions` lists the versions.',
    examples: ['pipectl pipes schema show orders', 'pipectl pipes schema show orders 3 -o json'],
    daemon: true,
    options: addSchemaOutput,
    action: async ([reference, version], options) => {
      const client = await connect(options)
      const pipe = await findPipe(client, reference!)
      const shown =
        version === undefined ? schemaOf(pipe) : (await versionOf(client, pipe, version)).pipe_schema
      if (shown === null) throw nothingToDoFailure(`version ${version} has no schema`, 'show another')
      await printSchema(shown, options)
    },
  })
}

function addVersions(schema: Command): void {
  clientCommand<{ diff?: boolean }>(schema, {
    usage: 'versions <pipe>',
    summary: 'list the last versions of the schema of a pipe, newest first',
    examples: ['pipectl pipes schema versions orders', 'pipectl pipes schema versions orders --diff'],
    options: (command) => command.option('--diff', 'print what each version changed, line by line'),
    action: async (client, [reference], options) => {
      const { pipe_id } = await findPipe(client, reference!)
      const { body, text } = await client.call('listSchemaVersions', { path: { pipe_id } })
      if (options.diff === true) return await printDifferences(body.versions)
      const now = Date.now()
      const view = listView(body.versions, {
        json: text,
        name: ({ version }) => String(version),
        columns: [
          ['VERSION', ({ version }) => String(version)],
          ['CHANGED', ({ changed_ts }) => ago(changed_ts, now)],
          [{ label: 'BY', shrinksTo: 16 }, changedBy],
          ['ON MISMATCH', (one) => (one.pipe_schema === null ? '-' : one.pipe_schema_on_mismatch)],
          ['LINES CHANGED', (one) => changedLines(one, body.versions)],
        ],
        empty: 'the pipe never had a schema',
      })
      await print(view, options.output)
    },
  })
}

function changedBy({ changed_by: { kind, id, name } }: SchemaVersion): string {
  return `${kind} ${name ?? id ?? ''}`.trim()
}

/** The lines of a version, compared with the version before it. Null: that one is no longer kept. */
function linesOf(one: SchemaVersion, versions: readonly SchemaVersion[]) {
  const before = versions.find(({ version }) => version === one.version - 1)
  if (before === undefined && one.version > 1) return null
  return lineDiff(textOf(before?.pipe_schema ?? null), textOf(one.pipe_schema))
}

function textOf(schema: object | null): string {
  return schema === null ? '' : printableJson(schemaText(schema))
}

function changedLines(one: SchemaVersion, versions: readonly SchemaVersion[]): string {
  const lines = linesOf(one, versions)
  if (lines === null) return '-'
  const counts = (kind: string) => lines.filter((line) => line.kind === kind && line.text !== '').length
  return `+${counts('added')} -${counts('removed')}`
}

async function printDifferences(versions: readonly SchemaVersion[]): Promise<void> {
  const texts = versions.map((one) => {
    const title = `version ${one.version}  ${one.changed_ts}  ${changedBy(one)}  ${one.pipe_schema_on_mismatch}`
    const lines = linesOf(one, versions)
    if (lines === null) return `${title}\n  (the version before it is no longer kept)\n`
    const marks = { same: ' ', added: '+', removed: '-' } as const
    const parts = changedParts(lines).map((line) =>
      line === null ? '  …' : `${marks[line.kind]} ${line.text}`,
    )
    return `${[title, ...parts].join('\n')}\n`
  })
  await writeData(texts.join('\n'), 'the differences were not written', 'run the command again')
}

function addTypes(schema: Command): void {
  define<CommonOptions & { schema?: string; name?: string }>(schema, {
    usage: 'types [pipe]',
    summary: 'print TypeScript types of the records of a pipe, or of a schema in a file',
    examples: [
      'pipectl pipes schema types orders > orders.ts',
      'pipectl pipes schema types --schema orders.schema.json --name order',
    ],
    daemon: true,
    options: (command) =>
      command
        .option('--schema <file>', 'use this schema instead; - for stdin')
        .option('--name <name>', 'the name of the type (default: the name of the pipe)'),
    action: async ([reference], options) => {
      const { schema: file, name } = options
      if (file === undefined && reference === undefined)
        throw usageFailure('types of which pipe?', 'name a pipe, or a schema with --schema')
      const text =
        file === undefined
          ? await typesOfPipe(reference!, options)
          : typesOfSchema(readSchemaFile(file, `--schema ${file}`), name ?? reference ?? '')
      await writeData(text, 'the types were not written', 'run the command again')
    },
  })
}

async function typesOfPipe(reference: string, options: CommonOptions & { name?: string }): Promise<string> {
  const pipe = await findPipe(await connect(options), reference)
  return typesOfSchema(schemaOf(pipe), options.name ?? pipe.pipe_name)
}

function addRemove(schema: Command): void {
  clientCommand(schema, {
    usage: 'remove <pipe>',
    summary: 'remove the schema of a pipe: it accepts every JSON object again',
    examples: ['pipectl pipes schema remove orders --yes'],
    output: false,
    destructive: true,
    action: async (client, [reference], options) => {
      const read = await readPipe(client, reference!)
      schemaOf(read.body.pipe)
      await confirm(
        `Remove the schema of pipe ${read.body.pipe.pipe_name}? Its versions are kept.`,
        options.yes,
      )
      await setSchema(client, read, { pipe_schema: null })
    },
  })
}

function schemaOf({ pipe_name, pipe_schema }: Pipe): object {
  if (pipe_schema !== null) return pipe_schema
  throw nothingToDoFailure(
    `pipe ${pipe_name} has no schema`,
    `\`pipectl pipes schema infer ${pipe_name}\` proposes one`,
  )
}

async function versionOf(client: Client, { pipe_id, pipe_name }: Pipe, text: string): Promise<SchemaVersion> {
  const { versions } = (await client.call('listSchemaVersions', { path: { pipe_id } })).body
  const found = versions.find(({ version }) => String(version) === text)
  if (found !== undefined) return found
  const kept = counted(versions.length, 'version')
  throw notFoundFailure(
    `pipe ${pipe_name} has no version ${text} of its schema; ${kept} kept`,
    `\`pipectl pipes schema versions ${pipe_name}\` lists them`,
  )
}
