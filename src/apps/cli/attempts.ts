/** `pipectl attempts`: lists the delivery attempts of a lane, or shows the request and response of one attempt. */
import type { Command } from 'commander'
import type { DeliveryAttempt } from '../../contract/attempts.ts'
import { ago, bytes, count, counted } from '../../platform/quantities.ts'
import { attemptOutcome, attemptTook } from '../client/attempts.ts'
import { type Failure, notFoundFailure } from '../client/failure.ts'
import { elementTexts, valueText } from '../client/json-text.ts'
import { fullName, lanePath } from '../client/workspace.ts'
import { clientCommand } from './define.ts'
import { requireMoment } from './moment.ts'
import { fieldTable, listView, print, type Table } from './output.ts'
import { findDestination } from './references.ts'
import { say } from './terminal.ts'

interface Options {
  failed?: boolean
  since?: string
  limit?: string
  before?: string
}

export function addAttemptsCommand(program: Command): void {
  clientCommand<Options>(program, {
    usage: 'attempts <destination> [attempt-no]',
    summary: 'list the delivery attempts of a lane, newest first, or show one with its request and response',
    help: 'Deliveries are kept for 24 hours and failures for 7 days, the newest of each. `pipectl why` shows what happened to one message.',
    examples: [
      'pipectl attempts orders/database --failed --since 1h',
      'pipectl attempts orders/endpoint 1042',
    ],
    options: (command) =>
      command
        .option('--failed', 'only attempts that failed')
        .option('--since <time>', 'begun since: 15m, 1h or 2d (ago), today, yesterday, or an ISO 8601 time')
        .option('--limit <count>', 'number of attempts (1 to 500, default 50)')
        .option('--before <attempt-no>', 'only attempts older than this one: the next page'),
    action: async (client, [reference, number], options) => {
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
      const now = Date.now()
      const view = listView(body.attempts, {
        json: text,
        items: () => texts,
        name: numberOf,
        columns: [
          ['NO', numberOf],
          ['BEGAN', (one) => ago(one.attempt_ts, now)],
          ['TOOK', attemptTook],
          ['OUTCOME', attemptOutcome],
          [{ label: 'TRY', gives: 2 }, (one) => String(one.batch_attempt)],
          ['RECORDS', (one) => count(one.records)],
          [{ label: 'SIZE', gives: 1 }, (one) => bytes(one.bytes)],
          [{ label: 'STREAM SEQ', isSpare: true }, seqsOf],
        ],
        note: ({ error }) => error && `${error.message} (${error.code})`,
        empty: 'no attempts: there was nothing to deliver, or none are kept any more',
      })
      await print(view, options.output)
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
  return notFoundFailure(
    `${name} has no attempt ${number}, or it is no longer kept`,
    `\`pipectl attempts ${name}\` lists the attempts that are`,
  )
}

const numberOf = ({ attempt_no }: DeliveryAttempt) => String(attempt_no)

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
