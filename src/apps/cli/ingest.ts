/** `pipectl ingest`: sends records from a file or stdin to a pipe. */
import { existsSync, statSync } from 'node:fs'
import path from 'node:path'
import type { Command } from 'commander'
import { isUuid } from '../../contract/uuid.ts'
import { counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import { ApiFailure, exitCodes, Failure, usageFailure } from '../client/failure.ts'
import { connect } from './connection.ts'
import { define } from './define.ts'
import type { IngestTarget } from './ingest/run-ingest.ts'
import { io } from './io.ts'
import { oneView, print, rowsOf } from './output.ts'
import { findPipe } from './references.ts'
import { interruptible, say } from './terminal.ts'

interface IngestOptions {
  file?: string
  batchRecords?: string
  batchBytes: string
  gzip: boolean
  patience: string
  again?: boolean
  skipInvalid?: string
}

export function addIngestCommand(program: Command): void {
  define<IngestOptions>(program, {
    usage: 'ingest <pipe>',
    summary: 'send records from a file or stdin: JSON objects, an array of them, or NDJSON',
    help: `Records are sent byte for byte, in order. To resume an interrupted run, run the same command again: nothing is lost
or stored twice. If the file has grown, only the new part is sent.
A line that is not a JSON object, or that the pipe rejects, ends the run with its number and the reason; --skip-invalid
appends such lines to a file instead, and continues.`,
    examples: [
      'pipectl ingest orders -f orders.ndjson',
      'echo \'{"id": 1, "total": 9.90}\' | pipectl ingest orders',
      'tail -F events.ndjson | pipectl ingest clicks',
      'pipectl ingest orders -f orders.ndjson --skip-invalid rejected.ndjson',
    ],
    output: true,
    data: true,
    options: (command) =>
      command
        .option('-f, --file <file>', 'input file; - or none: stdin')
        .option('--batch-records <number>', "records in one request (default: 1000, or the pipe's limit)")
        .option('--batch-bytes <number>', 'bytes in one request before compression', '1048576')
        .option('--no-gzip', 'send uncompressed')
        .option('--patience <seconds>', 'how long a request is retried', '300')
        .option('--again', 'send a file again that was sent before')
        .option('--skip-invalid <file>', 'append invalid lines to this file, and continue'),
    action: async ([reference], options) => {
      const file = inputFile(options)
      if (file === null && io().stdin.isTTY) say('Reading records from the terminal; Ctrl-D ends the input.')
      const client = await connect(options)
      const pipe = await findTargetPipe(client, reference!)
      const { runIngest } = await import('./ingest/run-ingest.ts')
      const settings = {
        file,
        maxRecords:
          options.batchRecords === undefined ? null : positive('--batch-records', options.batchRecords),
        maxBytes: positive('--batch-bytes', options.batchBytes),
        gzip: options.gzip,
        patienceMs: positive('--patience', options.patience) * 1000,
        again: options.again === true,
        skipInvalid: options.skipInvalid ?? null,
        env: io().env,
      }
      const result = await interruptible((signal) => runIngest(client, pipe, { ...settings, signal }))
      const body = {
        pipe_id: pipe.pipe_id,
        pipe_name: pipe.pipe_name,
        records_count: result.records,
        requests_count: result.requests,
        resumed_after_records: result.resumedAfter,
        skipped_count: result.skipped,
      }
      say(
        `${counted(result.records, 'record')} accepted by ${pipe.pipe_name} in ${counted(result.requests, 'request')}.`,
      )
      if (result.skipped > 0) say(`${counted(result.skipped, 'line')} appended to ${options.skipInvalid}.`)
      await print(oneView(JSON.stringify(body), pipe.pipe_name, rowsOf(body)), options.output)
    },
  })
}

/** Null: stdin. Throws Failure (usage). */
function inputFile({ file, skipInvalid }: IngestOptions): string | null {
  if (file === undefined || file === '-') return null
  if (!existsSync(file) || !statSync(file).isFile()) {
    const problem = `-f ${file}: there is no such file`
    throw usageFailure(problem, 'name a file, or pipe the records in')
  }
  if (skipInvalid === undefined || path.resolve(file) !== path.resolve(skipInvalid)) return file
  throw usageFailure('--skip-invalid names the input itself', 'name another file')
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
