/** `pipectl destinations …`: list, get, create, update, block, unblock, test, delete. */
import { type Command, Option } from 'commander'
import { exitCodes, Failure } from '../client/failure.ts'
import { count } from '../client/quantities.ts'
import { allDestinations, type DestinationOfPipe, describeTarget, kindOf } from '../client/workspace.ts'
import type { DestinationStatus } from '../contract/destination.ts'
import { connect } from './connection.ts'
import { type CommonOptions, define, formats, group } from './define.ts'
import {
  addBodyOptions,
  type BodyOptions,
  destinationBody,
  destinationPatch,
  typeWords,
} from './destinations/body.ts'
import { columnText } from './destinations/columns.ts'
import { laneRows } from './lanes.ts'
import { print } from './output.ts'
import { oneView, show } from './pipes.ts'
import { findDestination, findPipe } from './references.ts'
import { confirm, say } from './terminal.ts'

const namingHelp =
  'A destination is named by its id, the start of its id (4 characters or more), PIPE/KIND (orders/database),\nor its pipe alone when that has but one.'

export function addDestinationsCommands(program: Command): void {
  const destinations = group(program, 'destinations', 'where records go')
  addReading(destinations)
  addWriting(destinations)
  addStatus(destinations)
}

function addReading(destinations: Command): void {
  define(destinations, {
    usage: 'list [pipe]',
    summary: 'list the destinations of a pipe, or of all pipes',
    examples: ['pipectl destinations list', 'pipectl destinations list orders -o name'],
    output: formats,
    daemon: true,
    action: async ([reference], options) => {
      const client = await connect(options)
      const pipes = reference === undefined ? undefined : [await findPipe(client, reference)]
      const all = await allDestinations(client, pipes)
      const view = {
        json: JSON.stringify({ destinations: all.map((one) => one.destination) }),
        items: () => all.map((one) => JSON.stringify(one.destination)),
        names: () => all.map((one) => one.destination.destination_id),
        table: () => ({
          columns: ['PIPE', 'KIND', 'STATUS', 'LANE', 'BACKLOG', 'TARGET', 'DESTINATION ID'],
          rows: all.map(({ pipe, destination }) => [
            pipe.pipe_name,
            kindOf(destination),
            destination.destination_status,
            destination.lane.lane_state,
            count(destination.lane.pending_messages),
            describeTarget(destination),
            destination.destination_id,
          ]),
          empty: 'no destinations; add one with `pipectl destinations create PIPE`',
        }),
      }
      await print(view, options.output)
    },
  })
  define(destinations, {
    usage: 'get <destination>',
    summary: 'show one destination, its columns and its lane',
    help: namingHelp,
    examples: ['pipectl destinations get orders/database -o yaml'],
    output: formats,
    daemon: true,
    action: async ([reference], options) => {
      const client = await connect(options)
      const found = await findDestination(client, reference!)
      const id = found.destination.destination_id
      const reply = await client.destinations.get(found.pipe.pipe_id, id)
      const rows = detailRows({ pipe: found.pipe, destination: reply.body.destination })
      await print(oneView(reply.text, id, rows), options.output)
    },
  })
}

function addWriting(destinations: Command): void {
  define<BodyOptions>(destinations, {
    usage: 'create <pipe>',
    summary: 'add a destination to a pipe; prints its id',
    examples: [
      "pipectl destinations create orders --url 'postgres://loader@db.example.com/shop?table=orders' --column id:number:dedupe_id --column total:number",
      'pipectl destinations create orders --url https://example.com/hook --secret auth_header',
      'pipectl destinations create orders --type pull --start-from earliest',
      'pipectl destinations create orders --url s3://lake --set endpoint=http://127.0.0.1:9000 --set access_key=loader --secret secret_key',
      'pipectl destinations create orders -f bucket.yaml',
    ],
    output: formats,
    daemon: true,
    options: (command) => {
      addBodyOptions(command)
      addTypeOption(command)
      command.addOption(
        new Option('--start-from <point>', 'first record it gets: now (default) or earliest').choices([
          'now',
          'earliest',
        ]),
      )
    },
    action: async ([reference], options) => {
      const client = await connect(options)
      const pipe = await findPipe(client, reference!)
      const reply = await client.destinations.create(pipe.pipe_id, await destinationBody(options))
      const id = reply.body.destination_id
      say(`Added a destination to ${pipe.pipe_name}. Watch it with: pipectl lanes list ${pipe.pipe_name}`)
      await print(oneView(reply.text, id, [['destination_id', id]]), options.output)
    },
  })
  define<BodyOptions>(destinations, {
    usage: 'update <destination>',
    summary: 'change the config, columns or retry window of a destination; what is not given stays',
    help: `${namingHelp}\n--column replaces all columns; a secret is changed only with --secret.`,
    examples: [
      'pipectl destinations update orders/database --host db2.example.com',
      'pipectl destinations update orders/database --secret password',
    ],
    output: formats,
    daemon: true,
    options: addBodyOptions,
    action: async ([reference], options) => {
      const client = await connect(options)
      const found = await findDestination(client, reference!)
      const patch = await destinationPatch(found.destination.destination_type, options)
      const id = found.destination.destination_id
      const reply = await client.destinations.update(found.pipe.pipe_id, id, patch)
      say(`Updated ${found.pipe.pipe_name}/${kindOf(found.destination)}.`)
      const rows = detailRows({ pipe: found.pipe, destination: reply.body.destination })
      await print(oneView(reply.text, id, rows), options.output)
    },
  })
  define<BodyOptions>(destinations, {
    usage: 'test <pipe>',
    summary:
      'try a destination without storing anything: same options as create; exit code 1 when a check fails',
    examples: ["pipectl destinations test orders --url 'postgres://loader@db.example.com/shop?table=orders'"],
    output: formats,
    daemon: true,
    options: (command) => {
      addBodyOptions(command)
      addTypeOption(command)
    },
    action: async ([reference], options) => {
      const client = await connect(options)
      const pipe = await findPipe(client, reference!)
      const reply = await client.destinations.test(pipe.pipe_id, await destinationBody(options))
      const { ok, checks } = reply.body
      const view = {
        json: reply.text,
        items: () => checks.map((check) => JSON.stringify(check)),
        names: () => checks.filter((check) => !check.ok).map((check) => check.name),
        table: () => ({
          columns: ['CHECK', 'RESULT', 'DETAIL'],
          rows: checks.map((check) => [check.name, check.ok ? 'ok' : 'fail', check.message]),
        }),
      }
      await print(view, options.output)
      const failed = checks.find((check) => !check.ok)
      if (ok) return
      throw new Failure(
        exitCodes.failed,
        `the destination would not work: ${failed?.name ?? 'a check'} failed${failed ? `: ${failed.message}` : ''}`,
        'mend that, then test again',
      )
    },
  })
}

function addStatus(destinations: Command): void {
  define(destinations, {
    usage: 'block <destination>',
    summary: 'stop delivering to a destination; its backlog is kept',
    help: namingHelp,
    examples: ['pipectl destinations block orders/database'],
    output: formats,
    daemon: true,
    action: ([reference], options) => setStatus(reference!, 'blocked', options),
  })
  define(destinations, {
    usage: 'unblock <destination>',
    summary: 'deliver again',
    help: namingHelp,
    examples: ['pipectl destinations unblock orders/database'],
    output: formats,
    daemon: true,
    action: ([reference], options) => setStatus(reference!, 'active', options),
  })
  define(destinations, {
    usage: 'delete <destination>',
    summary: 'delete a destination; what it has not received yet it never gets',
    help: namingHelp,
    examples: ['pipectl destinations delete orders/database --yes'],
    daemon: true,
    destructive: true,
    action: async ([reference], options) => {
      const client = await connect(options)
      const { pipe, destination } = await findDestination(client, reference!)
      const name = `${pipe.pipe_name}/${kindOf(destination)} (${describeTarget(destination)})`
      const pending = destination.lane.pending_messages
      const loss = pending > 0 ? ` It has not received ${count(pending)} messages.` : ''
      await confirm(`Delete destination ${name}?${loss}`, options.yes)
      await client.destinations.delete(pipe.pipe_id, destination.destination_id)
      say(`Deleted destination ${name}.`)
    },
  })
}

async function setStatus(
  reference: string,
  status: DestinationStatus,
  options: CommonOptions,
): Promise<void> {
  const client = await connect(options)
  const { pipe, destination } = await findDestination(client, reference)
  const reply = await client.destinations.setStatus(pipe.pipe_id, destination.destination_id, status)
  const now = reply.body.destination_status
  say(`${pipe.pipe_name}/${kindOf(destination)} is ${now}.`)
  await print(oneView(reply.text, destination.destination_id, [['destination_status', now]]), options.output)
}

function addTypeOption(command: Command): void {
  command.addOption(
    new Option('--type <type>', 'kind of destination, where no URL or file says it').choices(
      Object.keys(typeWords),
    ),
  )
}

function detailRows(one: DestinationOfPipe): string[][] {
  const { destination } = one
  return [
    ['destination_id', destination.destination_id],
    ['pipe', one.pipe.pipe_name],
    ['destination_type', destination.destination_type],
    ['destination_status', destination.destination_status],
    ['destination_max_retry_seconds', String(destination.destination_max_retry_seconds)],
    ...Object.entries(destination.destination_config).map(([key, value]) => [`config ${key}`, show(value)]),
    ...(destination.columns ?? []).map((column) => ['column', columnText(column)]),
    ...laneRows(one, Date.now()),
  ]
}
