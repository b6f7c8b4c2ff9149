/** The first lines: the daemon, how much it has, whether anything needs attention, and the nodes of a cluster. */
import { Text } from 'ink'
import type { AlertsShown } from '../../contract/alerts.ts'
import type { OverviewCluster, OverviewNode } from '../../contract/overview.ts'
import { needAttention, needsAttention } from '../../contract/state-words.ts'
import { count, counted } from '../../platform/quantities.ts'
import { areAlertsFailing } from '../client/alerts.ts'
import { unownedInWords } from '../client/cluster.ts'
import { printable } from '../client/printable.ts'
import type { Feed } from './use-snapshot.ts'

export function Header(props: {
  url: string
  feed: Feed
  alerts: AlertsShown | null
  readOnly: boolean
  wiped: number
}) {
  const { snapshot, staleBecause } = props.feed
  const nowMs = Date.parse(snapshot?.server_ts ?? '')
  const lanes = snapshot?.pipes.flatMap((one) => one.lanes) ?? []
  const stale = lanes.filter((one) => one.lane.stale === true).length
  const troubled = lanes.filter((one) => needsAttention(one, nowMs)).length
  const pending = snapshot?.pipes.reduce((sum, one) => sum + one.pending_messages, 0) ?? 0
  return (
    <Text wrap="truncate">
      <Text bold>pipectl</Text>
      {/* A space of another kind every second time; see `wiped`. */}
      {props.wiped % 2 === 0 ? ' ' : '\u00a0'}
      {staleBecause === null ? null : (
        <Text inverse color="red">
          {' STALE '}
        </Text>
      )}
      {staleBecause === null ? null : <Text color="red">{` ${staleBecause} `}</Text>}
      {props.readOnly ? <Text color="yellow">[read-only] </Text> : null}
      {`${props.url}  ${counted(snapshot?.pipes.length ?? 0, 'pipe')}  ${counted(lanes.length, 'lane')}  `}
      <Text color={troubled > 0 ? 'red' : 'green'}>{needAttention(troubled)}</Text>
      {`  ${count(pending)} pending`}
      <AlertsWord alerts={props.alerts} />
      {stale === 0 ? null : <Text color="yellow">{`  ${stale} stale: delivery does not respond`}</Text>}
    </Text>
  )
}

/** Short where all is well: a narrow terminal cuts the line. */
function AlertsWord({ alerts }: { alerts: AlertsShown | null }) {
  if (alerts === null) return null
  if (alerts.alerts === null) return <Text dimColor>{'  no alerts'}</Text>
  const failure = areAlertsFailing(alerts) ? alerts.status?.last_failure : null
  if (!failure) return <Text dimColor>{'  alerts on'}</Text>
  return <Text color="yellow">{`  alerts not sent: ${printable(failure.message)}`}</Text>
}

const signs: Record<OverviewNode['node_state'], { sign: string; colour: string }> = {
  live: { sign: '●', colour: 'green' },
  draining: { sign: '▲', colour: 'yellow' },
  expired: { sign: '■', colour: 'red' },
}

/** Short, because three nodes must fit into 80 columns. */
export function ClusterLine({ cluster }: { cluster: OverviewCluster }) {
  const unowned = unownedInWords(cluster)
  return (
    <Text wrap="truncate">
      nodes
      {cluster.nodes.map((node, at) => (
        // Two nodes can briefly have the same name: one that was killed, and its successor.
        // biome-ignore lint/suspicious/noArrayIndexKey: nothing is kept in them
        <Node key={at} node={node} />
      ))}
      {unowned === null ? null : <Text color="yellow">{`  ${unowned}`}</Text>}
    </Text>
  )
}

/** The node that responded is bold. */
function Node({ node }: { node: OverviewNode }) {
  const { node_name, node_state, owned_pipes, is_this } = node
  const { sign, colour } = signs[node_state]
  return (
    <Text>
      {'  '}
      <Text color={colour}>{sign}</Text> <Text bold={is_this}>{printable(node_name)}</Text> {owned_pipes}
      {node_state === 'live' ? '' : <Text color={colour}>{` ${node_state}`}</Text>}
    </Text>
  )
}
