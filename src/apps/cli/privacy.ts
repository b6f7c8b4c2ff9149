/** `pipectl privacy …`: finds and deletes the records of a person in the buffer and among parked records. */
import type { Command } from 'commander'
import type { PrivacyJob, PrivacyKey, PrivacyRequest } from '../../contract/privacy.ts'
import { conditionIn } from '../../contract/record-condition.ts'
import { backoffMs } from '../../platform/backoff.ts'
import { ago, count } from '../../platform/quantities.ts'
import type { Client, Reply } from '../client/client.ts'
import {
  commandFailure,
  exitCodes,
  Failure,
  notFoundFailure,
  nothingToDoFailure,
  usageFailure,
} from '../client/failure.ts'
import { shortIds } from '../client/parked.ts'
import { countWords, deletedWords, progressWords } from '../client/privacy.ts'
import { connect } from './connection.ts'
import { clientCommand, define, group } from './define.ts'
import { readFileOrStdin } from './input-file.ts'
import { listView, oneView, print, rowsOf } from './output.ts'
import { pause } from './pause.ts'
import { openTextProgress } from './progress.ts'
import { findPipe } from './references.ts'
import { confirm, interruptible, say } from './terminal.ts'

interface KeyOptions {
  key?: string[]
  keysFile?: string
  pipe?: string[]
}

export function addPrivacyCommands(program: Command): void {
  const privacy = group(program, 'privacy', 'find and delete the records of a person')
  addFind(privacy)
  addDelete(privacy)
  addJobs(privacy)
  addShow(privacy)
  addCancel(privacy)
}

const covered =
  'Covers the buffer, parked records and damaged messages on this machine, as far as they were acknowledged before.'

function addFind(privacy: Command): void {
  clientCommand<KeyOptions>(privacy, {
    usage: 'find',
    summary: 'list the records that have these values, and where copies can be',
    examples: [
      'pipectl privacy find --key user_id=42',
      'pipectl privacy find --key customer.email=ada@example.com --pipe orders --pipe payments',
    ],
    help: `${covered} Nothing is changed.`,
    options: addKeyOptions,
    action: async (client, _, options) => {
      const request = await requestOf(client, 'find', options)
      const ended = await interruptible((signal) => run(client, request, signal))
      requireDone(ended.body)
      say(foundWords(ended.body))
      await print(matchesView(ended, await pipeNames(client)), options.output)
    },
  })
}

function addDelete(privacy: Command): void {
  define<KeyOptions & { wait?: boolean }>(privacy, {
    usage: 'delete',
    summary: 'delete the records that have these values, permanently',
    examples: [
      'pipectl privacy delete --key user_id=42',
      'pipectl privacy delete --keys-file keys.txt --pipe orders --yes',
    ],
    output: true,
    daemon: true,
    destructive: true,
    help: `${covered} Deleted records are not delivered afterwards. The command lists where copies remain. Ctrl-C ends the command, and the deletion continues.`,
    options: (command) =>
      addKeyOptions(command).option('--no-wait', 'do not wait for the end of the deletion'),
    action: async (_, options) => {
      const client = await connect(options)
      const request = await requestOf(client, 'delete', options)
      if (options.yes !== true) await confirmFound(client, request)
      const ended = await interruptible((signal) => run(client, request, signal, options.wait !== false))
      const { body } = ended
      if (options.wait === false) say(`Deletion ${body.job_id} was requested.`)
      else {
        requireDone(body)
        say(deletedWords(body))
        for (const { name, note } of body.remaining) say(`Copies can remain: ${name}. ${note}`)
      }
      await print(oneView(ended.text, body.job_id, jobRows(body)), options.output)
    },
  })
}

function addJobs(privacy: Command): void {
  clientCommand(privacy, {
    usage: 'jobs',
    summary: 'list searches and deletions, newest first',
    examples: ['pipectl privacy jobs'],
    action: async (client, _, options) => {
      const { body, text } = await client.call('listPrivacyJobs')
      const short = shortIds(body.jobs.map(({ job_id }) => job_id))
      const view = listView(body.jobs, {
        json: text,
        name: ({ job_id }) => job_id,
        columns: [
          ['JOB', ({ job_id }) => short.get(job_id) ?? job_id],
          ['KIND', ({ kind }) => kind],
          ['STATE', ({ state }) => state],
          [{ label: 'KEYS', gives: 2 }, ({ key_paths }) => key_paths.join(', ')],
          ['FOUND', ({ found }) => count(found.records + found.parked)],
          [
            'DELETED',
            ({ kind, deleted }) => (kind === 'find' ? '-' : count(deleted.records + deleted.parked)),
          ],
          [{ label: 'CREATED', gives: 1 }, ({ created_ts }) => ago(created_ts, Date.now())],
        ],
        note: ({ error }) => error,
        empty: 'no searches or deletions; start one with `pipectl privacy find --key KEY=VALUE`',
      })
      await print(view, options.output)
    },
  })
}

function addShow(privacy: Command): void {
  clientCommand(privacy, {
    usage: 'show <job>',
    summary: 'show a search or deletion, and where copies remain',
    examples: ['pipectl privacy show 0199c3f2'],
    action: async (client, [id], options) => {
      const job_id = await findJob(client, id!)
      const { body, text } = await client.call('getPrivacyJob', { path: { job_id } })
      await print(oneView(text, job_id, jobRows(body)), options.output)
    },
  })
}

function addCancel(privacy: Command): void {
  clientCommand(privacy, {
    usage: 'cancel <job>',
    summary: 'cancel a search or deletion; what was deleted before stays deleted',
    examples: ['pipectl privacy cancel 0199c3f2'],
    action: async (client, [id], options) => {
      const job_id = await findJob(client, id!)
      await client.call('cancelPrivacyJob', { path: { job_id } })
      const { body, text } = await client.call('getPrivacyJob', { path: { job_id } })
      say(`Cancelled ${job_id}.`)
      await print(oneView(text, job_id, jobRows(body)), options.output)
    },
  })
}

function addKeyOptions(command: Command): Command {
  const collect = (value: string, before: string[] | undefined) => [...(before ?? []), value]
  return command
    .option(
      '--key <key=value>',
      'a value that the records have, such as user_id=42 or customer.email=ada@example.com; with several keys, all of them',
      collect,
    )
    .option(
      '--keys-file <file>',
      'read KEY=VALUE lines from a file (-: stdin), so that they are in no history',
    )
    .option('--pipe <pipe>', 'only this pipe; can be repeated (default: all pipes)', collect)
}

async function requestOf(
  client: Client,
  kind: PrivacyRequest['kind'],
  { key = [], keysFile, pipe = [] }: KeyOptions,
): Promise<PrivacyRequest> {
  const inFile = keysFile === undefined ? [] : keysIn(keysFile)
  const keys = [...key, ...inFile.map((line) => line.replace(/\r$/, '')).filter((line) => line !== '')].map(
    keyOf,
  )
  if (keys.length === 0)
    throw usageFailure('--key or --keys-file is missing', 'for instance --key user_id=42')
  const pipe_ids: string[] = []
  for (const reference of pipe) pipe_ids.push((await findPipe(client, reference)).pipe_id)
  return { kind, keys, ...(pipe_ids.length > 0 && { pipe_ids }) }
}

function keysIn(file: string): string[] {
  const hint = 'give a file with a KEY=VALUE on each line'
  return readFileOrStdin(file, { name: `--keys-file ${file}`, hint }).split('\n')
}

/** The message does not repeat the text, which is personal data. */
function keyOf(text: string): PrivacyKey {
  const condition = conditionIn(text)
  if (condition !== null && condition.value !== '') return condition
  throw usageFailure('a key must be KEY=VALUE', 'for instance --key user_id=42')
}

async function confirmFound(client: Client, request: PrivacyRequest): Promise<void> {
  const search = { ...request, kind: 'find' } as const
  const found = await interruptible((signal) => run(client, search, signal))
  requireDone(found.body)
  const { records, parked } = found.body.found
  if (records + parked === 0) {
    throw nothingToDoFailure(
      'nothing to delete: no record in the buffer and no parked record has these values',
      'copies can be in destinations: `pipectl privacy show` lists them; --yes deletes texts of errors that quote the values as well',
    )
  }
  await confirm(`Delete ${countWords(found.body.found)} permanently?`, false)
}

const firstLookMs = 50
const longestLookMs = 1_000

/** Starts a job and waits for its end. Throws Failure if the signal ends the wait. */
async function run(
  client: Client,
  request: PrivacyRequest,
  signal: AbortSignal,
  waits = true,
): Promise<Reply<PrivacyJob>> {
  const created = await client.call('createPrivacyJob', { body: request })
  if (!waits) return created
  const path = { job_id: created.body.job_id }
  const progress = openTextProgress()
  try {
    for (let looks = 1; ; looks += 1) {
      const reply = await client.call('getPrivacyJob', { path })
      progress.update(progressWords(reply.body))
      if (reply.body.finished_ts !== null) return reply
      if (await pause(backoffMs(looks, firstLookMs, longestLookMs), signal)) continue
      throw new Failure(
        exitCodes.interrupted,
        `${path.job_id} continues without this command: ${progressWords(reply.body)}`,
        `\`pipectl privacy show ${path.job_id}\` shows it, \`pipectl privacy cancel ${path.job_id}\` cancels it`,
      )
    }
  } finally {
    progress.end()
  }
}

function requireDone({ state, job_id, error }: PrivacyJob): void {
  if (state === 'cancelled') throw commandFailure(`${job_id} was cancelled`, '`pipectl privacy jobs`')
  if (state === 'failed') throw commandFailure(`${job_id} failed: ${error}`, 'start it again')
}

function foundWords({ found, matches, has_more_matches }: PrivacyJob): string {
  const shown = has_more_matches ? ` The first ${count(matches.length)} are listed.` : ''
  return `Found ${countWords(found)}.${shown}`
}

function matchesView({ body, text }: Reply<PrivacyJob>, names: ReadonlyMap<string, string>) {
  return listView(body.matches, {
    json: text,
    name: ({ msg_id }) => msg_id,
    columns: [
      ['PIPE', ({ pipe_id }) => names.get(pipe_id) ?? pipe_id],
      ['MESSAGE', ({ msg_id }) => msg_id],
      ['SEQ', ({ stream_seq }) => String(stream_seq)],
      ['RECORD', ({ record_index }) => String(record_index)],
      ['WHERE', ({ is_parked }) => (is_parked ? 'parked' : 'buffer')],
    ],
    empty: 'no such record in the buffer, and none is parked',
  })
}

async function pipeNames(client: Client): Promise<Map<string, string>> {
  const { pipes } = (await client.call('listPipes')).body
  return new Map(pipes.map(({ pipe_id, pipe_name }) => [pipe_id, pipe_name]))
}

function jobRows({ found, deleted, matches, pipes, remaining, created_by, ...job }: PrivacyJob): string[][] {
  return [
    ...rowsOf({ ...job, pipes: pipes.length, matches: matches.length }),
    ['found', countWords(found)],
    ['deleted', countWords(deleted)],
    ['created by', created_by.name ?? created_by.kind],
    ...remaining.map(({ name, note }) => ['copies can remain', `${name}: ${note}`]),
  ]
}

const shortestPrefix = 4

/** The job with this id, or the only one whose id begins with it. */
async function findJob(client: Client, reference: string): Promise<string> {
  const { body } = await client.call('listPrivacyJobs')
  const ids = body.jobs.map(({ job_id }) => job_id)
  const matches = ids.filter(
    (id) => reference.length >= shortestPrefix && id.startsWith(reference.toLowerCase()),
  )
  if (matches.length === 1) return matches[0]!
  const hint = '`pipectl privacy jobs` lists them'
  if (matches.length > 1) throw usageFailure(`several jobs begin with ${reference}`, hint)
  throw notFoundFailure(`no job begins with ${JSON.stringify(reference)}`, hint)
}
