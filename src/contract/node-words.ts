/** What a node of a cluster can be. Without schemas: programs and pages use it too. */

export const nodeStates = ['live', 'draining', 'expired'] as const
export type NodeState = (typeof nodeStates)[number]
