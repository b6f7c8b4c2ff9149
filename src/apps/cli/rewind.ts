/** `pipectl lanes rewind`: shows what a rewind would deliver again, asks for confirmation, and rewinds. */
import type { Command } from 'commander'
import type { Destination } from '../../contract/destination.ts'
import { wordsOf } from '../../contract/destination-words.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { counted } from '../../platform/quantities.ts'
import type { Client, MessageList } from '../client/client.ts'
import { type Failure, nothingToDoFailure } from '../client/failure.ts'
import { type DestinationOfPipe, fullName, lanePath } from '../client/workspace.ts'
import { connect } from './connection.ts'
import { define } from './define.ts'
import { requireMoment } from './moment.ts'
import { oneView, print } from './output.ts'
import { findDestination } from './references.ts'
import { confirm, say } from './terminal.ts'

export function addRewindCommand(lanes: Command): void {
  define<{ to: string }>(lanes, {
    usage: 'rewind <destination>',
    summary: 'deliver again from an earlier point; to go forward, see `lanes skip`',
    examples: [
      'pipectl lanes rewind orders/pull --to earliest --yes',
      'pipectl lanes rewind orders/database --to 2h',
      'pipectl lanes rewind orders/database --to 2026-01-31T06:00:00Z --yes',
    ],
    output: true,
    daemon: true,
    destructive: true,
    options: (command) =>
      command.requiredOption(
        '--to <point>',
        '`earliest`, a stream_seq, a time ago (2h, 7d), today, yesterday, or an ISO 8601 time',
      ),
    action: async ([reference], options) => {
      const to = rewindPoint(options.to)
      const client = await connect(options)
      const found = await findDestination(client, reference!)
      const { pipe, destination } = found
      const name = fullName(pipe, destination)
      const again = await deliveredAgain(client, found, to)
      // The API rejects a position after the cursor.
      const isAhead = typeof to === 'number' && to > destination.lane.cursor_seq
      if (again === null && !isAhead) throw nothingAgain(name)
      if (again !== null && options.yes === true)
        say(`Delivers ${whatAgain(found, again)}. ${copies(destination)}`)
      else if (again !== null)
        await confirm(`Deliver ${whatAgain(found, again)}? ${copies(destination)}`, options.yes)
      const reply = await client.call('rewindDestination', { path: lanePath(destination), body: { to } })
      const cursor = String(reply.body.cursor_seq)
      say(`The lane of ${name} continues after stream_seq ${cursor}.`)
      await print(oneView(reply.text, cursor, [['cursor_seq', cursor]]), options.output)
    },
  })
}

/** `earliest`, a stream_seq, or an ISO 8601 time. */
type RewindPoint = string | number

/** The form of the API. Throws Failure (usage). */
function rewindPoint(text: string): RewindPoint {
  if (text === 'earliest') return text
  return /^\d{1,15}$/.test(text) ? Number(text) : requireMoment(text, '--to')
}

/** The messages between a position and a lane's cursor. */
interface Again {
  messages: number
  records: number
  firstTs: string
  lastTs: string
  /** There are more than were counted. */
  isMore: boolean
}

/** 5,000 messages: enough to show the extent of the rewind. */
const maxPages = 25

/** Null: nothing would be delivered again. Throws Failure. */
async function deliveredAgain(
  client: Client,
  { pipe, destination }: DestinationOfPipe,
  to: RewindPoint,
): Promise<Again | null> {
  const query: Record<string, string> = { limit: String(resourceLimits.messagesPerPage) }
  if (typeof to === 'string' && to !== 'earliest') query.since = to
  const firstSeq = typeof to === 'number' ? to : 0
  let again: Again | null = null
  let before: number | null = destination.lane.cursor_seq + 1
  for (let page = 0; before !== null && page < maxPages; page += 1) {
    const { body }: { body: MessageList } = await client.call('listMessages', {
      path: { pipe_id: pipe.pipe_id },
      query: { ...query, after: before },
    })
    for (const { stream_seq, received_ts, records_count } of body.messages) {
      if (stream_seq <= firstSeq) return again
      again ??= { messages: 0, records: 0, firstTs: received_ts, lastTs: received_ts, isMore: false }
      again.messages += 1
      again.records += records_count
      again.firstTs = received_ts
    }
    before = body.next
  }
  if (again !== null) again.isMore = before !== null
  return again
}

function whatAgain({ pipe, destination }: DestinationOfPipe, again: Again): string {
  const { messages, records, firstTs, lastTs, isMore } = again
  const most = isMore ? 'more than ' : ''
  return `${most}${counted(records, 'record')} (${counted(messages, 'message')}, received ${firstTs} to ${lastTs}) again to ${fullName(pipe, destination)}`
}

export function copies({ destination_type: type, columns }: Destination): string {
  if (!wordsOf(type).isDatabase) return 'It receives them a second time.'
  return columns?.some(({ semantic_role }) => semantic_role === 'dedupe_id')
    ? 'The table has a dedupe_id: one copy of each stays.'
    : 'The table has no dedupe_id: each record that it has is stored a second time.'
}

function nothingAgain(name: string): Failure {
  return nothingToDoFailure(
    `nothing to deliver again: ${name} has received no message after that point that is still kept`,
    'give an earlier point; `pipectl messages PIPE` lists the messages that are kept',
  )
}
