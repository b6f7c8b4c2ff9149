import t from 'tap'
import { clusterOf, nodeInWords, unownedInWords } from '../../../src/apps/client/cluster.ts'
import type { OverviewNode } from '../../../src/contract/overview.ts'

const node = (node_state: OverviewNode['node_state'], owned_pipes: number): OverviewNode => ({
  ...{ node_name: 'a', node_state, owned_pipes, is_this: false },
})

t.test('one machine, and a daemon that is older than clusters, have none', async (t) => {
  t.equal(clusterOf({ cluster: null }), null)
  t.equal(clusterOf({}), null)
})

t.test('what a node has, or what is wrong with it', async (t) => {
  t.equal(nodeInWords(node('live', 1)), '1 pipe')
  t.equal(nodeInWords(node('draining', 2)), 'draining, 2 pipes left')
  t.equal(nodeInWords(node('draining', 0)), 'draining, no pipes left')
  t.equal(nodeInWords(node('expired', 2)), 'expired, 2 pipes to take over')
  t.equal(nodeInWords(node('expired', 0)), 'expired')
  t.equal(unownedInWords({ nodes: [], unowned_pipes: 2 }), '2 pipes without a node')
  t.equal(unownedInWords({ nodes: [], unowned_pipes: 0 }), null)
})
