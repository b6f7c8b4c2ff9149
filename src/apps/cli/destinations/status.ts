/** `pipectl destinations block`, `unblock` and `reset-pin`. */
import type { Command } from 'commander'
import type { DestinationStatus } from '../../../contract/destination.ts'
import { counted } from '../../../platform/quantities.ts'
import { nothingToDoFailure, usageFailure } from '../../client/failure.ts'
import { allDestinations, fullName, lanePath } from '../../client/workspace.ts'
import { connect } from '../connection.ts'
import { type CommonOptions, clientCommand, define } from '../define.ts'
import { listView, oneView, print } from '../output.ts'
import { findDestination, findPipe } from '../references.ts'
import { confirm, say } from '../terminal.ts'

export const namingHelp =
  'Name a destination as PIPE/NAME (orders/warehouse), as PIPE if the pipe has only one, as PIPE/KIND if only one is of\nthat kind, or by its id or a prefix of it (4 characters or more).'

export function addStatusCommands(destinations: Command): void {
  define(destinations, {
    usage: 'block <destination>',
    summary: 'stop delivering to a destination; its backlog is kept',
    help: namingHelp,
    examples: ['pipectl destinations block orders/database'],
    output: true,
    daemon: true,
    action: ([reference], options) => setStatus(reference!, 'blocked', options),
  })
  define<UnblockOptions>(destinations, {
    usage: 'unblock [destination]',
    summary: 'deliver again; --all: to every blocked destination, e.g. after `restore --paused`',
    help: `${namingHelp}\n--all asks for confirmation.`,
    examples: [
      'pipectl destinations unblock orders/database',
      'pipectl destinations unblock --all',
      'pipectl destinations unblock --all --pipe orders --yes',
    ],
    output: true,
    daemon: true,
    destructive: true,
    options: (command) =>
      command
        .option('--all', 'every blocked destination')
        .option('--pipe <pipe>', 'with --all: only those of this pipe'),
    action: ([reference], options) => {
      const all = options.all === true
      if (all === (reference !== undefined) || (options.pipe !== undefined && !all)) {
        throw usageFailure(
          all ? '--all and a destination cannot be used together' : 'no destination was named',
          'name one destination, or use --all, or --all --pipe PIPE',
        )
      }
      return reference === undefined ? unblockAll(options) : setStatus(reference, 'active', options)
    },
  })
}

interface UnblockOptions {
  all?: boolean
  pipe?: string
}

/** Unblocks one destination after another and stops at the first error. Earlier ones stay unblocked. */
async function unblockAll(options: CommonOptions & UnblockOptions): Promise<void> {
  const client = await connect(options)
  const pipes = options.pipe === undefined ? undefined : [await findPipe(client, options.pipe)]
  const all = await allDestinations(client, pipes)
  const blocked = all.filter(({ destination }) => destination.destination_status === 'blocked')
  const where = pipes === undefined ? '' : ` of ${pipes[0]!.pipe_name}`
  if (blocked.length === 0) {
    throw nothingToDoFailure(`no destination${where} is blocked`, 'there is nothing to do')
  }
  const pending = blocked.reduce((sum, { destination }) => sum + destination.lane.pending_messages, 0)
  const what = `${counted(blocked.length, 'blocked destination')}${where}`
  await confirm(`Unblock ${what}? Waiting for delivery: ${counted(pending, 'message')}.`, options.yes)
  for (const { pipe, destination } of blocked) {
    await client.call('setDestinationStatus', {
      path: lanePath(destination),
      body: { destination_status: 'active' },
    })
    say(`${fullName(pipe, destination)} is active.`)
  }
  const ids = blocked.map(({ destination }) => destination.destination_id)
  const view = listView(blocked, {
    json: JSON.stringify({ unblocked: ids }),
    item: ({ destination: { destination_id } }) => ({ destination_id }),
    name: ({ destination }) => destination.destination_id,
    columns: [
      [
        { label: 'LANE', shrinksTo: 30, keepsEnd: true },
        ({ pipe, destination }) => fullName(pipe, destination),
      ],
      [{ label: 'DESTINATION ID', isSpare: true }, ({ destination }) => destination.destination_id],
    ],
  })
  await print(view, options.output)
}

async function setStatus(
  reference: string,
  status: DestinationStatus,
  options: CommonOptions,
): Promise<void> {
  const client = await connect(options)
  const { pipe, destination } = await findDestination(client, reference)
  const reply = await client.call('setDestinationStatus', {
    path: lanePath(destination),
    body: { destination_status: status },
  })
  const now = reply.body.destination_status
  const pending = counted(destination.lane.pending_messages, 'message')
  const after =
    now === 'blocked'
      ? `nothing is delivered until it is unblocked; its backlog (${pending}) is kept, up to the age limit of the buffer`
      : `its backlog (${pending}) is delivered now`
  say(`${fullName(pipe, destination)} is ${now}: ${after}.`)
  await print(oneView(reply.text, destination.destination_id, [['destination_status', now]]), options.output)
}

export function addPinCommand(destinations: Command): void {
  clientCommand(destinations, {
    usage: 'reset-pin <destination>',
    summary: 'reset the pinned key of a database server; the next connection pins the key that it finds',
    help: `${namingHelp}\nFor a server whose key was replaced: \`destinations test\` shows its present key.`,
    examples: ['pipectl destinations reset-pin orders/database --yes'],
    destructive: true,
    action: async (client, [reference], options) => {
      const { pipe, destination } = await findDestination(client, reference!)
      const name = fullName(pipe, destination)
      const pinned = destination.tls_pin?.sha256
      if (pinned !== undefined) {
        await confirm(
          `Reset the pinned key ${pinned} of ${name}? The next server that responds is trusted.`,
          options.yes,
        )
      }
      const reply = await client.call('resetTlsPin', {
        path: lanePath(destination),
      })
      await print(oneView(reply.text, reply.body.status, [['status', reply.body.status]]), options.output)
      if (!reply.body.reset) {
        throw nothingToDoFailure(`no key is pinned for ${name}`, 'there is nothing to do')
      }
      say(`The next connection of ${name} pins the key that the server has then.`)
    },
  })
}
