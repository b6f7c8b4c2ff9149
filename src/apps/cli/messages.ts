/** `pipectl why` and `pipectl messages`: what happened to one message, and the messages of a pipe. */
import { type Command, Option } from 'commander'
import type { Destination } from '../../contract/destination.ts'
import type { Pipe } from '../../contract/pipe.ts'
import { messageStates, messageWord } from '../../contract/state-words.ts'
import { ago, bytes, count, counted } from '../../platform/quantities.ts'
import type { Client, MessageDetail, MessageList } from '../client/client.ts'
import { elementTexts, singleLine, valueText } from '../client/json-text.ts'
import { errorLine, faultWords } from '../client/lane-error.ts'
import { printableJson } from '../client/printable.ts'
import { fullName } from '../client/workspace.ts'
import { clientCommand } from './define.ts'
import { requireMoment } from './moment.ts'
import { listView, print, type View } from './output.ts'
import { requireCondition } from './record-condition.ts'
import { findDestination, findPipe } from './references.ts'
import { say } from './terminal.ts'

type MessageLane = MessageDetail['lanes'][number]

interface ListOptions {
  since?: string
  until?: string
  state?: string
  where?: string
  msgId?: string
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
    summary: 'list the messages of a pipe that are kept, newest first, or search in them',
    help: `PIPE/NAME lists the messages of one destination, and --state then means the state in its lane.
--where compares the text of the value: a string with or without its quotes, anything else exactly as it was sent
(1.10 is not 1.1). A key inside an object is written with dots: customer.country. One search reads a limited number of
messages; stderr shows how far it looked, and the command that continues.`,
    examples: [
      'pipectl messages orders --since 1h',
      'pipectl messages orders/warehouse --state parked',
      'pipectl messages orders --where customer.country=AT --since 24h',
      'pipectl messages orders --limit 200 -o name',
    ],
    options: (command) =>
      command
        .option(
          '--since <time>',
          'received since: 15m, 1h or 2d (ago), today, yesterday, or an ISO 8601 time',
        )
        .option('--until <time>', 'received before: the same forms')
        .addOption(
          new Option('--state <state>', 'only messages with this state in a lane').choices(messageStates),
        )
        .option('--where <key=value>', 'only messages with a record that has this value')
        .option('--msg-id <msg-id>', 'only this message')
        .option('--limit <count>', 'number of messages (1 to 200, default 50)')
        .option('--after <stream-seq>', 'only messages older than this one: the next page'),
    action: async (client, [reference], options) => {
      const isLane = reference!.includes('/')
      const { pipe, destination } = isLane
        ? await findDestination(client, reference!)
        : { pipe: await findPipe(client, reference!), destination: null }
      const query = {
        ...listQuery(options),
        ...(destination === null ? {} : { destination_id: destination.destination_id }),
      }
      const { body, text } = await client.call('listMessages', { path: { pipe_id: pipe.pipe_id }, query })
      const names = await namesOf(client, pipe.pipe_id)
      await print(messageView(body, names, text), options.output)
      const name = destination === null ? pipe.pipe_name : fullName(pipe, destination)
      if (body.next !== null) say(await continued(body, name, options))
    },
  })
}

function listQuery({ since, until, where, msgId, ...others }: ListOptions): Record<string, string> {
  if (where !== undefined) requireCondition(where)
  const given = {
    ...others,
    since: since === undefined ? undefined : requireMoment(since, '--since'),
    until: until === undefined ? undefined : requireMoment(until, '--until'),
    where,
    msg_id: msgId,
  }
  const names = ['since', 'until', 'state', 'where', 'msg_id', 'limit', 'after'] as const
  return Object.fromEntries(names.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])))
}

/** Describes how far the search looked, with the command for the next page. */
async function continued(
  { messages, next, searched }: MessageList,
  name: string,
  options: ListOptions,
): Promise<string> {
  // Loaded only here, because the module knows the options of many commands.
  const { command } = await import('../client/cli-twin.ts')
  const filters = listFlags.flatMap(([key, flag]) => (options[key] === undefined ? [] : [flag, options[key]]))
  const more = command('messages', name, ...filters, '--after', String(next))
  const isFull = messages.length >= Number(options.limit ?? messagesPerPage)
  if (isFull) return `There are more: ${more}`
  const looked = `Looked at ${counted(searched.messages, 'message')}`
  const until = searched.oldest_ts === null ? '' : `, back to ${searched.oldest_ts}`
  return `${looked}${until}. Older ones were not searched yet: ${more}`
}

const messagesPerPage = 50
const listFlags = [
  ['since', '--since'],
  ['until', '--until'],
  ['state', '--state'],
  ['where', '--where'],
  ['limit', '--limit'],
] as const

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
      [{ label: 'RECORD', isSpare: true }, ({ excerpt }) => excerptText(excerpt)],
    ],
    empty: 'no messages: none were sent, or none are kept any more',
  })
}

/** The first characters of a record, which `why` shows in full. */
function excerptText(excerpt: MessageList['messages'][number]['excerpt']): string {
  if (excerpt === null) return '-'
  const line = printableJson(singleLine(excerpt.text))
  const isCut = excerpt.truncated || line.length > excerptWidth
  return isCut ? `${line.slice(0, excerptWidth)}…` : line
}

const excerptWidth = 60

/** `delivered`, or the lanes with another state. */
function lanesInWords(lanes: MessageList['messages'][number]['lanes'], names: Names): string {
  if (lanes.length === 0) return 'no destination'
  const others = lanes.filter(({ state }) => state !== 'delivered')
  if (others.length === 0) return 'delivered'
  if (lanes.length === 1) return stateOf(names, others[0]!)
  return others.map((lane) => `${nameOf(names, lane)} ${stateOf(names, lane)}`).join(', ')
}
