/** The first lines: the daemon, which problems its lanes have, and the nodes of a cluster. */
import { Text } from 'ink'
import type { AlertsShown } from '../../contract/alerts.ts'
import type { OverviewCluster, OverviewLane, OverviewNode } from '../../contract/overview.ts'
import type { ReplicaFacts } from '../../contract/replica-facts.ts'
import { laneWord } from '../../contract/state-words.ts'
import { count, counted } from '../../platform/quantities.ts'
import { areAlertsFailing } from '../client/alerts.ts'
import { unownedInWords } from '../client/cluster.ts'
import { printable } from '../client/printable.ts'
import { isReplicaBehind, stateInWords } from '../client/replica.ts'
import { stateMarks } from './state-marks.ts'
import type { Feed } from './use-snapshot.ts'

interface Part {
  text: string
  colour?: string
  dim?: boolean
  inverse?: boolean
  /** The part with the highest number is omitted first on a narrow terminal. */
  gives: number
}

export interface HeaderProps {
  url: string
  feed: Feed
  alerts: AlertsShown | null
  readOnly: boolean
  wiped: number
  width: number
}

export function Header(props: HeaderProps) {
  return (
    <Text wrap="truncate">
      <Text bold>pipectl</Text>
      {fitting(partsOf(props), props.width - 'pipectl'.length).map(
        ({ text, colour, dim, inverse }, index) => (
          <Text key={text}>
            {/* A space of another kind every second time; see `wiped`. */}
            {index === 0 && props.wiped % 2 === 1 ? '\u00a0' : ' '}
            {index === 0 ? '' : ' '}
            <Text color={colour} dimColor={dim} inverse={inverse}>
              {text}
            </Text>
          </Text>
        ),
      )}
    </Text>
  )
}

function partsOf({ url, feed, alerts, readOnly }: HeaderProps): Part[] {
  const { snapshot, staleBecause } = feed
  const lanes = snapshot?.pipes.flatMap((one) => one.lanes) ?? []
  const stale = lanes.filter((one) => one.lane.stale === true).length
  const pending = snapshot?.pipes.reduce((sum, one) => sum + one.pending_messages, 0) ?? 0
  const counts = [
    { text: `${count(pending)} pending`, gives: 2 },
    { text: counted(snapshot?.pipes.length ?? 0, 'pipe'), gives: 4 },
    { text: counted(lanes.length, 'lane'), gives: 5 },
  ]
  return [
    ...(staleBecause === null
      ? []
      : [
          { text: ' STALE ', colour: 'red', inverse: true, gives: 0 },
          { text: staleBecause, colour: 'red', gives: 0 },
        ]),
    ...(readOnly ? [{ text: '[read-only]', colour: 'yellow', gives: 0 }] : []),
    { text: url, gives: 1 },
    ...(snapshot === null ? [] : [...problemParts(lanes), ...counts]),
    ...replicaParts(snapshot?.service.replica ?? null),
    ...alertParts(alerts),
    ...(stale === 0
      ? []
      : [
          { text: `${stale} stale:`, colour: 'yellow', gives: 3 },
          { text: 'delivery does not respond', colour: 'yellow', gives: 7 },
        ]),
  ]
}

const problems = ['stuck', 'retrying', 'blocked'] as const

/** Stuck lanes wait for the user; retrying ones continue by themselves. */
function problemParts(lanes: readonly OverviewLane[]): Part[] {
  const words = lanes.map(laneWord)
  const found = problems.flatMap((word) => {
    const lanesIn = words.filter((one) => one === word).length
    const { sign, colour } = stateMarks[word]
    return lanesIn === 0 ? [] : [{ text: `${sign} ${count(lanesIn)} ${word}`, colour, gives: 0 }]
  })
  return found.length > 0 ? found : [{ text: 'no problems', colour: 'green', gives: 0 }]
}

/** Only when the loss of the machine would lose something. */
function replicaParts(replica: ReplicaFacts | null): Part[] {
  if (replica === null || !isReplicaBehind(replica)) return []
  return [{ text: `replica: ${printable(stateInWords(replica))}`, colour: 'yellow', gives: 3 }]
}

function alertParts(alerts: AlertsShown | null): Part[] {
  if (alerts === null) return []
  if (alerts.alerts === null) return [{ text: 'no alerts', dim: true, gives: 6 }]
  const failure = areAlertsFailing(alerts) ? alerts.status?.last_failure : null
  if (!failure) return [{ text: 'alerts on', dim: true, gives: 6 }]
  return [
    { text: 'alerts not sent:', colour: 'yellow', gives: 3 },
    { text: printable(failure.message), colour: 'yellow', gives: 7 },
  ]
}

/** The parts for which there is room. The last one that is kept can be cut by the terminal. */
function fitting(parts: readonly Part[], width: number): Part[] {
  const kept = [...parts]
  const room = () => width - kept.reduce((sum, { text }) => sum + text.length + 2, -1)
  const mostGiving = () => kept.reduce((a, b) => (b.gives > a.gives ? b : a))
  while (kept.length > 1 && room() < 0 && mostGiving().gives > 0) kept.splice(kept.indexOf(mostGiving()), 1)
  return kept
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
  const { sign, colour } = stateMarks[node_state]
  return (
    <Text>
      {'  '}
      <Text color={colour}>{sign}</Text> <Text bold={is_this}>{printable(node_name)}</Text> {owned_pipes}
      {node_state === 'live' ? '' : <Text color={colour}>{` ${node_state}`}</Text>}
    </Text>
  )
}
