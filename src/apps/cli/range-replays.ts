/** `pipectl lanes replay`, `replays` and `cancel-replay`: kept messages that a destination receives again. */
import type { Command } from 'commander'
import type { Replay, ReplayPlan } from '../../contract/replays.ts'
import { backoffMs } from '../../platform/backoff.ts'
import { ago, count, counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import {
  commandFailure,
  exitCodes,
  Failure,
  notFoundFailure,
  nothingToDoFailure,
  usageFailure,
} from '../client/failure.ts'
import { shortIds } from '../client/parked.ts'
import { type DestinationOfPipe, fullName, lanePath } from '../client/workspace.ts'
import { connect } from './connection.ts'
import { clientCommand, define } from './define.ts'
import { requireMoment } from './moment.ts'
import { listView, oneView, print, rowsOf } from './output.ts'
import { pause } from './pause.ts'
import { openCountProgress } from './progress.ts'
import { findDestination } from './references.ts'
import { copies } from './rewind.ts'
import { confirm, interruptible, say } from './terminal.ts'

interface ReplayOptions {
  from: string
  to: string
  dryRun?: boolean
  wait?: boolean
}

export function addReplayCommands(lanes: Command): void {
  addReplay(lanes)
  addList(lanes)
  addCancel(lanes)
}

function addReplay(lanes: Command): void {
  define<ReplayOptions>(lanes, {
    usage: 'replay <destination>',
    summary: 'deliver kept messages of a time range again, while the lane continues',
    examples: [
      'pipectl lanes replay orders/database --from 2h --to 1h',
      'pipectl lanes replay orders/database --from 2026-01-31T06:00:00Z --to 2026-01-31T07:00:00Z --dry-run',
      'pipectl lanes replay orders/database --from earliest --to now --yes --no-wait',
    ],
    output: true,
    daemon: true,
    destructive: true,
    help: 'The command waits for the end of the replay. Ctrl-C ends the command, and the replay continues.',
    options: (command) =>
      command
        .requiredOption(
          '--from <point>',
          'the start, included: `earliest`, a stream_seq, a time ago (2h, 7d), today, yesterday, or an ISO 8601 time',
        )
        .requiredOption('--to <point>', 'the end, excluded: `now`, or as --from')
        .option('--dry-run', 'count the messages, and change nothing')
        .option('--no-wait', 'do not wait for the end of the replay'),
    action: async ([reference], options) => {
      const range = {
        from: pointOf(options.from, '--from', 'earliest'),
        to: pointOf(options.to, '--to', 'now'),
      }
      const client = await connect(options)
      const found = await findDestination(client, reference!)
      const name = fullName(found.pipe, found.destination)
      const plan = await client.call('planReplay', { path: lanePath(found.destination), body: range })
      if (plan.body.messages === 0) throw nothingToReplay(name, plan.body)
      sayMissing(plan.body)
      if (options.dryRun === true) {
        const rows = rowsOf(plan.body)
        return await print(oneView(plan.text, String(plan.body.messages), rows), options.output)
      }
      const question = `Deliver ${whatAgain(plan.body)} again to ${name}?`
      await confirm(`${question} ${copies(found.destination)}`, options.yes)
      const created = await client.call('createReplay', { path: lanePath(found.destination), body: range })
      const { replay_id } = created.body
      say(`Replay ${replay_id} of ${counted(created.body.messages, 'message')} to ${name} was requested.`)
      const ended =
        options.wait === false
          ? created
          : await interruptible((signal) => end(client, found, replay_id, signal))
      await print(oneView(ended.text, replay_id, replayRows(ended.body)), options.output)
      requireDone(name, ended.body)
    },
  })
}

function addList(lanes: Command): void {
  clientCommand(lanes, {
    usage: 'replays <destination>',
    summary: 'list the replays of a destination, newest first',
    examples: ['pipectl lanes replays orders/database'],
    action: async (client, [reference], options) => {
      const found = await findDestination(client, reference!)
      const { body, text } = await client.call('listReplays', { path: lanePath(found.destination) })
      const short = shortIds(body.replays.map(({ replay_id }) => replay_id))
      const view = listView(body.replays, {
        json: text,
        name: ({ replay_id }) => replay_id,
        columns: [
          ['REPLAY', ({ replay_id }) => short.get(replay_id) ?? replay_id],
          ['STATE', ({ state }) => state],
          ['DONE', ({ done_messages, messages }) => `${count(done_messages)} of ${count(messages)}`],
          [{ label: 'FROM', gives: 2 }, ({ from }) => String(from)],
          [{ label: 'TO', gives: 2 }, ({ to }) => String(to)],
          [{ label: 'CREATED', gives: 1 }, ({ created_ts }) => ago(created_ts, Date.now())],
        ],
        note: ({ error }) => (error === null ? null : `${error.code}: ${error.message}`),
        empty: 'no replays; start one with `pipectl lanes replay PIPE/NAME --from T --to T`',
      })
      await print(view, options.output)
    },
  })
}

function addCancel(lanes: Command): void {
  clientCommand(lanes, {
    usage: 'cancel-replay <destination> <replay>',
    summary: 'cancel a replay; the batch that is being delivered is completed',
    examples: ['pipectl lanes cancel-replay orders/database 0199c3f2'],
    action: async (client, [reference, id], options) => {
      const found = await findDestination(client, reference!)
      const name = fullName(found.pipe, found.destination)
      const replay_id = await findReplay(client, found, id!)
      await client.call('cancelReplay', { path: { ...lanePath(found.destination), replay_id } })
      const reply = await client.call('getReplay', { path: { ...lanePath(found.destination), replay_id } })
      say(`Cancelled replay ${replay_id} of ${name}: ${progressWords(reply.body)}.`)
      await print(oneView(reply.text, replay_id, replayRows(reply.body)), options.output)
    },
  })
}

/** The form of the API. Throws Failure (usage). */
function pointOf(text: string, option: string, end: 'earliest' | 'now'): string | number {
  if (text === end) return text
  return /^\d{1,15}$/.test(text) ? Number(text) : requireMoment(text, option)
}

const firstLookMs = 100
const longestLookMs = 1_000

/** Waits for the end of the replay. Throws Failure if the signal ends the wait. */
async function end(client: Client, found: DestinationOfPipe, replay_id: string, signal: AbortSignal) {
  const name = fullName(found.pipe, found.destination)
  let progress: ReturnType<typeof openCountProgress> | null = null
  try {
    for (let looks = 1; ; looks += 1) {
      const reply = await client.call('getReplay', { path: { ...lanePath(found.destination), replay_id } })
      progress ??= openCountProgress('Replayed', reply.body.messages)
      progress.update(reply.body.done_messages)
      if (reply.body.state !== 'waiting' && reply.body.state !== 'running') return reply
      if (await pause(backoffMs(looks, firstLookMs, longestLookMs), signal)) continue
      throw new Failure(
        exitCodes.interrupted,
        `the replay continues without this command: ${progressWords(reply.body)}`,
        `\`pipectl lanes replays ${name}\` shows it, \`pipectl lanes cancel-replay ${name} ${replay_id}\` cancels it`,
      )
    }
  } finally {
    progress?.end()
  }
}

function requireDone(name: string, replay: Replay): void {
  const { state, error, done_seq } = replay
  if (state === 'done') say(`Done: ${resultWords(replay)}.`)
  if (state === 'cancelled') {
    throw commandFailure(
      `the replay was cancelled: ${progressWords(replay)}`,
      `\`pipectl lanes replays ${name}\``,
    )
  }
  if (state !== 'failed') return
  throw commandFailure(
    `the replay failed after stream_seq ${done_seq}: ${error?.code}: ${error?.message}`,
    `correct the destination (\`pipectl destinations test ${name}\`), then replay from ${(done_seq ?? 0) + 1} on, or from after the rejected message`,
  )
}

function resultWords(replay: Replay): string {
  const { replayed_records, parked_records, filtered_records, expired_records } = replay
  const others = [
    [parked_records, 'parked'],
    [filtered_records, 'filtered out'],
    [expired_records, 'no longer kept'],
  ] as const
  const parts = others
    .filter(([records]) => records > 0)
    .map(([records, what]) => `${count(records)} ${what}`)
  return [`${counted(replayed_records, 'record')} replayed`, ...parts].join(', ')
}

function progressWords({ done_messages, messages }: Replay): string {
  return `${count(done_messages)} of ${counted(messages, 'message')} done`
}

function replayRows(replay: Replay): string[][] {
  const { error, created_by, ...others } = replay
  return [
    ...rowsOf(others),
    ['error', error === null ? '-' : `${error.code}: ${error.message}`],
    ['created by', created_by.name ?? created_by.kind],
  ]
}

function whatAgain({ messages, records, first_ts, last_ts }: ReplayPlan): string {
  return `${counted(records, 'record')} (${counted(messages, 'message')}, received ${first_ts} to ${last_ts})`
}

function sayMissing({ is_complete, pending_messages }: ReplayPlan): void {
  if (!is_complete) say('Older messages, some of which may belong to this range, are no longer kept.')
  if (pending_messages > 0)
    say(`The lane still delivers ${counted(pending_messages, 'message')} of this range by itself.`)
}

function nothingToReplay(name: string, { pending_messages }: ReplayPlan): Failure {
  return nothingToDoFailure(
    pending_messages > 0
      ? `nothing to replay: ${name} still delivers the ${counted(pending_messages, 'message')} of this range by itself`
      : `nothing to replay: no message of this range is kept for ${name}`,
    '`pipectl messages PIPE` lists the messages that are kept',
  )
}

const shortestPrefix = 4

/** The replay with this id, or the only one whose id begins with it. */
async function findReplay(client: Client, found: DestinationOfPipe, reference: string): Promise<string> {
  const { body } = await client.call('listReplays', { path: lanePath(found.destination) })
  const ids = body.replays.map(({ replay_id }) => replay_id)
  const matches = ids.filter(
    (id) => reference.length >= shortestPrefix && id.startsWith(reference.toLowerCase()),
  )
  if (matches.length === 1) return matches[0]!
  const name = fullName(found.pipe, found.destination)
  const hint = `\`pipectl lanes replays ${name}\` lists them`
  if (matches.length > 1) throw usageFailure(`several replays of ${name} begin with ${reference}`, hint)
  throw notFoundFailure(`no replay of ${name} begins with ${JSON.stringify(reference)}`, hint)
}
