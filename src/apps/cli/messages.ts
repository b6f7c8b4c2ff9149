/** `pipectl why` and `pipectl messages`: what happened to one message, and the messages of a pipe. */
import type { Command } from 'commander'
import type { Destination } from '../../contract/destination.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { messageWord } from '../../contract/state-words.ts'
import { ago, bytes, count, counted } from '../../platform/quantities.ts'
import type { Client, MessageDetail, MessageList } from '../client/client.ts'
import { elementTexts, valueText } from '../client/json-text.ts'
import { errorLine, faultWords } from '../client/lane-error.ts'
import { fullName } from '../client/workspace.ts'
import { clientCommand } from './define.ts'
import { requireMoment } from './moment.ts'
import { listView, print, type View } from './output.ts'
import { findPipe } from './references.ts'
import { say } from './terminal.ts'

type MessageLane = MessageDetail['lanes'][number]

interface ListOptions {
  since?: string
  until?: string
  limit?: string
  after?: string
}

export function addMessageCommands(program: Command): void {
  clientCommand(program, {
    usage: 'why <msg-id>',
    summary: 'show what happened to a message in each lane, and what to do next',
    help: 'The msg_id is in the response to ingest. Exit code 3: there is no such message, or it is no longer kept.',
    examples: ['pipectl why 0190b0a0-0000-7000-8000-000000000001', 'pipectl why MSG_ID -o json'],
    action: async (client, [msgId], options) => {
      const { body, text } = await client.call('getMessage', { path: { msg_id: msgId! } })
      const names = await namesOf(client, body.pipe_id)
      describe(body, names)
      const { json, table } = laneView(body, names, text)
      await print({ json, names: () => [body.msg_id], table }, options.output)
      advise(body, names)
    },
  })
  clientCommand<ListOptions>(program, {
    usage: 'messages <pipe>',
    summary: 'list the messages of a pipe that are kept, newest first',
    examples: ['pipectl messages orders --since 1h', 'pipectl messages orders --limit 200 -o name'],
    options: (command) =>
      command
        .option(
          '--since <time>',
          'received since: 15m, 1h or 2d (ago), today, yesterday, or an ISO 8601 time',
        )
        .option('--until <time>', 'received before: the same forms')
        .option('--limit <count>', 'number of messages (1 to 200, default 50)')
        .option('--after <stream-seq>', 'only messages older than this one: the next page'),
    action: async (client, [reference], options) => {
      const pipe = await findPipe(client, reference!)
      const query: Record<string, string> = {}
      if (options.since !== undefined) query.since = requireMoment(options.since, '--since')
      if (options.until !== undefined) query.until = requireMoment(options.until, '--until')
      if (options.limit !== undefined) query.limit = options.limit
      if (options.after !== undefined) query.after = options.after
      const { body, text } = await client.call('listMessages', { path: { pipe_id: pipe.pipe_id }, query })
      const names = await namesOf(client, pipe.pipe_id)
      await print(messageView(body, names, text), options.output)
      if (body.next !== null) say(`There are more: pipectl messages ${pipe.pipe_name} --after ${body.next}`)
    },
  })
}

interface Names {
  pipe: Pipe
  /** By id. */
  destinations: ReadonlyMap<string, Destination>
}

async function namesOf(client: Client, pipeId: string): Promise<Names> {
  const { pipe, destinations } = (await client.call('getPipe', { path: { pipe_id: pipeId } })).body
  return { pipe, destinations: new Map(destinations.map((one) => [one.destination_id, one])) }
}

function nameOf({ pipe, destinations }: Names, { destination_id: id }: Pick<MessageLane, 'destination_id'>) {
  const destination = destinations.get(id)
  return destination === undefined ? id : fullName(pipe, destination)
}

function stateOf({ destinations }: Names, lane: Pick<MessageLane, 'destination_id' | 'state'>): string {
  return messageWord(lane.state, destinations.get(lane.destination_id)?.lane)
}

function describe(body: MessageDetail, names: Names): void {
  const records = counted(body.records_count, 'record')
  say(
    `${records} of pipe ${names.pipe.pipe_name}, received ${ago(body.received_ts, Date.now())}, stream_seq ${body.stream_seq}.`,
  )
}

function laneView({ lanes }: MessageDetail, names: Names, json: string): View {
  const now = Date.now()
  const delivered = ({ state, delivered_ts }: MessageLane) => {
    if (state !== 'delivered') return '-'
    return delivered_ts === null ? 'not known' : ago(delivered_ts, now)
  }
  const attempts = ({ state, attempts }: MessageLane) =>
    state === 'delivered' && attempts === 0 ? '-' : String(attempts)
  return listView(lanes, {
    json,
    name: (lane) => nameOf(names, lane),
    columns: [
      [{ label: 'LANE', shrinksTo: 20, keepsEnd: true }, (lane) => nameOf(names, lane)],
      ['STATE', (lane) => stateOf(names, lane)],
      [{ label: 'DELIVERED', gives: 1 }, delivered],
      [{ label: 'ATTEMPTS', gives: 2 }, attempts],
      [{ label: 'BATCH', isSpare: true }, (lane) => lane.batch_id ?? '-'],
      [{ label: 'LAST ERROR', wraps: true }, (lane) => errorLine(lane.last_error)],
    ],
    empty: 'the pipe had no destination at that time',
  })
}

/** Prints the next step for each lane that has not delivered the message. */
function advise({ lanes }: MessageDetail, names: Names): void {
  for (const lane of lanes) {
    const name = nameOf(names, lane)
    const next = nextStep(lane, name, names.destinations.get(lane.destination_id)?.destination_type)
    if (next !== null) say(`${name}: ${next}`)
  }
}

function nextStep(
  { state, last_error }: MessageLane,
  name: string,
  type: Destination['destination_type'] | undefined,
): string | null {
  switch (state) {
    case 'delivered':
      return null
    case 'stuck':
      if (last_error?.fault === 'records')
        return `${faultWords(last_error, type)}. Then \`pipectl lanes retry ${name}\`, or \`pipectl lanes skip ${name}\`.`
      return `the lane tries again by itself; \`pipectl lanes retry ${name}\` tries at once.`
    case 'pending':
      return 'not delivered yet. `pipectl lanes list` shows the state of the lane.'
    case 'parked':
      return 'parked; `pipectl parked list` shows it, and replays it.'
    case 'skipped':
      return `skipped by a user; \`pipectl lanes rewind ${name}\` delivers it again while it is kept.`
    case 'dropped':
      return 'lost before it could be delivered: by its age, or to a damaged disk. See the log (`lane.dropped`).'
  }
}

function messageView({ messages }: MessageList, names: Names, json: string): View {
  const now = Date.now()
  return listView(messages, {
    json,
    items: () => elementTexts(valueText(json, 'messages') ?? '[]'),
    name: (one) => one.msg_id,
    columns: [
      ['MSG ID', (one) => one.msg_id],
      ['RECEIVED', (one) => ago(one.received_ts, now)],
      [{ label: 'RECORDS', gives: 1 }, (one) => count(one.records_count)],
      [{ label: 'SIZE', isSpare: true }, (one) => bytes(one.bytes)],
      [{ label: 'STREAM SEQ', isSpare: true }, (one) => String(one.stream_seq)],
      [{ label: 'LANES', wraps: true }, (one) => lanesInWords(one.lanes, names)],
    ],
    empty: 'no messages: none were sent, or none are kept any more',
  })
}

/** `delivered`, or the lanes with another state. */
function lanesInWords(lanes: MessageList['messages'][number]['lanes'], names: Names): string {
  if (lanes.length === 0) return 'no destination'
  const others = lanes.filter(({ state }) => state !== 'delivered')
  if (others.length === 0) return 'delivered'
  if (lanes.length === 1) return stateOf(names, others[0]!)
  return others.map((lane) => `${nameOf(names, lane)} ${stateOf(names, lane)}`).join(', ')
}
