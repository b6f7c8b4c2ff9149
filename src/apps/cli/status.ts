/**
 * `pipectl status`: shows whether the daemon responds, what is pending, and which lanes need attention. `pipectl
 * openapi`: prints the daemon's API document.
 */
import type { Command } from 'commander'
import type { AlertsShown } from '../../contract/alerts.ts'
import type { OverviewCluster, OverviewPipe } from '../../contract/overview.ts'
import { usageStatsWindowHours } from '../../contract/pipe.ts'
import { readyWords } from '../../contract/ready-words.ts'
import { isFailing, needAttention, needsAttention } from '../../contract/state-words.ts'
import { bytes, count, counted, duration } from '../../platform/quantities.ts'
import { alertsInWords } from '../client/alerts.ts'
import { type Client, openClient } from '../client/client.ts'
import { clusterOf, nodeInWords, unownedInWords } from '../client/cluster.ts'
import { commandFailure, Failure } from '../client/failure.ts'
import { type CauseGroup, causeGroups, groupLine } from '../client/lane-causes.ts'
import type { LaneOfPipe } from '../client/overview.ts'
import { OverviewFeed } from '../client/overview-feed.ts'
import { replicaInWords } from '../client/replica.ts'
import { fullName, stateOf } from '../client/workspace.ts'
import { findTarget } from './connection.ts'
import { clientCommand, define } from './define.ts'
import { io } from './io.ts'
import { oneView, print } from './output.ts'

const staleWords = 'delivery is being restarted or does not respond; they are shown as they were last saved'

/** The names of lanes in the row of a group. */
const namesShown = 5

const egressWords: Record<string, string> = {
  allow: 'allowed for destinations (egress.private)',
  deny: 'denied for destinations, except those in egress.allow (egress.private)',
}

/** Null: this key cannot read them, or the daemon is too old for alerts. */
async function alertsOf(client: Client): Promise<AlertsShown | null> {
  try {
    return (await client.call('getAlerts')).body
  } catch (error) {
    if (error instanceof Failure) return null
    throw error
  }
}

function clusterRows(cluster: OverviewCluster): string[][] {
  const unowned = unownedInWords(cluster)
  return [
    ...cluster.nodes.map((node) => [
      'node',
      `${node.node_name}${node.is_this ? ' (this one)' : ''}: ${nodeInWords(node)}`,
    ]),
    ...(unowned === null ? [] : [['nodes', `${unowned}: their records are accepted and wait`]]),
  ]
}

export function addStatusCommands(program: Command): void {
  clientCommand<{ check?: boolean }>(program, {
    usage: 'status',
    summary: 'show the health of the daemon, what is pending and which lanes need attention',
    examples: ['pipectl status', 'pipectl status --check -o json'],
    options: (command) =>
      command.option(
        '--check',
        'exit code 1 if a lane is stuck or blocked, or has been retrying for a minute',
      ),
    action: async (client, _, options) => {
      const found = await lookAt(client)
      const { lanes, troubled } = found
      const status = statusOf(client.url, found)
      // For scripts: the names of what needs attention, or that nothing does.
      const troubledNames = troubled.map(({ pipe, destination }) => fullName(pipe, destination))
      const names = () => (troubledNames.length === 0 ? [status.health] : troubledNames)
      await print(
        { ...oneView(JSON.stringify(status), status.health, statusRows(found, status)), names },
        options.output,
      )
      if (options.check !== true || troubled.length === 0) return
      throw commandFailure(
        `${counted(lanes.length, 'lane')}, ${needAttention(troubled.length)}`,
        '`pipectl lanes list --blocked` shows them; `pipectl top` retries and skips',
      )
    },
  })
  define(program, {
    usage: 'openapi',
    summary: 'print the OpenAPI document of the daemon (YAML)',
    examples: ['pipectl openapi > pipectl.openapi.yaml'],
    daemon: true,
    action: async (_, options) => {
      io().stdout.write(await openClient(await findTarget(options)).openapi())
    },
  })
}

type Found = Awaited<ReturnType<typeof lookAt>>

async function lookAt(client: Client) {
  const [overview, { body: usage }, alerts] = await Promise.all([
    new OverviewFeed(client).next(),
    client.call('getUsage', { query: { hours: usageStatsWindowHours } }),
    alertsOf(client),
  ])
  const { pipes, server_ts } = overview
  // The clock of the daemon, which also set the times that are compared with it.
  const nowMs = Date.parse(server_ts)
  const lanes = pipes.flatMap((pipe) => pipe.lanes.map((destination) => ({ pipe, destination })))
  const troubled = lanes.filter((one) => needsAttention(one.destination, nowMs))
  return {
    overview,
    usage,
    alerts,
    nowMs,
    lanes,
    troubled,
    // Only lanes that need attention: the others may continue by themselves.
    groups: causeGroups({ ...overview, pipes: onlyLanes(pipes, troubled) }),
    stale: lanes.filter(({ destination }) => destination.lane.stale === true),
  }
}

function onlyLanes(pipes: readonly OverviewPipe[], wanted: readonly LaneOfPipe[]): OverviewPipe[] {
  const ids = new Set(wanted.map(({ destination }) => destination.destination_id))
  return pipes.map((pipe) => ({
    ...pipe,
    lanes: pipe.lanes.filter(({ destination_id: id }) => ids.has(id)),
  }))
}

/** The JSON output of the command. */
function statusOf(url: string, { overview, usage, alerts, nowMs, lanes, groups, troubled, stale }: Found) {
  const { pipes, service } = overview
  const sum = <One>(all: readonly One[], pick: (one: One) => number) =>
    all.reduce((total, one) => total + pick(one), 0)
  return {
    url,
    // It responded, so it is healthy.
    health: 'ok',
    not_ready_reasons: service.reasons,
    warnings: service.warnings,
    egress_private: service.egress_private,
    pipes_count: pipes.length,
    paused_pipes_count: pipes.filter((pipe) => pipe.pipe_status === 'paused').length,
    lanes_count: lanes.length,
    stale_lanes_count: stale.length,
    ingest_records_24h: sum(usage.hours, (one) => one.ingest_records),
    delivered_records_24h: sum(usage.hours, (one) => one.delivered_records),
    rejected_requests_24h: sum(usage.hours, (one) => one.rejected_requests),
    pending_messages: sum(pipes, (one) => one.pending_messages),
    pending_bytes: sum(pipes, (one) => one.pending_bytes),
    oldest_pending_age_seconds: Math.max(
      0,
      ...lanes.map(({ destination }) => destination.lane.oldest_pending_age_seconds),
    ),
    parked_records: sum(lanes, ({ destination }) => destination.lane.parked_records ?? 0),
    unmapped_keys: sum(lanes, ({ destination }) => destination.lane.unmapped_keys ?? 0),
    alerts: alerts?.status ?? null,
    replica: service.replica ?? null,
    cluster: clusterOf(overview),
    causes: groups.map(({ cause, server, advice, lanes: sharing }) => ({
      cause,
      server,
      advice,
      lanes: sharing.map(({ pipe, destination }) => fullName(pipe, destination)),
    })),
    stuck_lanes: troubled.map(({ pipe, destination }) => ({
      pipe_name: pipe.pipe_name,
      destination_id: destination.destination_id,
      destination_name: destination.destination_name,
      lane_state: destination.lane.lane_state,
      is_failing: isFailing(destination.lane, nowMs),
      last_error: destination.lane.last_error,
    })),
  }
}

/** One row for a lane, with its error; one for several lanes with the same cause and server, then what to do. */
function groupRows(group: CauseGroup): string[][] {
  const [first, ...others] = group.lanes
  if (first === undefined) return []
  if (others.length === 0) {
    const { pipe, destination } = first
    const why = destination.lane.last_error?.message ?? 'a user blocked the destination'
    return [['needs attention', `${fullName(pipe, destination)}, ${stateOf(destination)}: ${why}`]]
  }
  const names = group.lanes.slice(0, namesShown).map(({ pipe, destination }) => fullName(pipe, destination))
  const hidden = group.lanes.length - names.length
  const rest = hidden === 0 ? '' : ` and ${counted(hidden, 'more lane')}`
  return [
    ['need attention', `${groupLine(group)}: ${names.join(', ')}${rest}`],
    ['', group.advice],
  ]
}

function statusRows(
  { alerts, nowMs, lanes, groups, troubled, stale }: Found,
  status: ReturnType<typeof statusOf>,
): string[][] {
  const parking = lanes.filter(({ destination }) => (destination.lane.parked_records ?? 0) > 0)
  const drifting = lanes.filter(({ destination }) => (destination.lane.unmapped_keys ?? 0) > 0)
  return [
    ['daemon', `${status.url} (${status.health})`],
    ...status.not_ready_reasons.map((reason) => ['not ready', `${readyWords(reason)} (${reason})`]),
    ...status.warnings.map((warning) => ['warning', `${readyWords(warning)} (${warning})`]),
    ['private addresses', egressWords[status.egress_private] ?? status.egress_private],
    ...(status.cluster === null ? [] : clusterRows(status.cluster)),
    ['pipes', `${status.pipes_count}, ${status.paused_pipes_count} paused`],
    ['records in, 24 h', count(status.ingest_records_24h)],
    ['records delivered, 24 h', count(status.delivered_records_24h)],
    ['requests rejected, 24 h', count(status.rejected_requests_24h)],
    ['pending', `${counted(status.pending_messages, 'message')}, ${bytes(status.pending_bytes)}`],
    ['oldest pending', duration(status.oldest_pending_age_seconds)],
    ['lanes', `${status.lanes_count}, ${needAttention(troubled.length)}`],
    ...(alerts === null ? [] : [['alerts', alertsInWords(alerts, nowMs)]]),
    ...(status.replica === null ? [] : [['replica', replicaInWords(status.replica, nowMs)]]),
    ...(stale.length === 0 ? [] : [['stale', `${counted(stale.length, 'lane')}: ${staleWords}`]]),
    ...groups.flatMap(groupRows),
    ...parking.map(({ pipe, destination }) => [
      'parked',
      `${fullName(pipe, destination)}: ${count(destination.lane.parked_records ?? 0)}`,
    ]),
    ...drifting.map(({ pipe, destination }) => [
      'keys without column',
      `${fullName(pipe, destination)}: ${count(destination.lane.unmapped_keys ?? 0)}`,
    ]),
  ]
}
