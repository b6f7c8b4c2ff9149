/** `pipectl ingest`: sends records from files, objects or stdin to a pipe. */
import path from 'node:path'
import { type Command, Option } from 'commander'
import { isUuid } from '../../contract/uuid.ts'
import { count, counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import { ApiFailure, exitCodes, Failure, usageFailure } from '../client/failure.ts'
import { connect } from './connection.ts'
import { define } from './define.ts'
import { parseDelimiter, parseTypes } from './ingest/csv-columns.ts'
import { formats, type InputFormat } from './ingest/formats.ts'
import type { IngestTarget } from './ingest/run-ingest.ts'
import type { IngestResult, IngestSettings } from './ingest/settings.ts'
import { io } from './io.ts'
import { oneView, print, rowsOf } from './output.ts'
import { findPipe } from './references.ts'
import { interruptible, say } from './terminal.ts'

interface IngestOptions {
  file?: string[]
  format?: InputFormat
  columns?: string
  types?: string
  delimiter?: string
  null?: string
  endpoint?: string
  batchRecords?: string
  batchBytes: string
  inFlight: string
  gzip: boolean
  patience: string
  again?: boolean
  onError?: 'stop' | 'skip'
  skipInvalid?: string
}

export function addIngestCommand(program: Command): void {
  define<IngestOptions>(program, {
    usage: 'ingest <pipe> [files...]',
    summary: 'send records from files, S3 objects or stdin: JSON, NDJSON, CSV or Parquet, also with gzip',
    help: `A file is a path, - for stdin, s3://BUCKET/KEY, or s3://BUCKET/PREFIX/ for all objects below it, in order. S3 credentials
come from the environment or the AWS profile. The format is chosen by the extension (.csv, .tsv, .json, .ndjson, .parquet,
each also with .gz except .parquet), otherwise by the content.
Records are sent in order, and numbers keep every digit. To resume an interrupted run, run the same command again: nothing
is lost or stored twice. If a file has grown, only the new part is sent.
A record that cannot be read, or that the pipe rejects, ends the run with its line and the reason. --on-error skip names and
counts such records and continues; --skip-invalid also appends them to a file.`,
    examples: [
      'pipectl ingest orders orders.csv --types id:number,paid:boolean',
      'pipectl ingest events s3://archive/events/2026/',
      'echo \'{"id": 1, "total": 9.90}\' | pipectl ingest orders',
      'tail -F events.ndjson | pipectl ingest clicks',
      'pipectl ingest orders orders.ndjson.gz --skip-invalid rejected.ndjson',
    ],
    output: true,
    data: true,
    options: addOptions,
    action: async ([reference, ...files], options) => {
      const settings = settingsOf([...files, ...(options.file ?? [])], options)
      if (settings.inputs.length === 0 && io().stdin.isTTY) {
        say('Reading records from the terminal; Ctrl-D ends the input.')
      }
      const client = await connect(options)
      const pipe = await findTargetPipe(client, reference!)
      const { runIngest } = await import('./ingest/run-ingest.ts')
      const gzip = options.gzip && !isOnThisMachine(client.ingestUrl(pipe.pipe_id))
      const startedMs = Date.now()
      const result = await interruptible((signal) => runIngest(client, pipe, { ...settings, gzip, signal }))
      saySummary(result, { pipe: pipe.pipe_name, seconds: (Date.now() - startedMs) / 1000, options })
      const body = {
        pipe_id: pipe.pipe_id,
        pipe_name: pipe.pipe_name,
        records_count: result.records,
        requests_count: result.requests,
        resumed_after_records: result.resumedAfter,
        skipped_count: result.skipped,
        sources_count: result.sources,
        sources_sent_before: result.sentBefore,
      }
      await print(oneView(JSON.stringify(body), pipe.pipe_name, rowsOf(body)), options.output)
    },
  })
}

function addOptions(command: Command): void {
  command
    .option('-f, --file <file>', 'the same as an argument; can be repeated', (file, files: string[] = []) => [
      ...files,
      file,
    ])
    .addOption(new Option('--format <format>', 'format of all inputs').choices(formats))
    .option('--columns <names>', 'CSV: names of the columns, separated by commas, if there is no header line')
    .option('--types <types>', 'CSV: COLUMN:TYPE,… with string (default), number, boolean or json')
    .option('--delimiter <character>', 'CSV: default: the most frequent of , ; tab and | in the header line')
    .option('--null <text>', "CSV: a value without quotation marks that means null, for example ''")
    .option('--endpoint <url>', 'S3: address of another store than AWS')
    .option('--batch-records <number>', "records in one request (default: 1000, or the pipe's limit)")
    .option('--batch-bytes <number>', 'bytes in one request before compression', '1048576')
    .option('--in-flight <number>', 'requests at the same time; more than 1 does not keep the order', '1')
    .option('--no-gzip', 'send uncompressed; a daemon on this machine always gets it so')
    .option('--patience <seconds>', 'how long a request is retried', '300')
    .option('--again', 'send a file again that was sent before')
    .addOption(
      new Option('--on-error <action>', 'for invalid records (default: stop)').choices(['stop', 'skip']),
    )
    .option('--skip-invalid <file>', 'append invalid records to this file, and continue')
}

function settingsOf(
  inputs: readonly string[],
  options: IngestOptions,
): Omit<IngestSettings, 'gzip' | 'signal'> {
  const { skipInvalid, columns, types, delimiter } = options
  if (skipInvalid !== undefined && options.onError === 'stop') {
    throw usageFailure('--skip-invalid and --on-error stop contradict each other', 'omit one of them')
  }
  if (
    inputs.some((input) => skipInvalid !== undefined && path.resolve(input) === path.resolve(skipInvalid))
  ) {
    throw usageFailure('--skip-invalid names the input itself', 'name another file')
  }
  return {
    inputs: inputs.length === 1 && inputs[0] === '-' ? [] : inputs,
    endpoint: options.endpoint ?? null,
    format: options.format ?? null,
    csv: {
      header: columns === undefined ? null : columns.split(','),
      types: types === undefined ? new Map() : parseTypes(types),
      delimiter: delimiter === undefined ? null : parseDelimiter(delimiter),
      nullText: options.null === undefined ? null : Buffer.from(options.null),
    },
    maxRecords: options.batchRecords === undefined ? null : positive('--batch-records', options.batchRecords),
    maxBytes: positive('--batch-bytes', options.batchBytes),
    inFlight: positive('--in-flight', options.inFlight),
    patienceMs: positive('--patience', options.patience) * 1000,
    again: options.again === true,
    skips: options.onError === 'skip' || skipInvalid !== undefined,
    skipInvalid: skipInvalid ?? null,
    env: io().env,
  }
}

/** Compression saves time only in a network. */
function isOnThisMachine(url: string): boolean {
  const { hostname } = new URL(url)
  return hostname === 'localhost' || hostname === '[::1]' || hostname.startsWith('127.')
}

function saySummary(
  { records, requests, skipped, sources, sentBefore }: IngestResult,
  { pipe, seconds, options }: { pipe: string; seconds: number; options: IngestOptions },
): void {
  const from = sources > 1 ? ` from ${counted(sources - sentBefore, 'file')}` : ''
  const rate = seconds >= 1 ? `, ${count(records / seconds)}/s` : ''
  say(`${counted(records, 'record')} accepted by ${pipe}${from} in ${counted(requests, 'request')}${rate}.`)
  if (sentBefore > 0) say(`${counted(sentBefore, 'file')} skipped: sent before and not changed.`)
  if (skipped === 0) return
  const { skipInvalid } = options
  say(`${counted(skipped, 'line')} ${skipInvalid === undefined ? 'skipped' : `appended to ${skipInvalid}`}.`)
}

/**
 * A key that has only the scope `ingest` cannot read pipes. Then the user must give the id, and nothing else is
 * known.
 */
async function findTargetPipe(client: Client, reference: string): Promise<IngestTarget> {
  try {
    return await findPipe(client, reference)
  } catch (error) {
    if (!(error instanceof ApiFailure) || error.code !== 'forbidden') throw error
    if (isUuid(reference)) {
      const pipe_id = reference.toLowerCase()
      return { pipe_id, pipe_name: pipe_id, pipe_api_key_required: true, isNamedAlone: true }
    }
    throw new Failure(
      exitCodes.auth,
      `this key cannot read pipes, so ${JSON.stringify(reference)} cannot be looked up`,
      'give the id of the pipe, or a key that also has the scope read',
      error,
    )
  }
}

function positive(flag: string, value: string): number {
  if (/^[1-9]\d{0,14}$/.test(value)) return Number(value)
  throw usageFailure(
    `${flag} ${JSON.stringify(value)} is not a whole number of at least 1`,
    `e.g. ${flag} 100`,
  )
}
