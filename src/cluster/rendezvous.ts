/**
 * Which node delivers which pipe: the one with the highest score of all that are there (rendezvous hashing). Every node
 * computes the same from the same list, pipes are spread evenly, and a node that comes or goes moves its share alone.
 */
import { createHash } from 'node:crypto'

/** Null: there are no nodes. `nodeIds` in any order. */
export function ownerOf(pipeId: string, nodeIds: readonly string[]): string | null {
  let owner: string | null = null
  let highest = ''
  for (const nodeId of nodeIds) {
    const score = createHash('sha1').update(nodeId).update(pipeId).digest('hex')
    if (owner !== null && score <= highest) continue
    owner = nodeId
    highest = score
  }
  return owner
}
