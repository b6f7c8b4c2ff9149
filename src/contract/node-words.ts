/** The states of a cluster node. Free of schemas, because programs and pages use it too. */

export const nodeStates = ['live', 'draining', 'expired'] as const
export type NodeState = (typeof nodeStates)[number]
