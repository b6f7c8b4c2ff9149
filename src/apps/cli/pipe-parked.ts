/** `pipectl pipes parked …`: shows, edits, replays and discards records that do not match the schema of a pipe. */
import type { Command } from 'commander'
import { parkedIdsAtOnce } from '../../contract/parked.ts'
import type { PipeParkedRecord } from '../../contract/pipe-parked.ts'
import { ago, count, counted } from '../../platform/quantities.ts'
import { slices } from '../../platform/slices.ts'
import type { Client } from '../client/client.ts'
import { commandFailure, nothingToDoFailure, usageFailure } from '../client/failure.ts'
import { faultWords, replayBody, shortIds } from '../client/parked.ts'
import { connect } from './connection.ts'
import { clientCommand, define, group } from './define.ts'
import { listView, print, type View } from './output.ts'
import { editedRecords } from './parked/edit.ts'
import {
  findPipeParkedIds,
  type NamedPipe,
  type PipeParkedFilter,
  pipeNamed,
  pipeParkedRecords,
} from './parked/pipe-references.ts'
import { oneParkedView } from './parked/view.ts'
import { confirm, say } from './terminal.ts'

interface Selection {
  all?: boolean
  errorPath?: string
}
interface Force {
  force?: boolean
}

export function addPipeParkedCommands(pipes: Command): void {
  const parked = group(pipes, 'parked', 'records that do not match the schema of a pipe')
  addList(parked)
  addShow(parked)
  addEdit(parked)
  addReplay(parked)
  addDiscard(parked)
}

function addList(parked: Command): void {
  define<Pick<Selection, 'errorPath'> & { limit?: string }>(parked, {
    usage: 'list <pipe>',
    summary: 'list records that are parked at a pipe, in the order of the requests',
    examples: ['pipectl pipes parked list orders', 'pipectl pipes parked list orders --error-path /status'],
    output: true,
    daemon: true,
    options: (command) => {
      addFilter(command, 'only')
      command.option('--limit <number>', 'number of records (default: 50)')
    },
    action: async ([reference], options) => {
      const most = requireLimit(options.limit ?? '50')
      const client = await connect(options)
      const pipe = await pipeNamed(client, reference!)
      const filter = { error_path: options.errorPath }
      const found = await pipeParkedRecords(client, pipe, filter, most)
      await print(parkedView(found.parked), options.output)
      if (found.hasMore) say(`There are more than these ${found.parked.length}: --limit shows more.`)
    },
  })
}

function addShow(parked: Command): void {
  clientCommand(parked, {
    usage: 'show <pipe> <parked>',
    summary: 'show a parked record and its errors',
    examples: ['pipectl pipes parked show orders 1a2b3c4d'],
    action: async (client, [reference, id], options) => {
      const path = await pathOf(client, await pipeNamed(client, reference!), id!)
      const { body, text } = await client.call('getPipeParked', { path })
      const view = oneParkedView(text, body, {
        record: String(body.record_index),
        note: `schema version ${body.schema_version}`,
        facts: body.errors.map((error) => [`error ${error.path || '/'}`, error.message]),
        labelOf: () => (body.is_edited ? 'edited record' : 'record'),
      })
      await print(view, options.output)
    },
  })
}

function addEdit(parked: Command): void {
  clientCommand<Force & { file?: string }>(parked, {
    usage: 'edit <pipe> <parked>',
    summary: 'correct a parked record in your editor, and replay it',
    help: 'The editor is VISUAL, otherwise EDITOR, otherwise vi. Values that you do not change keep every digit.',
    examples: [
      'pipectl pipes parked edit orders 1a2b3c4d',
      'pipectl pipes parked show orders 1a2b3c4d -o ndjson | jq -c .id=7 | pipectl pipes parked edit orders 1a2b3c4d -f -',
    ],
    output: false,
    destructive: true,
    options: (command) => {
      command.option('-f, --file <file>', 'the corrected record as JSON, instead of an editor; -: stdin')
      addForce(command)
    },
    action: async (client, [reference, id], { file, force, yes }) => {
      const pipe = await pipeNamed(client, reference!)
      const path = await pathOf(client, pipe, id!)
      const { body, text } = await client.call('getPipeParked', { path })
      const records = await editedRecords(
        {
          ...{ parkedId: body.parked_id, name: pipe.pipe_name, group: 'pipes parked' },
          title: `Parked record of ${pipe.pipe_name}. ${faultWords(body)}`,
          ...{ response: text, recordsCount: 1 },
        },
        { file: file ?? null, yes },
      )
      await client.call('replayPipeParked', { path, body: replayBody(records, force) })
      say(`Stored: ${pipe.pipe_name} accepted it.`)
    },
  })
}

function addReplay(parked: Command): void {
  define<Selection & Force>(parked, {
    usage: 'replay <pipe> [parked...]',
    summary: 'store parked records in the pipe: those named, or all',
    help: 'Each record is checked against the present schema, and stays parked if it still does not match.',
    examples: [
      'pipectl pipes parked replay orders 1a2b3c4d',
      'pipectl pipes parked replay orders --error-path /status',
      'pipectl pipes parked replay orders --all --force',
    ],
    daemon: true,
    options: (command) => {
      addSelection(command)
      addForce(command)
    },
    action: async ([reference, ...ids], options) => {
      const which = requireSelection(ids, options)
      const client = await connect(options)
      const pipe = await pipeNamed(client, reference!)
      const bodies = await selectionsOf(client, pipe, ids, which)
      let [replayed, mismatched] = [0, 0]
      for (const body of bodies) {
        const sent = { ...body, force: options.force ?? false }
        const done = await client.call('replayManyPipeParked', {
          path: { pipe_id: pipe.pipe_id },
          body: sent,
        })
        replayed += done.body.replayed
        mismatched += done.body.mismatched
      }
      if (replayed + mismatched === 0) throw nothingParked(pipe)
      say(`Stored ${counted(replayed, 'record')} of ${pipe.pipe_name}.`)
      if (mismatched === 0) return
      throw commandFailure(
        `${counted(mismatched, 'record')} still do not match the schema and stay parked`,
        `\`pipectl pipes parked list ${pipe.pipe_name}\` shows their errors; --force stores them`,
      )
    },
  })
}

function addDiscard(parked: Command): void {
  define<Selection>(parked, {
    usage: 'discard <pipe> [parked...]',
    summary: 'discard parked records permanently: those named, or all',
    examples: [
      'pipectl pipes parked discard orders 1a2b3c4d',
      'pipectl pipes parked discard orders --error-path /status --yes',
    ],
    daemon: true,
    destructive: true,
    options: addSelection,
    action: async ([reference, ...ids], options) => {
      const which = requireSelection(ids, options)
      const client = await connect(options)
      const pipe = await pipeNamed(client, reference!)
      const bodies = await selectionsOf(client, pipe, ids, which)
      const what = ids.length > 0 ? counted(ids.length, 'parked record') : 'all selected parked records'
      await confirm(`Discard ${what} of ${pipe.pipe_name}? This cannot be undone.`, options.yes)
      let discarded = 0
      for (const body of bodies) {
        const path = { pipe_id: pipe.pipe_id }
        discarded += (await client.call('discardManyPipeParked', { path, body })).body.discarded
      }
      if (discarded === 0) throw nothingParked(pipe)
      say(`Discarded ${count(discarded)} of ${pipe.pipe_name}.`)
    },
  })
}

/** The bodies of the requests for these records. */
async function selectionsOf(
  client: Client,
  pipe: NamedPipe,
  references: readonly string[],
  filter: PipeParkedFilter,
) {
  if (references.length === 0) {
    const { error_path } = filter
    return [{ all: true as const, ...(error_path !== undefined && { error_path }) }]
  }
  const found = await findPipeParkedIds(client, pipe, references)
  return slices(found, parkedIdsAtOnce).map((ids) => ({ ids }))
}

function requireSelection(ids: readonly string[], { all = false, errorPath }: Selection): PipeParkedFilter {
  const wantsAll = all || errorPath !== undefined
  if (ids.length > 0 === wantsAll)
    throw usageFailure(
      wantsAll ? 'ids together with --all or --error-path' : 'no parked record is named',
      'give ids as `pipectl pipes parked list PIPE` shows them, or --all, or --error-path for all records that match',
    )
  return { error_path: errorPath }
}

async function pathOf(client: Client, pipe: NamedPipe, reference: string) {
  const [parkedId] = await findPipeParkedIds(client, pipe, [reference])
  return { pipe_id: pipe.pipe_id, parked_id: parkedId! }
}

function parkedView(parked: readonly PipeParkedRecord[]): View {
  const short = shortIds(parked.map((one) => one.parked_id))
  return listView(parked, {
    json: JSON.stringify({ parked }),
    name: (one) => one.parked_id,
    columns: [
      ['PARKED', (one) => short.get(one.parked_id) ?? one.parked_id],
      [{ label: 'WHEN', gives: 2 }, (one) => ago(one.parked_ts, Date.now())],
      [{ label: 'STATE', gives: 1 }, (one) => one.state],
      [{ label: 'BYTES', gives: 3 }, (one) => count(one.record_bytes)],
      [{ label: 'ERROR', wraps: true }, faultWords],
    ],
    empty: 'nothing is parked',
  })
}

function nothingParked({ pipe_name }: NamedPipe) {
  return nothingToDoFailure(
    `none of these is parked at ${pipe_name}`,
    `\`pipectl pipes parked list ${pipe_name}\` shows what is parked`,
  )
}

function addSelection(command: Command): void {
  command.option('--all', 'all records of this pipe')
  addFilter(command, 'all')
}

function addFilter(command: Command, which: 'all' | 'only'): void {
  command.option('--error-path <path>', `${which} records whose first error has this path, such as /status`)
}

function addForce(command: Command): void {
  command.option('--force', 'store records that do not match the schema, too')
}

function requireLimit(text: string): number {
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (limit > 0) return limit
  throw usageFailure(`--limit is ${JSON.stringify(text)}`, 'give a whole number from 1 to 999999')
}
