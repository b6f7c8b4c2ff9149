/** The nodes of the cluster: which are live, and how many pipes each delivers. */
import type { OverviewCluster, OverviewNode } from '../../../../contract/overview.ts'
import { count } from '../../../../platform/quantities.ts'
import { nodeInWords, unownedInWords } from '../../../client/cluster.ts'
import { Notice, Section, Soft, Table } from '../../ui/layout.tsx'
import { Marked } from '../../ui/state.tsx'
import { Outside } from '../../ui/text.tsx'

const tones = { live: 'good', draining: 'warn', expired: 'bad' } as const

const columns = [
  {
    label: 'Node',
    cell: ({ node_name, is_this }: OverviewNode) => (
      <>
        <Outside text={node_name} /> {is_this ? <Soft>serves this page</Soft> : null}
      </>
    ),
  },
  {
    label: 'State',
    cell: ({ node_state }: OverviewNode) => <Marked tone={tones[node_state]}>{node_state}</Marked>,
  },
  { label: 'Pipes', cell: ({ owned_pipes }: OverviewNode) => count(owned_pipes), isNumber: true },
]

export function Cluster({ cluster }: { cluster: OverviewCluster }) {
  const unowned = unownedInWords(cluster)
  // Two nodes can briefly have the same name: one that was killed, and its successor.
  const places = new Map(cluster.nodes.map((node, at) => [node, String(at)]))
  return (
    <Section title="Cluster">
      {cluster.nodes
        .filter(({ node_state }) => node_state !== 'live')
        .map((node) => (
          <Notice key={places.get(node)} kind={node.node_state === 'expired' ? 'bad' : 'warn'}>
            <Outside text={node.node_name} />: {nodeInWords(node)}.
            {node.node_state === 'expired'
              ? ' It stopped without notice or is disconnected. Other nodes take over its pipes within seconds.'
              : null}
          </Notice>
        ))}
      {unowned === null ? null : (
        <Notice kind="warn">{unowned}: their records are accepted and wait to be delivered.</Notice>
      )}
      <Table
        caption="Nodes"
        columns={columns}
        rows={cluster.nodes}
        keyOf={(node) => places.get(node) ?? node.node_name}
      />
    </Section>
  )
}
