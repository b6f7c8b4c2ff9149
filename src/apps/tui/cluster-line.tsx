/** The nodes of a cluster on one line: which are live, how many pipes each has, which has expired. */
import { Text } from 'ink'
import type { OverviewCluster, OverviewNode } from '../../contract/overview.ts'
import { unownedInWords } from '../client/cluster.ts'
import { printable } from '../client/printable.ts'

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
