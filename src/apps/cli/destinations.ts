/** `pipectl destinations …`: list, get, create, update, block, unblock, reset-pin, test, delete. */
import { type Command, Option } from 'commander'
import { openSecretsAdvice } from '../../contract/header-names.ts'
import { isObject } from '../../contract/is-object.ts'
import { count, counted } from '../../platform/quantities.ts'
import { ifUnchanged } from '../client/changed-meanwhile.ts'
import type { Client, DestinationTestBody } from '../client/client.ts'
import { commandFailure } from '../client/failure.ts'
import { startFromFlag } from '../client/flag-fields.ts'
import {
  allDestinations,
  type DestinationOfPipe,
  describeTarget,
  fullName,
  kindOf,
  lanePath,
  stateOf,
} from '../client/workspace.ts'
import { clientCommand, group } from './define.ts'
import {
  addBodyOptions,
  addPatchOptions,
  destinationBody,
  destinationPatch,
  hasChanges,
  namesType,
  type PatchOptions,
} from './destinations/body.ts'
import { columnText } from './destinations/columns.ts'
import { typeNames } from './destinations/config-keys.ts'
import { addDriftCommand } from './destinations/drift.ts'
import {
  type AlterOptions,
  addInferOptions,
  alterTable,
  createInferred,
  type InferOptions,
  wantsInference,
} from './destinations/infer.ts'
import { addPinCommand, addStatusCommands, namingHelp } from './destinations/status.ts'
import { addDestinationTopics } from './destinations/topics.ts'
import {
  addTransformCheckOption,
  savingWith,
  sayTransformCheck,
  type TransformCheckOptions,
} from './destinations/transform-options.ts'
import { addTryTransformCommand } from './destinations/try-transform.ts'
import { addFlagOptions } from './flag-options.ts'
import { folded } from './help.ts'
import { laneRows } from './lanes.ts'
import { listView, oneView, print, show } from './output.ts'
import { findDestination, findPipe } from './references.ts'
import { confirm, say } from './terminal.ts'

export function addDestinationsCommands(program: Command): void {
  const destinations = group(program, 'destinations', 'where records go')
  addReading(destinations)
  addCreate(destinations)
  addUpdate(destinations)
  addTest(destinations)
  addStatusCommands(destinations)
  addPinCommand(destinations)
  addDriftCommand(destinations)
  addTryTransformCommand(destinations)
  addDelete(destinations)
  addDestinationTopics(destinations)
}

function addReading(destinations: Command): void {
  clientCommand(destinations, {
    usage: 'list [pipe]',
    summary: 'list the destinations of a pipe, or of all pipes',
    examples: ['pipectl destinations list', 'pipectl destinations list orders -o name'],
    action: async (client, [reference], options) => {
      const pipes = reference === undefined ? undefined : [await findPipe(client, reference)]
      const all = await allDestinations(client, pipes)
      const nameOf = (one: DestinationOfPipe) => fullName(one.pipe, one.destination)
      const view = listView(all, {
        json: JSON.stringify({ destinations: all.map((one) => one.destination) }),
        item: (one) => one.destination,
        name: nameOf,
        columns: [
          [{ label: 'DESTINATION', shrinksTo: 20, keepsEnd: true }, nameOf],
          [{ label: 'KIND', gives: 2 }, ({ destination }) => kindOf(destination)],
          [{ label: 'STATUS', gives: 1 }, ({ destination }) => destination.destination_status],
          ['LANE', ({ destination }) => stateOf(destination)],
          [{ label: 'BACKLOG', gives: 3 }, ({ destination }) => count(destination.lane.pending_messages)],
          [{ label: 'TARGET', shrinksTo: 18 }, ({ destination }) => describeTarget(destination)],
          [{ label: 'DESTINATION ID', isSpare: true }, ({ destination }) => destination.destination_id],
        ],
        empty: 'no destinations; add one with `pipectl destinations create PIPE`',
      })
      await print(view, options.output)
    },
  })
  clientCommand(destinations, {
    usage: 'get <destination>',
    summary: 'show one destination, its columns and its lane',
    help: namingHelp,
    examples: ['pipectl destinations get orders/database -o yaml'],
    action: async (client, [reference], options) => {
      const found = await findDestination(client, reference!)
      const id = found.destination.destination_id
      const reply = await client.call('getDestination', { path: lanePath(found.destination) })
      const rows = detailRows({ pipe: found.pipe, destination: reply.body.destination })
      await print(oneView(reply.text, id, rows), options.output)
    },
  })
}

/** Reads a destination with its version, so that a change applies only to the state that was read. */
async function readDestination(
  client: Client,
  reference: string,
): Promise<DestinationOfPipe & { etag: string | null }> {
  const { pipe, destination } = await findDestination(client, reference)
  const { body, etag } = await client.call('getDestination', { path: lanePath(destination) })
  return { pipe, destination: body.destination, etag }
}

function addCreate(destinations: Command): void {
  clientCommand<InferOptions>(destinations, {
    usage: 'create <pipe>',
    summary: 'add a destination to a pipe; prints its id',
    examples: [
      "pipectl destinations create orders --url 'postgres://loader@db.example.com/shop?table=orders' --column id:number:dedupe_id --column total:number",
      "pipectl destinations create orders --url 'postgres://loader@db.example.com/shop?table=orders' --infer --create-table",
      'pipectl destinations create orders --url https://example.com/hook --secret auth_header',
      'pipectl destinations create orders --type pull --start-from earliest',
      'pipectl destinations create orders --url s3://lake --set endpoint=http://127.0.0.1:9000 --set access_key=loader --secret secret_key',
      'pipectl destinations create orders -f bucket.yaml',
    ],
    options: (command) => {
      addBodyOptions(command)
      addInferOptions(command)
      folded(command, 'Transform:', () => addTransformCheckOption(command))
      addTypeOption(command)
      addFlagOptions(command, [startFromFlag])
    },
    action: async (client, [reference], options) => {
      const pipe = await findPipe(client, reference!)
      if (wantsInference(options)) return await createInferred(client, pipe, options)
      const body = await destinationBody(options, pipe.pipe_name)
      const reply = await client.call('createDestination', {
        path: { pipe_id: pipe.pipe_id },
        body,
        ...savingWith(options),
      })
      const id = reply.body.destination_id
      sayOpenSecrets(body)
      sayTransformCheck(reply.body)
      say(`Added ${fullName(pipe, reply.body)}. Watch it with: pipectl lanes list ${pipe.pipe_name}`)
      sayStart(fullName(pipe, reply.body), body.start_from)
      await print(oneView(reply.text, id, [['destination_id', id]]), options.output)
    },
  })
}

/** The dashboard suggests the earliest message for the first destination of a pipe, so a user can expect it here too. */
function sayStart(name: string, startFrom: string | undefined): void {
  if (startFrom !== undefined) return
  say(`It receives new records only. For those stored before: pipectl lanes rewind ${name} --to earliest`)
}

function addUpdate(destinations: Command): void {
  clientCommand<PatchOptions & AlterOptions & TransformCheckOptions>(destinations, {
    usage: 'update <destination>',
    summary: 'change the config, columns or delivery settings of a destination; all others stay as they are',
    help: `${namingHelp}\n--column replaces all columns, after a confirmation. A secret changes only with --secret (or in -f).`,
    destructive: true,
    examples: [
      'pipectl destinations update orders/database --add-column total:number --remove-column sum',
      'pipectl destinations update orders/database --add-column note:string --alter-table',
      'pipectl destinations update orders/http-endpoint --name billing --rate 50 --concurrency 4',
      'pipectl destinations update orders/database --host db2.example.com',
      'pipectl destinations update orders/database --secret password',
      `pipectl destinations update orders/database --filter 'record.status == "paid"'`,
    ],
    options: (command) => {
      addPatchOptions(command)
      folded(command, 'Transform:', () => addTransformCheckOption(command))
      command.option('--alter-table', 'with --add-column: add the column to the table too, if it is missing')
    },
    action: async (client, [reference], options) => {
      const { pipe, destination, etag: ifMatch } = await readDestination(client, reference!)
      const patch = await destinationPatch(destination, options)
      const lost = destination.columns?.length ?? 0
      if (lost > 0 && (options.column !== undefined || options.columns === false)) {
        await confirm(
          `Replace all ${counted(lost, 'column mapping')} of ${fullName(pipe, destination)} with ${counted(patch.columns?.length ?? 0, 'mapping')}? (--add-column keeps the others.)`,
          options.yes,
        )
      }
      if (options.alterTable === true) await alterTable(client, destination, options.addColumn)
      const reply = await ifUnchanged(fullName(pipe, destination), { destination }, () =>
        client.call('updateDestination', {
          path: lanePath(destination),
          body: patch,
          ...savingWith(options),
          ifMatch,
        }),
      )
      say(`Updated ${fullName(pipe, reply.body.destination)}.`)
      sayOpenSecrets(patch)
      sayTransformCheck(reply.body)
      const rows = detailRows({ pipe, destination: reply.body.destination })
      await print(oneView(reply.text, destination.destination_id, rows), options.output)
    },
  })
}

function addTest(destinations: Command): void {
  clientCommand<PatchOptions & { sample?: boolean }>(destinations, {
    usage: 'test <destination>',
    summary: 'test a destination without storing anything; exit code 1 if a check fails',
    help: `A stored destination (PIPE/NAME) is tested with its stored secrets and the changes in the options. A PIPE with --url, -f,
--host or --type tests a new one, with the options of create. For a database, the JSON has the columns of its table in
table_columns, and how rows are written in written_by.`,
    examples: [
      'pipectl destinations test orders/database --sample',
      "pipectl destinations test orders --url 'postgres://loader@db.example.com/shop?table=orders'",
    ],
    options: (command) => {
      addPatchOptions(command)
      addTypeOption(command)
      command.option('--sample', 'databases: insert a record in a transaction that is rolled back')
    },
    action: async (client, [reference], options) => {
      const { pipeId, body } = await whatToTest(client, reference!, options)
      const reply = await client.call('testDestination', {
        path: { pipe_id: pipeId },
        body,
        query: { sample: options.sample === true },
      })
      const { ok, checks } = reply.body
      const view = listView(checks, {
        json: reply.text,
        name: (check) => check.name,
        columns: [
          ['CHECK', (check) => check.name],
          ['RESULT', (check) => (check.ok ? 'ok' : 'fail')],
          [{ label: 'DETAIL', wraps: true }, (check) => check.message],
        ],
      })
      const names = () => checks.filter((check) => !check.ok).map((check) => check.name)
      await print({ ...view, names }, options.output)
      const failed = checks.find((check) => !check.ok)
      if (ok) return
      throw commandFailure(
        `the destination would not work: ${failed?.name ?? 'a check'} failed${failed ? `: ${failed.message}` : ''}`,
        'correct that, then test again',
      )
    },
  })
}

async function whatToTest(
  client: Client,
  reference: string,
  options: PatchOptions,
): Promise<{ pipeId: string; body: DestinationTestBody }> {
  const isNew = namesType(options) && !reference.includes('/')
  if (isNew) {
    const pipe = await findPipe(client, reference)
    return { pipeId: pipe.pipe_id, body: await destinationBody(options, pipe.pipe_name) }
  }
  const { pipe, destination } = await findDestination(client, reference)
  const { destination_id } = destination
  const changes = hasChanges(options) ? await destinationPatch(destination, options) : {}
  return { pipeId: pipe.pipe_id, body: { ...changes, destination_id } }
}

function sayOpenSecrets({ destination_config: config }: { destination_config?: unknown }): void {
  const advice = openSecretsAdvice(isObject(config) ? config.headers : undefined)
  if (advice !== null) say(`Note: ${advice}`)
}

function addDelete(destinations: Command): void {
  clientCommand(destinations, {
    usage: 'delete <destination>',
    summary: 'delete a destination; its undelivered messages are not delivered',
    help: namingHelp,
    examples: ['pipectl destinations delete orders/database --yes'],
    output: false,
    destructive: true,
    action: async (client, [reference], options) => {
      const { pipe, destination, etag } = await readDestination(client, reference!)
      const name = `${fullName(pipe, destination)} (${describeTarget(destination)})`
      const pending = destination.lane.pending_messages
      const loss = pending > 0 ? ` It has not received ${counted(pending, 'message')}.` : ''
      await confirm(`Delete destination ${name}?${loss}`, options.yes)
      await ifUnchanged(name, { destination }, () =>
        client.call('deleteDestination', { path: lanePath(destination), ifMatch: etag }),
      )
      say(`Deleted destination ${name}.`)
    },
  })
}

function addTypeOption(command: Command): void {
  command.addOption(
    new Option('--type <type>', 'kind of destination, if no URL or file determines it').choices([
      ...typeNames.keys(),
    ]),
  )
}

function detailRows(one: DestinationOfPipe): string[][] {
  const { destination } = one
  return [
    ['pipe', one.pipe.pipe_name],
    ['destination_name', destination.destination_name],
    ['destination_id', destination.destination_id],
    ['destination_type', destination.destination_type],
    ['destination_status', destination.destination_status],
    ['destination_max_retry_seconds', String(destination.destination_max_retry_seconds)],
    ['flush', show(destination.flush)],
    ['rate', show(destination.rate)],
    ...(destination.concurrency === undefined ? [] : [['concurrency', String(destination.concurrency)]]),
    ['on_permanent_error', destination.on_permanent_error],
    ['transform', show(destination.transform)],
    ...Object.entries(destination.destination_config).map(([key, value]) => [`config ${key}`, show(value)]),
    ...pinRows(destination),
    ...(destination.columns ?? []).map((column) => ['column', columnText(column)]),
    ...laneRows(one, Date.now()),
  ]
}

function pinRows({ tls_pin: pin }: DestinationOfPipe['destination']): string[][] {
  if (pin === undefined) return []
  return [['tls_pin', pin === null ? '-' : `sha256 ${pin.sha256}, since ${pin.first_seen_ts}`]]
}
