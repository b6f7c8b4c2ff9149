/** `pipectl ingest`: records from a file or stdin into a pipe. */
import { existsSync, statSync } from 'node:fs'
import type { Command } from 'commander'
import { exitCodes, Failure } from '../client/failure.ts'
import { count } from '../client/quantities.ts'
import { connect } from './connection.ts'
import { define, formats } from './define.ts'
import { print } from './output.ts'
import { oneView } from './pipes.ts'
import { findPipe } from './references.ts'
import { say } from './terminal.ts'

interface IngestOptions {
  file?: string
  batchRecords?: string
  batchBytes: string
  gzip: boolean
  patience: string
  again?: boolean
}

export function addIngestCommand(program: Command): void {
  define<IngestOptions>(program, {
    usage: 'ingest <pipe>',
    summary: 'send records from a file or stdin: JSON objects, an array of them, or NDJSON',
    help: `Records are sent as they stand in the input, in order. An interrupted run is resumed by running the same command
again: nothing is lost and nothing is kept twice. A file that has grown is sent from where it ended before.`,
    examples: [
      'pipectl ingest orders -f orders.ndjson',
      'echo \'{"id": 1, "total": 9.90}\' | pipectl ingest orders',
      'tail -F events.ndjson | pipectl ingest clicks',
    ],
    output: formats,
    data: true,
    options: (command) =>
      command
        .option('-f, --file <file>', 'input file; - or none: stdin')
        .option('--batch-records <number>', "records in one request (default: 1000, or the pipe's limit)")
        .option('--batch-bytes <number>', 'bytes in one request before compression', '1048576')
        .option('--no-gzip', 'send uncompressed')
        .option('--patience <seconds>', 'how long a refused or failed request is repeated', '300')
        .option('--again', 'send a file that was sent before once more'),
    action: async ([reference], options) => {
      const file = options.file === undefined || options.file === '-' ? null : options.file
      if (file !== null && (!existsSync(file) || !statSync(file).isFile())) {
        throw new Failure(
          exitCodes.usage,
          `-f ${file}: there is no such file`,
          'name a file, or pipe the records in',
        )
      }
      if (file === null && process.stdin.isTTY)
        say('Reading records from the terminal; Ctrl-D ends the input.')
      const client = await connect(options)
      const pipe = await findPipe(client, reference!)
      const { runIngest } = await import('./ingest/run-ingest.ts')
      const interrupt = new AbortController()
      const onInterrupt = () => interrupt.abort()
      process.once('SIGINT', onInterrupt).once('SIGTERM', onInterrupt)
      const result = await runIngest(client, pipe, {
        file,
        maxRecords:
          options.batchRecords === undefined ? null : positive('--batch-records', options.batchRecords),
        maxBytes: positive('--batch-bytes', options.batchBytes),
        gzip: options.gzip,
        patienceMs: positive('--patience', options.patience) * 1000,
        again: options.again === true,
        env: process.env,
        signal: interrupt.signal,
      })
      process.off('SIGINT', onInterrupt).off('SIGTERM', onInterrupt)
      const body = {
        pipe_id: pipe.pipe_id,
        pipe_name: pipe.pipe_name,
        records_count: result.records,
        requests_count: result.requests,
        resumed_after_records: result.resumedAfter,
      }
      say(
        `${count(result.records)} records accepted by ${pipe.pipe_name} in ${count(result.requests)} requests.`,
      )
      const rows = Object.entries(body).map(([key, value]) => [key, String(value)])
      await print(oneView(JSON.stringify(body), pipe.pipe_name, rows), options.output)
    },
  })
}

function positive(flag: string, value: string): number {
  if (/^[1-9]\d{0,14}$/.test(value)) return Number(value)
  throw new Failure(
    exitCodes.usage,
    `${flag} ${JSON.stringify(value)} is not a whole number of at least 1`,
    `e.g. ${flag} 100`,
  )
}
