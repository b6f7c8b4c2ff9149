/** `pipectl nodes`: lists the nodes of a cluster, and drains a node before maintenance of its machine. */
import type { Command } from 'commander'
import type { ListedNode, ListedNodes, LocalCluster } from '../../maintenance/nodes.ts'
import { counted, duration } from '../../platform/quantities.ts'
import {
  commandFailure,
  exitCodes,
  Failure,
  notFoundFailure,
  nothingToDoFailure,
  usageFailure,
} from '../client/failure.ts'
import { daemonSettings } from './daemon-settings.ts'
import { define } from './define.ts'
import { io } from './io.ts'
import { listView, print, type View } from './output.ts'
import { confirm, say } from './terminal.ts'

type FoundNode = Awaited<ReturnType<LocalCluster['nodes']>>[number]

/** How often the progress of a drain is checked. */
const lookEveryMs = 500
const defaultWaitSeconds = 120

export function addNodesCommands(program: Command): void {
  const nodes = define(program, {
    usage: 'nodes',
    summary:
      'list the nodes of a cluster and what each delivers; `drain` moves the pipes of one to the others',
    help: `Run it with the settings of any node: it reads the databases of the cluster, not the nodes. LAG is the age of the oldest
undelivered message of the node's pipes, as last saved by their lanes. A node that stopped unexpectedly is listed as expired
until others have its pipes, which takes some seconds.`,
    examples: [
      'pipectl nodes --config /etc/pipectl/pipectl.toml',
      'pipectl nodes -o json | jq .unowned_pipes',
    ],
    output: true,
    dataDir: true,
    action: async (_, options) => {
      const found = await inCluster(options, (cluster) =>
        cluster.list((reason) => say(`No lag: the buffer cannot be read: ${reason}`)),
      )
      await print(nodesView(found, Date.now()), options.output)
    },
  })
  define<{ wait: string }>(nodes, {
    usage: 'drain <node>',
    summary: 'hand the pipes of a node over to the others; waits until it has none',
    help: `For an upgrade, or before its machine is switched off. The node still accepts records, but gets no pipes until \`undrain\` or its
next start. Each pipe is handed over after its current batch. Exit code 1: pipes are left after --wait seconds; the node
continues to hand them over.`,
    examples: ['pipectl nodes drain node-2 --config /etc/pipectl/pipectl.toml && systemctl restart pipectl'],
    dataDir: true,
    options: (command) =>
      command.option('--wait <seconds>', 'how long to wait for the last pipe', String(defaultWaitSeconds)),
    action: async ([name], options) => {
      const waitMs = seconds(options.wait) * 1000
      await inCluster(options, (cluster) => drain(cluster, name!, waitMs))
    },
  })
  define(nodes, {
    usage: 'undrain <node>',
    summary: 'end the drain of a node: it gets pipes again',
    examples: ['pipectl nodes undrain node-2 --config /etc/pipectl/pipectl.toml'],
    dataDir: true,
    action: async ([name], options) => {
      await inCluster(options, async (cluster) => {
        const node = pick(await cluster.nodes(), name!)
        if (!node.isDraining) {
          throw nothingToDoFailure(`${node.name} is not draining`, '`pipectl nodes` shows its pipes')
        }
        if (!(await cluster.setDraining(node.nodeId, false))) throw gone(node.name)
        say(`${node.name} gets pipes again, within seconds.`)
      })
    },
  })
  define(nodes, {
    usage: 'renumber',
    summary: 'start new message numbers after PostgreSQL and the stream were restored from backups',
    help: `Stop every node first. Messages that were accepted after the backup are gone, but receivers have seen their numbers: without
this command new messages would reuse them. Ids, keys, lanes and the messages in the stream stay. A lane that has delivered
more than the stream contains continues at the end of the stream: the messages in between are lost.`,
    examples: ['pipectl nodes renumber --config /etc/pipectl/pipectl.toml'],
    destructive: true,
    dataDir: true,
    action: async (_, options) => {
      const { renumber } = await import('../../maintenance/migrate/renumber.ts')
      await renumber(daemonSettings(options), io().env, async (found) => {
        const { stream, lastFrame, deliveredFrame, lanes } = found
        say(
          `${stream} ends with frame ${lastFrame}; ${counted(lanes, 'lane')}, the newest frame delivered is ${deliveredFrame}.`,
        )
        await confirm('Give every message a new number?', options.yes)
      })
      say('The next messages have new numbers. Start the nodes.')
    },
  })
}

async function inCluster<T>(options: object, use: (cluster: LocalCluster) => Promise<T>): Promise<T> {
  const settings = daemonSettings(options)
  const { withLocalCluster } = await import('../../maintenance/nodes.ts')
  return await withLocalCluster(settings, io().env, use)
}

async function drain(cluster: LocalCluster, name: string, waitMs: number): Promise<void> {
  const before = await cluster.nodes()
  const node = pick(before, name)
  const others = before.filter((one) => one.nodeId !== node.nodeId && one.leftMs > 0 && !one.isDraining)
  if (others.length === 0) {
    throw new Failure(
      exitCodes.conflict,
      `there is no other node that could take the pipes of ${node.name}; nothing was changed`,
      'start another node, or `pipectl nodes undrain` one',
    )
  }
  if (!(await cluster.setDraining(node.nodeId, true))) throw gone(node.name)
  const endMs = performance.now() + waitMs
  let shown = -1
  for (;;) {
    const now = (await cluster.nodes()).find((one) => one.nodeId === node.nodeId)
    if (now === undefined) {
      say(`${node.name} has stopped; the others take over its pipes.`)
      return
    }
    if (now.ownedPipes === 0) {
      say(
        `${node.name} has no pipes. It still accepts records. Stop it, or end the drain: pipectl nodes undrain ${node.name}`,
      )
      return
    }
    if (now.ownedPipes !== shown) say(`${node.name}: ${counted(now.ownedPipes, 'pipe')} left`)
    shown = now.ownedPipes
    if (performance.now() >= endMs) break
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
  }
  throw commandFailure(
    `${node.name} still has ${counted(shown, 'pipe')}: a batch is still running; the node continues to hand them over`,
    'run the command again to wait longer, or `pipectl nodes undrain` to cancel',
  )
}

/** By name, id, or a unique start of the id. If several nodes have the name, expired ones are ignored. */
function pick(nodes: readonly FoundNode[], wanted: string): FoundNode {
  const named = nodes.filter(({ name, nodeId }) => name === wanted || nodeId === wanted)
  const living = named.filter(({ leftMs }) => leftMs > 0)
  const matching =
    named.length > 0
      ? living.length > 0
        ? living
        : named
      : nodes.filter(({ nodeId }) => nodeId.startsWith(wanted))
  const [found] = matching
  if (found === undefined) {
    const names = nodes.map(({ name }) => name).join(', ')
    throw notFoundFailure(
      `there is no node ${wanted}`,
      names === '' ? 'no node runs: start one with `pipectl serve`' : `use one of: ${names}`,
    )
  }
  if (matching.length > 1) {
    throw new Failure(
      exitCodes.conflict,
      `${matching.length} nodes are called ${wanted}`,
      `name one by its id: ${matching.map(({ nodeId }) => nodeId).join(', ')}; and give each its own node.name`,
    )
  }
  return found
}

function gone(name: string): Failure {
  return notFoundFailure(`${name} has just stopped`, '`pipectl nodes` lists the current nodes')
}

function seconds(text: string): number {
  const value = Number(text)
  if (/^\d{1,6}$/.test(text)) return value
  throw usageFailure(`--wait: ${text} is not a number of seconds`, 'give whole seconds, e.g. --wait 300')
}

function nodesView(found: ListedNodes, nowMs: number): View {
  const { nodes, unowned_pipes: unowned, unowned_lag_seconds: unownedLag } = found
  const view = listView(nodes, {
    json: JSON.stringify(found),
    name: (one) => one.node_name,
    columns: [
      [{ label: 'NODE', shrinksTo: 12 }, (one) => one.node_name],
      [{ label: 'ID', isSpare: true }, (one) => one.node_id],
      [
        'STATE',
        ({ node_state: state, is_delivering }) =>
          state === 'live' && !is_delivering ? 'not delivering' : state,
      ],
      [{ label: 'VERSION', gives: 2 }, (one) => one.version],
      [{ label: 'ADDRESS', gives: 3 }, (one) => one.address ?? '-'],
      [{ label: 'STARTED', gives: 1 }, (one) => since(one.started_ts, nowMs)],
      ['HEARTBEAT', (one) => since(one.last_heartbeat_ts, nowMs)],
      ['PIPES', (one) => String(one.owned_pipes)],
      ['LAG', lag],
    ],
    empty: 'no node runs',
  })
  if (unowned === 0) return view
  const waits = lag({ lag_seconds: unownedLag })
  const withoutNode = ['(no node)', '-', '-', '-', '-', '-', '-', String(unowned), waits]
  const table = () => ({ ...view.table(), rows: [...view.table().rows, withoutNode] })
  return { ...view, table }
}

/** Clocks of machines differ, so a time is never later than now. */
function since(timestamp: string, nowMs: number): string {
  return `${duration(Math.max(0, (nowMs - Date.parse(timestamp)) / 1000))} ago`
}

function lag({ lag_seconds: age }: Pick<ListedNode, 'lag_seconds'>): string {
  if (age === null) return '?'
  return age === 0 ? '-' : duration(age)
}
