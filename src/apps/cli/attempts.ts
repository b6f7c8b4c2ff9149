/** `pipectl attempts`: lists the delivery attempts of a lane, or shows the request and response of one attempt. */
import type { Command } from 'commander'
import type { AttemptList, DeliveryAttempt } from '../../contract/attempts.ts'
import { ago, bytes, count, counted } from '../../platform/quantities.ts'
import { attemptOutcome, attemptTook } from '../client/attempts.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import { elementTexts, valueText } from '../client/json-text.ts'
import { fullName, lanePath } from '../client/workspace.ts'
import { connect } from './connection.ts'
import { define, formats } from './define.ts'
import { requireMoment } from './moment.ts'
import { fieldTable, print, type Table } from './output.ts'
import { findDestination } from './references.ts'
import { say } from './terminal.ts'

interface Options {
  failed?: boolean
  since?: string
  limit?: string
  before?: string
}

export function addAttemptsCommand(program: Command): void {
  define<Options>(program, {
    usage: 'attempts <destination> [attempt-no]',
    summary: 'list the delivery attempts of a lane, newest first, or show one with its request and response',
    help: 'Deliveries are kept for 24 hours and failures for 7 days, the newest of each. `pipectl why` shows what happened to one message.',
    examples: [
      'pipectl attempts orders/database --failed --since 1h',
      'pipectl attempts orders/endpoint 1042',
    ],
    output: formats,
    daemon: true,
    options: (command) =>
      command
        .option('--failed', 'only attempts that failed')
        .option('--since <time>', 'begun since: 15m, 1h or 2d (ago), today, yesterday, or an ISO 8601 time')
        .option('--limit <count>', 'number of attempts (1 to 500, default 50)')
        .option('--before <attempt-no>', 'only attempts older than this one: the next page'),
    action: async ([reference, number], options) => {
      const client = await connect(options)
      const { pipe, destination } = await findDestination(client, reference!)
      const name = fullName(pipe, destination)
      const query =
        number === undefined ? queryOf(options) : { before: String(Number(number) + 1), limit: '1' }
      const { body, text } = await client.call('listAttempts', { path: lanePath(destination), query })
      const texts = elementTexts(valueText(text, 'attempts') ?? '[]')
      if (number !== undefined) {
        const [attempt] = body.attempts
        if (attempt === undefined || String(attempt.attempt_no) !== number) throw notKept(name, number)
        const table = () => detailTable(attempt)
        await print({ json: texts[0]!, names: () => [number], table }, options.output)
        return
      }
      await print(
        {
          json: text,
          items: () => texts,
          names: () => body.attempts.map(({ attempt_no }) => String(attempt_no)),
          table: () => listTable(body),
        },
        options.output,
      )
      if (body.next !== null) say(`There are more: pipectl attempts ${name} --before ${body.next}`)
    },
  })
}

function queryOf({ failed, since, limit, before }: Options): Record<string, string> {
  return {
    ...(failed === true ? { outcome: 'failed' } : {}),
    ...(since === undefined ? {} : { since: requireMoment(since, '--since') }),
    ...(limit === undefined ? {} : { limit }),
    ...(before === undefined ? {} : { before }),
  }
}

function notKept(name: string, number: string): Failure {
  return new Failure(
    exitCodes.notFound,
    `${name} has no attempt ${number}, or it is no longer kept`,
    `\`pipectl attempts ${name}\` lists the attempts that are`,
  )
}

function listTable({ attempts }: AttemptList): Table {
  const now = Date.now()
  return {
    columns: [
      'NO',
      'BEGAN',
      'TOOK',
      'OUTCOME',
      { label: 'TRY', gives: 2 },
      'RECORDS',
      { label: 'SIZE', gives: 1 },
      { label: 'STREAM SEQ', isSpare: true },
    ],
    rows: attempts.map((one) => [
      String(one.attempt_no),
      ago(one.attempt_ts, now),
      attemptTook(one),
      attemptOutcome(one),
      String(one.batch_attempt),
      count(one.records),
      bytes(one.bytes),
      seqsOf(one),
    ]),
    notes: attempts.map(({ error }) => error && `${error.message} (${error.code})`),
    empty: 'no attempts: there was nothing to deliver, or none are kept any more',
  }
}

function seqsOf({ first_seq, last_seq }: DeliveryAttempt): string {
  return first_seq === last_seq ? String(first_seq) : `${first_seq}–${last_seq}`
}

function detailTable(attempt: DeliveryAttempt): Table {
  const { error, request, response } = attempt
  const rows = [
    ['outcome', attemptOutcome(attempt)],
    ['began', attempt.attempt_ts],
    ['took', attemptTook(attempt)],
    ['batch', `${attempt.batch_id}, attempt ${attempt.batch_attempt}`],
    ['stream_seq', seqsOf(attempt)],
    [
      'records',
      `${counted(attempt.records, 'record')}, ${bytes(attempt.bytes)}, ${count(attempt.stored_records)} stored`,
    ],
  ]
  if (error !== null) rows.push(['error', `${error.message} (${error.code}, ${error.class})`])
  if (request !== null) {
    rows.push(['request', `${request.method} ${request.url}`])
    for (const [header, value] of Object.entries(request.headers)) rows.push([`> ${header}`, value])
  }
  if (response === null) return fieldTable(rows)
  rows.push(['response', String(response.status)])
  for (const [header, value] of Object.entries(response.headers)) rows.push([`< ${header}`, value])
  if (response.excerpt !== '') rows.push(['body', response.excerpt])
  return fieldTable(rows)
}
