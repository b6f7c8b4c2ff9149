/** `pipectl lanes blocking-message`: shows the message that blocks a lane, or writes all of its records to a file. */
import { once } from 'node:events'
import { open } from 'node:fs/promises'
import type { Command } from 'commander'
import { blockingPage } from '../../contract/blocking-page.ts'
import type { Destination } from '../../contract/destination.ts'
import type { SuccessBody } from '../../contract/operations.ts'
import { count, counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import { type Failure, nothingToDoFailure, usageFailure } from '../client/failure.ts'
import { singleLine } from '../client/json-text.ts'
import { errorLine } from '../client/lane-error.ts'
import { recordTextsOf } from '../client/parked.ts'
import { type LanePath, lanePath } from '../client/workspace.ts'
import { clientCommand } from './define.ts'
import { io } from './io.ts'
import { oneView, print } from './output.ts'
import { findDestination } from './references.ts'
import { say } from './terminal.ts'

export function addBlockingMessageCommand(lanes: Command): void {
  clientCommand<{ from?: string; export?: string }>(lanes, {
    usage: 'blocking-message <destination>',
    summary: `show the message that blocks a lane: its error and ${blockingPage.default} of its records; the rejected one is marked`,
    examples: [
      'pipectl lanes blocking-message orders/database -o json',
      'pipectl lanes blocking-message orders/database --from 200',
      'pipectl lanes blocking-message orders/database --export rejected.ndjson',
    ],
    options: (command) =>
      command
        .option('--from <n>', 'the index of the first record to show, from 0')
        .option('--export <file>', 'write all of its records as NDJSON to a new file; - for standard output'),
    action: async (client, [reference], options) => {
      const { destination } = await findDestination(client, reference!)
      if (options.export !== undefined) return await exportRecords(client, destination, options.export)
      const from = options.from === undefined ? 0 : placeOf(options.from)
      const { body, text } = await client.call('getBlockingMessage', {
        path: lanePath(destination),
        query: { from },
      })
      const records = recordTextsOf(text)
      const { failing, next } = body
      const name = (place: number) => `record ${place}${place === failing?.record_index ? ' (rejected)' : ''}`
      const refusedAt = failing?.record_index ?? from
      const isShown = refusedAt >= from && refusedAt < from + records.length
      const refused = failing === null || isShown ? [] : await recordAt(client, destination, refusedAt)
      const shown = next === null && from === 0 ? '' : ` (shown: ${from} to ${from + records.length - 1})`
      const rows = [
        ...messageRows(body, destination),
        ['records', `${count(body.records_count)}${shown}`],
        ...refused.map((record) => [name(refusedAt), singleLine(record)]),
        ...records.map((record, index) => [name(from + index), singleLine(record)]),
      ]
      await print({ ...oneView(text, body.msg_id, rows), items: () => records }, options.output)
      if (next !== null)
        say(`More records follow: \`--from ${next}\` shows them, \`--export FILE\` writes all.`)
    },
  })
}

function messageRows(body: SuccessBody<'getBlockingMessage'>, { lane }: Destination): string[][] {
  const { last_error: error, attempts, next_attempt_ts: nextAttempt } = lane
  return [
    ['msg_id', body.msg_id],
    ['stream_seq', String(body.stream_seq)],
    ['received', body.received_ts],
    ['error', error === null ? '-' : `${error.class} ${errorLine(error)}`],
    ['attempts', `${attempts}${nextAttempt === null ? '' : `, next at ${nextAttempt}`}`],
  ]
}

async function recordAt(client: Client, lane: LanePath, from: number): Promise<string[]> {
  const query = { from, limit: 1 }
  return recordTextsOf((await client.call('getBlockingMessage', { path: lanePath(lane), query })).text)
}

/** Writes all records of the message, page by page. Fails if the message stops blocking meanwhile. */
async function exportRecords(client: Client, lane: LanePath, path: string): Promise<void> {
  const first = await client.call('getBlockingMessage', {
    path: lanePath(lane),
    query: { limit: blockingPage.max },
  })
  const target = path === '-' ? io().stdout : await newFile(path)
  let page = first
  for (;;) {
    const lines = recordTextsOf(page.text).map((record) => `${singleLine(record)}\n`)
    if (!target.write(lines.join(''))) await once(target, 'drain')
    const { next: from } = page.body
    if (from === null) break
    page = await client.call('getBlockingMessage', {
      path: lanePath(lane),
      query: { from, limit: blockingPage.max },
    })
    if (page.body.msg_id !== first.body.msg_id) throw noLongerBlocks(path)
  }
  if (target !== io().stdout) {
    target.end()
    await once(target, 'close')
  }
  say(`Wrote ${counted(first.body.records_count, 'record')} of message ${first.body.msg_id} to ${path}.`)
}

async function newFile(path: string) {
  const file = await open(path, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'EEXIST' ? 'it exists already' : error.message
    throw usageFailure(`cannot write ${path}: ${why}`, 'name a file that does not exist, or -')
  })
  return file.createWriteStream()
}

function placeOf(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw usageFailure(`--from is "${text}"`, 'give a whole number from 0')
}

function noLongerBlocks(path: string): Failure {
  return nothingToDoFailure(
    `the message stopped blocking while it was exported: ${path} holds a part of it`,
    '`pipectl lanes list` shows the state',
  )
}
