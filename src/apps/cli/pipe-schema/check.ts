/** `pipectl pipes schema check`: which records of a file, or which stored ones, a schema would not accept. */
import type { Command } from 'commander'
import { jsonPointer, type RecordSchema } from '../../../contract/record-schema.ts'
import { type CountedError, MismatchReport, type RecordError } from '../../../contract/schema-mismatches.ts'
import { sampledRecords } from '../../../contract/schema-proposal.ts'
import { count, counted } from '../../../platform/quantities.ts'
import { commandFailure, nothingToDoFailure, usageFailure } from '../../client/failure.ts'
import { connect } from '../connection.ts'
import { type CommonOptions, define } from '../define.ts'
import { listView, print } from '../output.ts'
import { withByteProgress } from '../progress.ts'
import { findPipe } from '../references.ts'
import { say } from '../terminal.ts'
import { readSchemaFile, recordsOfFile } from './files.ts'

interface Options {
  schema?: string
  file?: string
  stored?: string
}

interface Outcome {
  records_seen: number
  mismatching: number
  errors: readonly CountedError[]
  mismatches: readonly { record: string; errors: readonly RecordError[] }[]
}

export function addCheckCommand(schema: Command): void {
  define<Options>(schema, {
    usage: 'check [pipe]',
    summary: 'check records against a schema; exit code 1 if one does not match',
    help: `The records are those of a file (-f, any format of \`pipectl ingest\`), or the newest that the pipe has stored (--stored). The
schema is that of the pipe, or one in a file (--schema). With --schema and -f no daemon is needed. Stored records are checked without
the keys that the pipe adds.`,
    examples: [
      'pipectl pipes schema check orders -f records.ndjson',
      'pipectl pipes schema check orders --schema orders.schema.json --stored 10000',
      'pipectl pipes schema check --schema orders.schema.json -f - < records.ndjson',
    ],
    daemon: true,
    output: true,
    options: (command) =>
      command
        .option('--schema <file>', 'check against this schema instead of that of the pipe')
        .option('-f, --file <file>', 'check the records of this file; - for stdin')
        .option(
          '--stored <count>',
          `check this many of the newest stored records: 1 to ${sampledRecords.max}`,
        ),
    action: async ([reference], options) => {
      const { file, stored, schema: schemaFile } = options
      if ((file === undefined) === (stored === undefined))
        throw usageFailure('check which records?', 'use -f records.ndjson, or --stored 1000')
      if (file === '-' && schemaFile === '-')
        throw usageFailure('--schema and --file cannot both be stdin', 'name a file for one of them')
      const given = schemaFile === undefined ? null : readSchemaFile(schemaFile, `--schema ${schemaFile}`)
      const outcome =
        file === undefined
          ? await checkStored(requiredPipe(reference), { ...options, given, stored: stored! })
          : await checkFile(file, given ?? (await schemaOfPipe(requiredPipe(reference), options)))
      await printOutcome(outcome, options)
    },
  })
}

function requiredPipe(reference: string | undefined): string {
  if (reference !== undefined) return reference
  throw usageFailure('which pipe?', 'name a pipe; -f with --schema needs none')
}

async function schemaOfPipe(reference: string, options: CommonOptions): Promise<RecordSchema> {
  const { pipe_schema, pipe_name } = await findPipe(await connect(options), reference)
  if (pipe_schema !== null) return pipe_schema
  throw nothingToDoFailure(
    `pipe ${pipe_name} has no schema`,
    `name one with --schema; \`pipectl pipes schema infer ${pipe_name}\` proposes one`,
  )
}

async function checkStored(
  reference: string,
  { given, stored, ...options }: CommonOptions & { given: RecordSchema | null; stored: string },
): Promise<Outcome> {
  const client = await connect(options)
  const { pipe_id } = await findPipe(client, reference)
  const { body } = await client.call('checkSchema', {
    path: { pipe_id },
    body: { records: Number(stored), ...(given === null ? {} : { schema: given }) },
  })
  const { records_seen, mismatching, errors, mismatches } = body
  return {
    ...{ records_seen, mismatching, errors },
    mismatches: mismatches.map(({ msg_id, record_index, errors }) => ({
      record: `${msg_id} record ${record_index}`,
      errors,
    })),
  }
}

async function checkFile(file: string, schema: RecordSchema): Promise<Outcome> {
  const { openSchemaCheck, schemaProblems } = await import('../../../maintenance/schema-check.ts')
  const [problem] = await schemaProblems(schema)
  if (problem !== undefined)
    throw usageFailure(
      `the schema: ${jsonPointer(problem.path)} ${problem.message}`,
      'docs/schemas.md lists the keywords',
    )
  const check = await openSchemaCheck(schema)
  const report = new MismatchReport<string>()
  let records = 0
  await withByteProgress(async (onProgress) => {
    for await (const { line, text, progress } of recordsOfFile(file)) {
      records += 1
      report.add(`line ${line}`, check(JSON.parse(text), Buffer.byteLength(text)))
      if (progress !== null) onProgress(progress.doneBytes, progress.totalBytes)
    }
  })
  return {
    records_seen: records,
    mismatching: report.records,
    errors: report.errors,
    mismatches: report.first.map(({ place: record, errors }) => ({ record, errors })),
  }
}

/** One row per error of the first records. */
async function printOutcome(outcome: Outcome, options: CommonOptions): Promise<void> {
  const { records_seen, mismatching, mismatches, errors } = outcome
  if (records_seen === 0)
    throw nothingToDoFailure(
      'there are no records to check',
      'name another file, or send records to the pipe',
    )
  const rows = mismatches.flatMap(({ record, errors }) => errors.map((error) => ({ record, ...error })))
  const view = listView(rows, {
    json: JSON.stringify(outcome),
    name: ({ record }) => record,
    columns: [
      [{ label: 'RECORD', shrinksTo: 20 }, ({ record }) => record],
      [{ label: 'PATH', shrinksTo: 16, keepsEnd: true }, ({ path }) => path || '/'],
      [{ label: 'MESSAGE', wraps: true }, ({ message }) => message],
    ],
    empty: 'all records match',
  })
  await print(view, options.output)
  if (mismatching === 0) return say(`All of ${counted(records_seen, 'record')} match.`)
  const [first] = errors
  if (mismatches.length < mismatching && first !== undefined)
    say(
      `The most frequent error: ${first.path || '/'} ${first.message} (${counted(first.records, 'record')}).`,
    )
  throw commandFailure(
    `${count(mismatching)} of ${counted(records_seen, 'record')} do not match`,
    '-o json lists the errors by path; correct the records, or the schema',
  )
}
