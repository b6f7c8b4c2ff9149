/**
 * Which nodes share the pipes, and which of them delivers which. Every node computes this alike, from what all of them report with the renewals of their leases.
 *
 * A node that has lost the buffer has no share while there is another one that reached it in the meantime: records of its pipes would wait
 * for as long as it is cut off. It gives its pipes up by ending its lease (leases.ts). What happens when …
 *
 *   one node loses NATS                   it has no share after about 5 s: another node's answers must outlast its own by 3 s
 *   NATS comes and goes at one node       it keeps its pipes through gaps under 2.5 s; after a longer one it has no share until NATS has
 *                                         answered for 10 s
 *   all lose NATS                         their last answers are less than 3 s apart, so every node keeps its share
 *   all get it back, one before another   the first one's answers count from then on only, so it needs 3 s, too
 *   PostgreSQL says nothing               no lease is renewed, and lanes stop before their lease ends, whatever NATS does
 *   the node that took over is gone       what it reported goes with its lease, so the node that is cut off gets its share back
 *
 * A node that gave a pipe up is one that lost it: saves that are still under way carry its epoch. They count until the next owner has
 * read the row, which raises the epoch, and are rejected from then on.
 */
import { createHash } from 'node:crypto'
import type { LiveWorker } from '../metadata/cluster-store.ts'

/** How much later another node must have had an answer. Two nodes that lose NATS together stop a second or two apart. */
export const outlastsMs = 3_000

/** The ids of the nodes. When all of them drain, or would have no share, there is no other node that could have it. */
export function sharersOf(workers: readonly LiveWorker[]): string[] {
  const reaching = workers.filter((one) => !isCutOff(one, workers))
  const staying = reaching.filter(({ isDraining }) => !isDraining)
  return (staying.length > 0 ? staying : reaching).map(({ nodeId }) => nodeId)
}

/** Whether the worker has lost the buffer while another one reached it. */
export function isCutOff({ buffer }: LiveWorker, workers: readonly LiveWorker[]): boolean {
  if (buffer === null || !buffer.isLost) return false
  return workers.some(
    ({ buffer: other }) =>
      other !== null && other.untilMs - Math.max(other.fromMs, buffer.untilMs) >= outlastsMs,
  )
}

/**
 * The node that delivers a pipe: the one with the highest score of all that share the pipes (rendezvous hashing). Pipes are spread
 * evenly, and a node that comes or goes moves its share alone. Null: there are no nodes. `nodeIds` in any order.
 */
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
