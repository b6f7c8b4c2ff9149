/** `pipectl pipes schema infer`: proposes a schema from stored records, or from those of a file. */
import { type Command, Option } from 'commander'
import type { RecordSchema } from '../../../contract/record-schema.ts'
import { type InferenceOptions, SchemaInference } from '../../../contract/schema-inference/infer-schema.ts'
import { sampledRecords } from '../../../contract/schema-proposal.ts'
import { type MismatchAction, mismatchActions } from '../../../contract/schema-words.ts'
import { counted } from '../../../platform/quantities.ts'
import type { PipeDetail, Reply } from '../../client/client.ts'
import { nothingToDoFailure, usageFailure } from '../../client/failure.ts'
import { connect } from '../connection.ts'
import { type CommonOptions, define } from '../define.ts'
import { withByteProgress } from '../progress.ts'
import { findPipe, readPipe } from '../references.ts'
import { confirm, say } from '../terminal.ts'
import { recordsOfFile, writeSchemaFile } from './files.ts'
import { addSchemaOutput, printSchema, type SchemaOutput } from './output.ts'
import { setSchema } from './set.ts'

interface Options extends SchemaOutput {
  records?: string
  file?: string
  enums: boolean
  formats: boolean
  minimums?: boolean
  additionalProperties: string
  set?: boolean
  onMismatch?: MismatchAction
  export?: string
}

type Given = Options & Omit<CommonOptions, 'output'>

interface Proposal {
  schema: RecordSchema
  notes: readonly string[]
  records: number
  /** The words after the number of records. */
  source: string
}

export function addInferCommand(schema: Command): void {
  define<Options>(schema, {
    usage: 'infer [pipe]',
    summary: 'propose a schema that accepts the newest records of a pipe, or those of a file',
    help: `A key is required if every record has it. A text becomes an enum if it has at most 20 values, each of them several times, in
100 records or more; names, ids and free text never do. A format is proposed if all values have it. Integers stay integers
only if no value has a fraction. An object whose keys differ from record to record gets one rule for all of its values.
Records of a pipe are read without the keys that the pipe adds. With -f nothing is sent, and no pipe is needed without --set.`,
    examples: [
      'pipectl pipes schema infer orders',
      'pipectl pipes schema infer orders --records 50000 --additional-properties false --export orders.schema.json',
      'pipectl pipes schema infer -f records.ndjson > orders.schema.json',
      'pipectl pipes schema infer orders --set --on-mismatch tag',
    ],
    daemon: true,
    destructive: true,
    options: addOptions,
    action: async ([reference], options) => {
      if (options.set === true && reference === undefined)
        throw usageFailure('--set needs a pipe', 'e.g. pipectl pipes schema infer orders --set')
      if (options.onMismatch !== undefined && options.set !== true)
        throw usageFailure('--on-mismatch needs --set', 'add --set')
      const proposal = await propose(reference, options)
      if (proposal.records === 0)
        throw nothingToDoFailure(
          'there are no records to read',
          'e.g. pipectl ingest PIPE -f records.ndjson, or read a file with -f records.ndjson',
        )
      if (options.export !== undefined) writeSchemaFile(options.export, proposal.schema)
      await printSchema(proposal.schema, options)
      await report(proposal, reference, options)
    },
  })
}

function addOptions(command: Command): void {
  command
    .option(
      '--records <count>',
      `read this many of the newest records: 1 to ${sampledRecords.max} (default ${sampledRecords.default})`,
    )
    .option('-f, --file <file>', 'read these records instead: a file as for `pipectl ingest`; - for stdin')
    .option('--no-enums', 'propose no enums')
    .option('--no-formats', 'propose no formats')
    .option('--minimums', 'propose minimum 0 where no number was negative')
    .addOption(
      new Option('--additional-properties <allowed>', 'false: accept no other keys than those that were seen')
        .choices(['true', 'false'])
        .default('true'),
    )
    .option('--export <file>', 'write the schema to a new file')
    .option('--set', 'set the schema of the pipe')
    .addOption(
      new Option('--on-mismatch <what>', 'with --set: what happens to records that do not match').choices(
        mismatchActions,
      ),
    )
  addSchemaOutput(command)
}

async function propose(reference: string | undefined, options: Given): Promise<Proposal> {
  const { enums, formats, minimums = false } = options
  const additionalProperties = options.additionalProperties !== 'false'
  if (options.file !== undefined) {
    if (options.records !== undefined)
      throw usageFailure('--records and --file cannot be used together', 'use one of them')
    return await fromFile(options.file, { enums, formats, minimums, additionalProperties })
  }
  if (reference === undefined)
    throw usageFailure('records of which pipe?', 'name a pipe, or a file with -f records.ndjson')
  const client = await connect(options)
  const { pipe_id } = await findPipe(client, reference)
  const { body } = await client.call('inferSchema', {
    path: { pipe_id },
    body: {
      ...{ enums, formats, minimums, additional_properties: additionalProperties },
      ...(options.records === undefined ? {} : { records: Number(options.records) }),
    },
  })
  const { schema, notes, records_seen: records, ended_by } = body
  const limit = ended_by === null || ended_by === 'records' ? '' : `; one request reads no more ${ended_by}`
  return { schema, notes, records, source: `the newest of pipe ${reference}${limit}` }
}

async function fromFile(file: string, options: InferenceOptions): Promise<Proposal> {
  const inference = new SchemaInference()
  await withByteProgress(async (onProgress) => {
    for await (const { text, progress } of recordsOfFile(file)) {
      inference.add(JSON.parse(text))
      if (progress !== null) onProgress(progress.doneBytes, progress.totalBytes)
    }
  })
  return { ...inference.schema(options), records: inference.records, source: file === '-' ? 'stdin' : file }
}

async function report(proposal: Proposal, reference: string | undefined, options: Given): Promise<void> {
  say(`From ${counted(proposal.records, 'record')}: ${proposal.source}.`)
  for (const note of proposal.notes) say(`Note: ${note}`)
  if (options.export !== undefined) say(`Wrote ${options.export}.`)
  if (reference === undefined) return
  if (options.set === true) {
    const client = await connect(options)
    const read: Reply<PipeDetail> = await readPipe(client, reference)
    if (read.body.pipe.pipe_schema !== null)
      await confirm(`Replace the schema of pipe ${read.body.pipe.pipe_name}?`, options.yes)
    const on = options.onMismatch
    await setSchema(client, read, {
      pipe_schema: proposal.schema,
      ...(on === undefined ? {} : { pipe_schema_on_mismatch: on }),
    })
  } else if (options.export !== undefined)
    say(`Set it with: pipectl pipes schema set ${reference} -f ${options.export}`)
}
