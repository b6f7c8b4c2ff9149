/** `pipectl parked …`: shows, edits, replays and discards records that a destination rejected or a user skipped. */
import { type Command, Option } from 'commander'
import { type ParkedReason, parkedIdsAtOnce, parkedReasons } from '../../contract/parked.ts'
import { count, counted } from '../../platform/quantities.ts'
import type { Client } from '../client/client.ts'
import { nothingToDoFailure, usageFailure } from '../client/failure.ts'
import { singleLine } from '../client/json-text.ts'
import {
  errorWords,
  isFiltered,
  type ParkedFilter,
  parkedRecords,
  placeWords,
  recordTextsOf,
} from '../client/parked.ts'
import { lanePath } from '../client/workspace.ts'
import { connect } from './connection.ts'
import { clientCommand, define, group } from './define.ts'
import { io } from './io.ts'
import { print } from './output.ts'
import { editedRecords, recordsFrom } from './parked/edit.ts'
import { findLane, findParkedIds, type NamedLane, requireSelection } from './parked/references.ts'
import { replayMany, replayOne, shouldWait } from './parked/replay.ts'
import { oneParkedView, parkedView } from './parked/view.ts'
import { openCountProgress } from './progress.ts'
import { confirm, say } from './terminal.ts'

interface Selection {
  all?: boolean
  errorCode?: string
  reason?: ParkedReason
}
interface Waiting {
  wait?: boolean
}

export function addParkedCommands(program: Command): void {
  const parked = group(
    program,
    'parked',
    'records that a destination rejected permanently, or that were skipped',
  )
  addList(parked)
  addShow(parked)
  addEdit(parked)
  addReplay(parked)
  addDiscard(parked)
  addExport(parked)
}

function addList(parked: Command): void {
  define<Pick<Selection, 'errorCode' | 'reason'> & { limit?: string }>(parked, {
    usage: 'list <destination>',
    summary: 'list parked records, in the order of the messages',
    examples: [
      'pipectl parked list orders/database',
      'pipectl parked list orders/database --error-code 22P02',
    ],
    output: true,
    daemon: true,
    options: (command) => {
      addFilter(command, 'only')
      command.option('--limit <number>', 'number of records (default: 50)')
    },
    action: async ([reference], options) => {
      const most = requireLimit(options.limit ?? '50')
      const client = await connect(options)
      const lane = await findLane(client, reference!)
      const filter = filterOf(options)
      const { parked: found, hasMore } = await parkedRecords(client, lane, filter, { most })
      await print(parkedView(found), options.output)
      if (hasMore) say(`There are more than these ${found.length}: --limit shows more.`)
    },
  })
}

function addShow(parked: Command): void {
  clientCommand(parked, {
    usage: 'show <destination> <parked>',
    summary: 'show a parked record, its error and its earlier errors',
    examples: ['pipectl parked show orders/database 1a2b3c4d'],
    action: async (client, [reference, id], options) => {
      const lane = await findLane(client, reference!)
      const [parkedId] = await findParkedIds(client, lane, [id!])
      const { body, text } = await client.call('getParked', {
        path: { ...lanePath(lane), parked_id: parkedId! },
      })
      const view = oneParkedView(text, body, {
        record: placeWords(body),
        note: body.reason,
        facts: [
          ['error', errorWords(body.error)],
          ['attempts', `${body.attempts} (${counted(body.replays, 'replay')})`],
          ...body.history.map((one) => [`failed ${one.failed_ts}`, errorWords(one.error)]),
        ],
        labelOf: (index) => `record ${body.record_index ?? index}`,
      })
      await print(view, options.output)
    },
  })
}

function addEdit(parked: Command): void {
  clientCommand<Waiting & { file?: string }>(parked, {
    usage: 'edit <destination> <parked>',
    summary: 'correct a parked record in your editor, and replay it',
    help: 'The editor is VISUAL, otherwise EDITOR, otherwise vi. Values that you do not change keep every digit.',
    examples: [
      'pipectl parked edit orders/database 1a2b3c4d',
      'pipectl parked show orders/database 1a2b3c4d -o ndjson | jq .id=7 | pipectl parked edit orders/database 1a2b3c4d -f -',
    ],
    output: false,
    destructive: true,
    options: (command) => {
      command.option('-f, --file <file>', 'the corrected records as JSON, instead of an editor; -: stdin')
      addWait(command)
    },
    action: async (client, [reference, id], options) => {
      const lane = await findLane(client, reference!)
      const [parkedId] = await findParkedIds(client, lane, [id!])
      const { file = null, yes } = options
      const { body, text } = await client.call('getParked', {
        path: { ...lanePath(lane), parked_id: parkedId! },
      })
      const records = await editedRecords(
        {
          ...{ parkedId: parkedId!, name: lane.name, group: 'parked' },
          title: `Parked record ${placeWords(body)} of ${lane.name}: ${errorWords(body.error)}`,
          ...{ response: text, recordsCount: body.records_count },
        },
        { file, yes },
      )
      await replayOne(client, lane, { parkedId: parkedId!, records }, options.wait)
    },
  })
}

function addReplay(parked: Command): void {
  define<Selection & Waiting & { file?: string }>(parked, {
    usage: 'replay <destination> [parked...]',
    summary: 'deliver parked records again: those named, or all',
    examples: [
      'pipectl parked replay orders/database 1a2b3c4d',
      'pipectl parked replay orders/database --error-code 23502',
      'pipectl parked replay orders/database --all --no-wait',
    ],
    daemon: true,
    options: (command) => {
      addSelection(command)
      command.option(
        '-f, --file <file>',
        'records that replace those of the one parked record that you name; -: stdin',
      )
      addWait(command)
    },
    action: async ([reference, ...ids], options) => {
      const filter = filterOf(options)
      requireSelection(ids, options.all, filter)
      const client = await connect(options)
      const lane = await findLane(client, reference!)
      const found = await findParkedIds(client, lane, ids)
      if (options.file !== undefined) {
        const parkedId = requireOne(found)
        const { body } = await client.call('getParked', {
          path: { ...lanePath(lane), parked_id: parkedId },
        })
        const records = recordsFrom(options.file, body.records_count)
        return await replayOne(client, lane, { parkedId, records }, options.wait)
      }
      const [parkedId] = found
      if (parkedId !== undefined && found.length === 1)
        return await replayOne(client, lane, { parkedId, records: null }, options.wait)
      await replayMany(client, lane, { ids: found, filter }, shouldWait(options.wait))
    },
  })
}

function addDiscard(parked: Command): void {
  define<Selection>(parked, {
    usage: 'discard <destination> [parked...]',
    summary: 'discard parked records permanently: those named, or all',
    examples: [
      'pipectl parked discard orders/database 1a2b3c4d',
      'pipectl parked discard orders/database --error-code 23505 --yes',
    ],
    daemon: true,
    destructive: true,
    options: addSelection,
    action: async ([reference, ...ids], options) => {
      const filter = filterOf(options)
      requireSelection(ids, options.all, filter)
      const client = await connect(options)
      const lane = await findLane(client, reference!)
      const found = await selected(client, lane, ids, filter)
      const what = counted(found.length, 'parked record')
      await confirm(`Discard ${what} of ${lane.name}? This cannot be undone.`, options.yes)
      const progress = openCountProgress('Discarded', found.length)
      let done = 0
      try {
        for (let at = 0; at < found.length; at += parkedIdsAtOnce) {
          const some = { ids: found.slice(at, at + parkedIdsAtOnce) }
          done += (
            await client.call('discardManyParked', {
              path: lanePath(lane),
              body: some,
            })
          ).body.discarded
          progress.update(done)
        }
      } finally {
        progress.end()
        say(`Discarded ${count(done)} of ${what} of ${lane.name}.`)
      }
    },
  })
}

function addExport(parked: Command): void {
  define<Selection>(parked, {
    usage: 'export <destination> [parked...]',
    summary: 'print the parked records as NDJSON: those named, or all',
    help: 'Each line is a record as it was sent, with the fields that pipectl added, or as it was last edited.',
    examples: ['pipectl parked export orders/database > parked.ndjson'],
    daemon: true,
    options: (command) => addFilter(command, 'only'),
    action: async ([reference, ...ids], options) => {
      const filter = filterOf(options)
      if (ids.length > 0) requireSelection(ids, false, filter)
      const client = await connect(options)
      const lane = await findLane(client, reference!)
      for (const parkedId of await selected(client, lane, ids, filter)) {
        const { text } = await client.call('getParked', {
          path: { ...lanePath(lane), parked_id: parkedId },
        })
        for (const record of recordTextsOf(text)) io().stdout.write(`${singleLine(record)}\n`)
      }
    },
  })
}

/** The given records, or all that match the filter. Throws Failure (nothing to do) if there are none. */
async function selected(
  client: Client,
  lane: NamedLane,
  references: readonly string[],
  filter: ParkedFilter,
): Promise<string[]> {
  if (references.length > 0) return await findParkedIds(client, lane, references)
  const { parked } = await parkedRecords(client, lane, filter, { most: Number.POSITIVE_INFINITY })
  if (parked.length > 0) return parked.map((one) => one.parked_id)
  throw nothingToDoFailure(
    `${lane.name} has no parked records${isFiltered(filter) ? ' that match the filter' : ''}`,
    `\`pipectl parked list ${lane.name}\` shows what is parked`,
  )
}

function addSelection(command: Command): void {
  command.option('--all', 'all records of this destination')
  addFilter(command, 'all')
}

function addFilter(command: Command, which: 'all' | 'only'): void {
  command.option('--error-code <code>', `${which} records with this error`)
  command.addOption(
    new Option('--reason <reason>', `${which} records that were parked for this reason`).choices(
      parkedReasons,
    ),
  )
}

function filterOf({ errorCode, reason }: Selection): ParkedFilter {
  return { error_code: errorCode, reason }
}

function addWait(command: Command): void {
  command.option('--wait', 'wait for the result (default on a terminal)')
  command.option('--no-wait', 'do not wait')
}

function requireOne(ids: readonly string[]): string {
  if (ids.length === 1) return ids[0]!
  throw usageFailure(
    '-f replaces the records of a single parked record',
    'name one parked record, or omit -f',
  )
}

function requireLimit(text: string): number {
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (limit > 0) return limit
  throw usageFailure(`--limit is ${JSON.stringify(text)}`, 'give a whole number from 1 to 999999')
}
