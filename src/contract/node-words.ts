/** The states of a node of a cluster. Free of schemas: programs and pages use it too. */

export const nodeStates = ['live', 'draining', 'expired'] as const
export type NodeState = (typeof nodeStates)[number]
