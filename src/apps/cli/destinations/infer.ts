/**
 * `destinations create --infer`: proposes a table from records. With --create-table or --add-columns the daemon
 * changes the table. The destination is created once the table accepts its records.
 */
import type { Command } from 'commander'
import type { Destination } from '../../../contract/destination.ts'
import type { Pipe } from '../../../contract/pipe.ts'
import type { TableProposal } from '../../../contract/table-proposal.ts'
import { counted } from '../../../platform/quantities.ts'
import { type Client, type DestinationBody, type SaveOptions, unchecked } from '../../client/client.ts'
import { commandFailure, type Failure, nothingToDoFailure, usageFailure } from '../../client/failure.ts'
import { fullName } from '../../client/workspace.ts'
import { type CommonOptions, defaultFormat } from '../define.ts'
import { folded } from '../help.ts'
import { print } from '../output.ts'
import { say } from '../terminal.ts'
import { type BodyOptions, destinationBody } from './body.ts'
import { parseColumn } from './columns.ts'
import { sampleText } from './files.ts'
import { savingWith, sayTransformCheck, type TransformCheckOptions } from './transform-options.ts'

export interface InferOptions extends BodyOptions, TransformCheckOptions {
  infer?: boolean
  createTable?: boolean
  addColumns?: boolean
  sampleFile?: string
  /** False for --no-dedupe. */
  dedupe?: string | false
}

export function addInferOptions(command: Command): void {
  folded(command, 'Table from records:', () => {
    command
      .option('--infer', 'databases: propose the table and the mapping from the newest records of the pipe')
      .option('--create-table', 'with --infer: create the table')
      .option('--add-columns', 'with --infer: add missing columns to a table that exists')
      .option(
        '--sample-file <file>',
        'with --infer: use these records instead, as NDJSON or JSON; - for stdin',
      )
      .option('--dedupe <key>', 'with --infer: the key of the records that becomes the primary key')
      .option('--no-dedupe', 'with --infer: no primary key (default: _pipectl_id, <msg_id>:<position>)')
  })
}

export function wantsInference(options: InferOptions): boolean {
  const { infer, createTable, addColumns, sampleFile } = options
  if (infer === true) return true
  if (createTable === true || addColumns === true || sampleFile !== undefined)
    throw usageFailure('--create-table, --add-columns and --sample-file need --infer', 'add --infer')
  return false
}

export async function createInferred(
  client: Client,
  pipe: Pipe,
  given: InferOptions & CommonOptions,
): Promise<void> {
  const options = sampleByName(given)
  if (options.column !== undefined)
    throw usageFailure('--infer and --column cannot be used together', 'use one of them')
  const body = await destinationBody(options, pipe.pipe_name)
  const { destination_type, destination_config, transform } = body
  const asked = unchecked<'inferTable'>({
    destination_type,
    destination_config,
    transform,
    sample: options.sampleFile === undefined ? undefined : sampleText(options.sampleFile),
    create_table: options.createTable === true,
    add_columns: options.addColumns === true,
    dedupe_key: typeof options.dedupe === 'string' ? options.dedupe : undefined,
    dedupe_id: options.dedupe === false ? 'none' : undefined,
  })
  const reply = await client.call('inferTable', { path: { pipe_id: pipe.pipe_id }, body: asked })
  const proposal = reply.body
  const id = isFit(proposal)
    ? await createFrom(client, pipe, proposal, { body, ...savingWith(options) })
    : null
  await printProposal(reply.text, proposal, id, options)
  if (id === null) throw whyNot(proposal)
}

/** A user expects the records of the sample in the table that was created for them, so the lane starts at them. */
async function createFrom(
  client: Client,
  pipe: Pipe,
  { columns, executed, missing_columns, source, table }: TableProposal,
  { body, ...saving }: { body: DestinationBody } & SaveOptions,
): Promise<string> {
  const isNew = executed.some((statement) => statement.startsWith('CREATE TABLE'))
  const startFrom = body.start_from ?? (isNew && source === 'pipe' ? 'earliest' : 'now')
  const inferred = {
    ...body,
    columns: columns.filter(({ column_name }) => !missing_columns.includes(column_name)),
    start_from: startFrom,
  }
  const created = await client.call('createDestination', {
    path: { pipe_id: pipe.pipe_id },
    body: inferred,
    ...saving,
  })
  sayTransformCheck(created.body)
  const did = isNew ? `Created table ${table}. ` : executed.length > 0 ? `Added columns to ${table}. ` : ''
  const from = startFrom === 'earliest' ? 'every record that is kept' : 'new records only'
  say(
    `${did}Added ${fullName(pipe, created.body)}, which receives ${from}. Watch it with: pipectl lanes list ${pipe.pipe_name}`,
  )
  return created.body.destination_id
}

/** A table without some of the columns still accepts the other keys. */
function isFit({ ok, table_exists, columns, missing_columns }: TableProposal): boolean {
  return ok && table_exists === true && columns.length > missing_columns.length
}

function whyNot({ failure, table, table_exists }: TableProposal): Failure {
  if (failure !== null)
    return commandFailure(
      `no destination was created: ${failure.message}`,
      failure.step === 'sample'
        ? 'e.g. pipectl ingest PIPE -f records.ndjson, or --sample-file records.ndjson'
        : 'correct that, or run the statements, then run this again',
    )
  if (table_exists === false)
    return nothingToDoFailure(
      `nothing was created: there is no table ${table} yet`,
      'add --create-table, or let an administrator run the statement, then run this again',
    )
  return nothingToDoFailure(
    `nothing was created: no key of the records is a column of ${table}`,
    'add --add-columns, or name another table',
  )
}

async function printProposal(
  text: string,
  proposal: TableProposal,
  id: string | null,
  options: CommonOptions,
): Promise<void> {
  const { observations, ddl, executed, warnings, missing_columns, dedupe_candidates, columns } = proposal
  const isTable = (options.output ?? defaultFormat) === defaultFormat
  const missing = (name: string) => proposal.table_exists === true && missing_columns.includes(name)
  const view = {
    json: `{"destination_id":${JSON.stringify(id)},${text.trimStart().slice(1)}`,
    names: () => (id === null ? [] : [id]),
    table: () => ({
      columns: ['KEY', 'SEEN', 'NULL', 'JSON', 'COLUMN', 'TYPE'],
      rows: observations.map((one) => [
        ...[shortened(one.key), String(one.seen), String(one.nulls), one.types.join(', ')],
        one.column_name === null
          ? '-'
          : `${shortened(one.column_name)}${missing(one.column_name) ? ' (missing)' : ''}`,
        one.proposed_type ?? one.reason,
      ]),
      empty: 'no records',
    }),
  }
  await print(view, options.output)
  if (!isTable) return
  say(`\nFrom ${counted(proposal.records_seen, 'record')} of the ${proposal.source}.`)
  const title = executed.length > 0 ? 'This was run:' : 'To make the table fit:'
  for (const statement of ddl) say(`${title}\n\n${statement};\n`)
  for (const warning of warnings) say(`Note: ${warning}`)
  const hasKey = columns.some(
    ({ semantic_role, source_field }) => semantic_role === 'dedupe_id' && source_field,
  )
  if (!hasKey && dedupe_candidates.length > 0 && executed.length === 0)
    say(
      `Note: ${dedupe_candidates.join(', ')} differs in every record: --dedupe ${dedupe_candidates[0]} makes it the primary key.`,
    )
}

function shortened(text: string): string {
  const characters = [...text]
  return characters.length <= 40 ? text : `${characters.slice(0, 39).join('')}…`
}

/** `-f records.ndjson` with --infer is a sample, because a destination is never written in that format. */
function sampleByName(options: InferOptions & CommonOptions): InferOptions & CommonOptions {
  const { file, ...others } = options
  if (file === undefined || !/\.(ndjson|jsonl)$/i.test(file)) return options
  return { ...others, sampleFile: file }
}

export interface AlterOptions {
  alterTable?: boolean
}

/**
 * `update --add-column … --alter-table`: adds the columns to the table first, with the types of the records' values.
 */
export async function alterTable(
  client: Client,
  { pipe_id, destination_id }: Destination,
  added: readonly string[] | undefined,
): Promise<void> {
  const columns = (added ?? []).map(parseColumn)
  if (columns.length === 0)
    throw usageFailure('--alter-table needs --add-column', 'e.g. --add-column note:string')
  const keys = columns.map(({ column_name, source_field }) => source_field ?? column_name ?? '')
  const reply = await client.call('inferTable', {
    path: { pipe_id },
    body: { destination_id, keys, add_columns: true },
  })
  const { failure, executed, columns: known, warnings } = reply.body
  if (failure !== null)
    throw commandFailure(`the table was not altered: ${failure.message}`, reply.body.ddl.join('; '))
  for (const statement of executed) say(`This was run:\n\n${statement};\n`)
  const without = columns.find(({ column_name }) => !known.some((one) => one.column_name === column_name))
  if (without === undefined) return
  throw commandFailure(
    `the table has no column ${JSON.stringify(without.column_name)}, and no type could be proposed for it`,
    warnings.join(' ') || 'add it by hand, then run this again without --alter-table',
  )
}
