/** `pipectl destinations try-transform`: shows records before and after a transform. */
import { type Command, Option } from 'commander'
import type { SuccessBody } from '../../../contract/operations.ts'
import { maskSaltPlace } from '../../../contract/transform.ts'
import {
  type TransformTrialRequest,
  type TrialOutcome,
  trialOutcomes,
} from '../../../contract/transform-trial.ts'
import { count, counted } from '../../../platform/quantities.ts'
import type { Client } from '../../client/client.ts'
import { commandFailure } from '../../client/failure.ts'
import { transformFlags } from '../../client/flag-fields.ts'
import { elementTexts, singleLine, valueText } from '../../client/json-text.ts'
import { clientCommand } from '../define.ts'
import { addFlagOptions } from '../flag-options.ts'
import { print, type Table } from '../output.ts'
import { findDestination, findPipe } from '../references.ts'
import { say } from '../terminal.ts'
import { bodyFromFile, sampleText } from './files.ts'
import { namingHelp } from './status.ts'
import { type TransformOptions, transformSettings } from './transform-options.ts'

interface TryOptions extends Omit<TransformOptions, 'secret'> {
  secret?: string
  file?: string
  sampleFile?: string
  limit?: string
  only?: TrialOutcome
}

type Trial = SuccessBody<'tryTransform'>

export function addTryTransformCommand(destinations: Command): void {
  clientCommand<TryOptions>(destinations, {
    usage: 'try-transform <destination>',
    summary:
      'show records before and after a stored or a new transform; exit code 1 if it fails on all of them',
    help: `${namingHelp}
With PIPE/NAME the stored transform is tested, with the changes of --filter, --map and -f; with only a PIPE they are a new
one. Up to 1,000 of the newest records are tested and counted, for 5 s at most; --limit of them are shown. Nothing is stored or delivered.`,
    examples: [
      'pipectl destinations try-transform orders/database --only failed',
      `pipectl destinations try-transform orders --filter 'record.total > 10' --map '{"op":"drop","paths":["user"]}'`,
      'pipectl destinations try-transform orders/database --sample-file records.ndjson -o json',
    ],
    options: (command) => {
      addFlagOptions(
        command,
        transformFlags.filter(({ takes }) => takes !== 'reset'),
      )
      command
        .option('-f, --file <file>', 'YAML or JSON with `transform`, as for create; - for stdin')
        .addOption(
          new Option('--secret <key>', 'read the salt from its variable or a prompt').choices([
            maskSaltPlace,
          ]),
        )
        .option('--sample-file <file>', 'test these records instead, as NDJSON or JSON; - for stdin')
        .option('--limit <count>', 'number of records to show (1 to 200, default 10)')
        .addOption(
          new Option('--only <outcome>', 'show only records with this result').choices(trialOutcomes),
        )
    },
    action: async (client, [reference], options) => {
      const { pipeId, body } = await whatToTry(client, reference!, options)
      const { body: trial, text } = await client.call('tryTransform', {
        path: { pipe_id: pipeId },
        body: {
          ...body,
          ...(options.sampleFile === undefined ? {} : { sample: sampleText(options.sampleFile) }),
          ...(options.limit === undefined ? {} : { limit: Number(options.limit) }),
          ...(options.only === undefined ? {} : { only: options.only }),
        },
      })
      const view = {
        json: text,
        items: () => elementTexts(valueText(text, 'records') ?? '[]'),
        names: () => trial.records.map(nameOf),
        table: () => tableOf(trial, text),
      }
      await print(view, options.output)
      sayCounts(trial)
      if (trial.failed === 0 || trial.failed < trial.records_seen) return
      throw commandFailure(
        'the transform fails on all of the records',
        'has(record.key) says whether a record has a key; docs/transform.md has more',
      )
    },
  })
}

async function whatToTry(
  client: Client,
  reference: string,
  options: TryOptions,
): Promise<{ pipeId: string; body: TransformTrialRequest }> {
  const given = { ...options, secret: options.secret === undefined ? [] : [options.secret] }
  const isGiven = [options.filter, options.map, options.file].some((one) => one !== undefined)
  const { transform: fromFile } = options.file === undefined ? {} : await bodyFromFile(options.file)
  const inFile = fromFile === undefined ? {} : { transform: fromFile }
  if (isGiven && !reference.includes('/')) {
    const pipe = await findPipe(client, reference)
    return { pipeId: pipe.pipe_id, body: { ...inFile, ...(await transformSettings(given, null)) } }
  }
  const { pipe, destination } = await findDestination(client, reference)
  const { destination_id, transform } = destination
  const body = { ...inFile, ...(await transformSettings(given, transform)) }
  return { pipeId: pipe.pipe_id, body: { ...body, destination_id } }
}

/** Two rows per record: the original, and the result. */
function tableOf(trial: Trial, text: string): Table {
  const texts = elementTexts(valueText(text, 'records') ?? '[]')
  const rows = trial.records.flatMap((record, at) => {
    const member = (key: string) => singleLine(valueText(texts[at] ?? '{}', key) ?? '')
    const [before, after] = record.too_large
      ? ['(too large to show)', '']
      : [member('before'), member('after')]
    const became = { kept: after, filtered: '', failed: record.error === null ? '' : describe(record.error) }
    return [
      [nameOf(record), 'before', before],
      ['', record.outcome === 'kept' ? 'after' : record.outcome, became[record.outcome]],
    ]
  })
  return {
    columns: [{ label: 'RECORD', shrinksTo: 10, keepsEnd: true }, '', { label: 'JSON', wraps: true }],
    rows,
    empty: trial.records_seen === 0 ? 'there are no records to test' : 'none of the records',
  }
}

function sayCounts({ is_complete, records_seen, kept, filtered, failed, faults, truncated }: Trial): void {
  if (records_seen > 0)
    say(
      `Of ${counted(records_seen, 'record')} ${count(kept)} are kept, ${count(filtered)} filtered out, and ${count(failed)} fail.`,
    )
  for (const fault of faults) say(`Fails on ${counted(fault.records, 'record')}: ${describe(fault)}`)
  if (!is_complete) say('The time limit was reached: the other records were not tested.')
  if (truncated) say('There are more such records: --limit shows up to 200.')
}

function describe({ path, message }: { path: string; message: string }): string {
  return `${path}: ${message}`
}

function nameOf({ msg_id, record_index }: Trial['records'][number]): string {
  return msg_id === null ? String(record_index) : `${msg_id}:${record_index}`
}
