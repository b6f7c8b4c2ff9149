/** `pipectl pipes …`: list, get, create, update, pause, resume, delete. */
import type { Command } from 'commander'
import type { Pipe, PipeUpdate } from '../../contract/pipe.ts'
import { ago, bytes, count, counted } from '../../platform/quantities.ts'
import { ifUnchanged } from '../client/changed-meanwhile.ts'
import type { Client, PipeDetail, PipeList, Reply } from '../client/client.ts'
import { usageFailure } from '../client/failure.ts'
import { describeTarget, fullName, kindOf, stateOf } from '../client/workspace.ts'
import { connect } from './connection.ts'
import { type CommonOptions, clientCommand, define, group } from './define.ts'
import { fieldTable, listView, oneView, print, rowsOf, type Table, type View } from './output.ts'
import { addPipeFieldOptions, type PipeFieldOptions, pipeFields } from './pipe-fields.ts'
import { addPipeParkedCommands } from './pipe-parked.ts'
import { addPipeSchemaCommands } from './pipe-schema.ts'
import {
  addSourceOptions,
  hasSourceOptions,
  type SourceOptions,
  sourceFieldsFrom,
  sourceHelp,
} from './pipe-source.ts'
import { pickPipe, readPipe } from './references.ts'
import { confirm, say } from './terminal.ts'

export function addPipesCommands(program: Command): void {
  const pipes = group(program, 'pipes', 'where clients send records')
  addReading(pipes)
  addWriting(pipes)
  addStatusCommands(pipes)
  addDelete(pipes)
  addPipeParkedCommands(pipes)
  addPipeSchemaCommands(pipes)
}

function addReading(pipes: Command): void {
  clientCommand(pipes, {
    usage: 'list',
    summary: 'list the pipes with the traffic of the last 24 hours',
    examples: ['pipectl pipes list', 'pipectl pipes list -o name'],
    action: async (client, _, options) => {
      const reply = await client.call('listPipes')
      await print(viewOf(reply.body, reply.text), options.output)
    },
  })
  clientCommand(pipes, {
    usage: 'get <pipe>',
    summary: 'show one pipe with its destinations, limits and origins',
    examples: ['pipectl pipes get orders -o yaml'],
    action: async (client, [reference], options) => {
      const { body, text } = await readPipe(client, reference!)
      const { pipe_name } = body.pipe
      const table = () => detailTable(body, client)
      await print({ json: text, names: () => [pipe_name], table }, options.output)
    },
  })
}

function addWriting(pipes: Command): void {
  clientCommand<PipeFieldOptions & SourceOptions>(pipes, {
    usage: 'create <name>',
    summary: 'create a pipe; prints its id',
    examples: [
      'pipectl pipes create orders --description "orders of the shop"',
      'pipectl pipes create clicks --no-key-required --ingest-ip --geo country --geo city',
      'pipectl pipes create commits --source github --source-secret-file github.secret',
    ],
    help: sourceHelp,
    options: (command) => {
      addPipeFieldOptions(command)
      addSourceOptions(command, false)
    },
    action: async (client, [name], options) => {
      const fields = { ...pipeFields(options), ...(await sourceFieldsFrom(options, null)) }
      const reply = await client.call('createPipe', { body: { pipe_name: name!, ...fields } })
      const { pipe_id: id, pipe_source_token: token } = reply.body
      say(`Created pipe ${name}. Records go to POST ${client.ingestUrl(id)}`)
      const hooks = fields.pipe_source ? hookRows(client.hookUrl(id, token), token) : []
      await print(oneView(reply.text, name!, [['pipe_id', id], ...hooks]), options.output)
    },
  })
  clientCommand<PipeFieldOptions & SourceOptions>(pipes, {
    usage: 'update <pipe>',
    summary: 'change fields of a pipe (its name cannot be changed)',
    examples: [
      'pipectl pipes update orders --description "orders, all shops" --geo country',
      'pipectl pipes update commits --add-source-secret --source-secret-file new.secret',
      'pipectl pipes update commits --remove-source-secret oldest',
    ],
    help: sourceHelp,
    options: (command) => {
      addPipeFieldOptions(command)
      addSourceOptions(command, true)
    },
    action: async (client, [reference], options) => {
      const own = pipeFields(options)
      if (Object.keys(own).length === 0 && !hasSourceOptions(options)) {
        throw usageFailure('nothing to change was given', '--help lists the fields')
      }
      const read = await readPipe(client, reference!)
      const source = await sourceFieldsFrom(options, read.body.pipe.pipe_source)
      await change(client, read, { ...own, ...source }, options)
    },
  })
}

function addStatusCommands(pipes: Command): void {
  clientCommand(pipes, {
    usage: 'pause <pipe>',
    summary: 'reject new records: clients get 404; buffered records are still delivered',
    examples: ['pipectl pipes pause orders --yes'],
    destructive: true,
    action: async (client, [reference], options) => {
      const { pipe, read, pending } = await readWithPending(client, reference!)
      const drains =
        pending > 0 ? `What is pending (${counted(pending, 'message')}) is` : 'What is pending is'
      await confirm(
        `Pause pipe ${pipe.pipe_name}? Clients get 404 until it is resumed, and the records that they send are not stored. ${drains} still delivered.`,
        options.yes,
      )
      await change(client, read, { pipe_status: 'paused' }, options)
    },
  })
  define(pipes, {
    usage: 'resume <pipe>',
    summary: 'accept records again',
    examples: ['pipectl pipes resume orders'],
    output: true,
    daemon: true,
    action: ([reference], options) => update(reference!, { pipe_status: 'active' }, options),
  })
}

function addDelete(pipes: Command): void {
  clientCommand(pipes, {
    usage: 'delete <pipe>',
    summary: 'delete a pipe, its destinations and every record of it that is not delivered yet',
    examples: ['pipectl pipes delete orders --yes'],
    output: false,
    destructive: true,
    action: async (client, [reference], options) => {
      const { pipe, read, pending } = await readWithPending(client, reference!)
      const loss = pending > 0 ? ` ${counted(pending, 'message')} not delivered yet will be lost.` : ''
      await confirm(`Delete pipe ${pipe.pipe_name} with its destinations?${loss}`, options.yes)
      await ifUnchanged(`pipe ${pipe.pipe_name}`, read.body, () =>
        client.call('deletePipe', { path: { pipe_id: pipe.pipe_id }, ifMatch: read.etag }),
      )
      say(`Deleted pipe ${pipe.pipe_name}.`)
    },
  })
}

async function update(reference: string, fields: PipeUpdate, options: CommonOptions): Promise<void> {
  const client = await connect(options)
  await change(client, await readPipe(client, reference), fields, options)
}

/** A pipe with its version and its undelivered messages. */
async function readWithPending(client: Client, reference: string) {
  const { pipes, usage_by_pipe } = (await client.call('listPipes')).body
  const { pipe_id } = pickPipe(pipes, reference)
  const read = await client.call('getPipe', { path: { pipe_id } })
  return { pipe: read.body.pipe, read, pending: usage_by_pipe[pipe_id]?.pending_messages ?? 0 }
}

async function change(
  client: Client,
  { body, etag }: Reply<PipeDetail>,
  fields: PipeUpdate,
  options: CommonOptions,
): Promise<void> {
  const { pipe } = body
  const reply = await ifUnchanged(`pipe ${pipe.pipe_name}`, body, () =>
    client.call('updatePipe', { path: { pipe_id: pipe.pipe_id }, body: fields, ifMatch: etag }),
  )
  const { pipe: changed, pipe_source_token: token } = reply.body
  const { pipe_name, pipe_status } = changed
  say(`Updated pipe ${pipe_name}; it is ${pipe_status}.`)
  const hooks = token === undefined ? [] : hookRows(client.hookUrl(pipe.pipe_id, token), token)
  await print(oneView(reply.text, pipe_name, [...pipeRows(changed), ...hooks]), options.output)
}

/** The address at which a pipe receives webhooks. A token is shown only here. */
function hookRows(url: string, token: string | undefined): [string, string][] {
  if (token !== undefined)
    say('The token in the address is shown only now: enter the address at the provider.')
  return [['webhooks', `POST ${url}`]]
}

function pipeRows({ pipe_source: source, pipe_schema, ...rest }: Pipe): ReturnType<typeof rowsOf> {
  const schema = pipe_schema && `${bytes(JSON.stringify(pipe_schema).length)} of JSON`
  const pipe = { ...rest, pipe_schema: schema }
  if (source === null) return rowsOf({ ...pipe, pipe_source: null })
  const { type, secrets, ...settings } = source
  const texts = Object.entries(settings).map(([key, value]) => [`pipe_source.${key}`, value])
  return [
    ...rowsOf({ ...pipe, pipe_source: type, ...Object.fromEntries(texts) }),
    ...secrets.map(({ secret_id, set_ts }): [string, string] => [
      'source secret',
      `${secret_id}  set ${set_ts}`,
    ]),
  ]
}

function viewOf({ pipes, usage_by_pipe }: PipeList, json: string): View {
  const now = Date.now()
  const usageOf = (pipe: Pipe) => usage_by_pipe[pipe.pipe_id]
  const backlog = (pipe: Pipe) => {
    const { pending_messages = 0, pending_bytes = 0 } = usageOf(pipe) ?? {}
    return `${count(pending_messages)} (${bytes(pending_bytes)})`
  }
  return listView(pipes, {
    json,
    name: (pipe) => pipe.pipe_name,
    columns: [
      [{ label: 'NAME', shrinksTo: 16 }, (pipe) => pipe.pipe_name],
      ['STATUS', (pipe) => pipe.pipe_status],
      [{ label: 'RECORDS 24H', gives: 1 }, (pipe) => count(usageOf(pipe)?.ingest_records ?? 0)],
      ['BACKLOG', backlog],
      [{ label: 'FAILING LANES', gives: 2 }, (pipe) => String(usageOf(pipe)?.blocked_lanes ?? 0)],
      [{ label: 'LAST RECORD', gives: 3 }, (pipe) => ago(usageOf(pipe)?.last_ingest_ts ?? null, now)],
      [{ label: 'PIPE ID', isSpare: true }, (pipe) => pipe.pipe_id],
    ],
    empty: 'no pipes yet; create one with `pipectl pipes create NAME`',
  })
}

function detailTable(detail: PipeDetail, client: Pick<Client, 'ingestUrl' | 'hookUrl'>): Table {
  const { pipe_id, pipe_source } = detail.pipe
  const token = pipe_source?.type === 'secret_url' ? 'TOKEN' : undefined
  return fieldTable([
    ...pipeRows(detail.pipe),
    ['ingest', `POST ${client.ingestUrl(pipe_id)}`],
    ...(pipe_source === null ? [] : [['webhooks', `POST ${client.hookUrl(pipe_id, token)}`]]),
    ...rowsOf(detail.limits ?? {}),
    ...detail.allowed_origins.map((origin) => ['allowed origin', origin.origin_domain]),
    ...detail.destinations.map((one) => [
      'destination',
      `${fullName(detail.pipe, one)}  ${kindOf(one)} ${describeTarget(one)}  ${stateOf(one)}, ${count(one.lane.pending_messages)} pending`,
    ]),
  ])
}
