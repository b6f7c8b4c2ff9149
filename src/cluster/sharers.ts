/**
 * Decides which nodes share the pipes and which node delivers which pipe. Every node computes the same result from the
 * reports that come with all lease renewals.
 *
 * A node that has lost the buffer has no share while another node still reaches it; otherwise the records of its pipes
 * would wait until it reconnects. It releases its pipes by ending its lease (leases.ts). What happens when …
 *
 *   one node loses NATS                   it has no share after about 5 s: another node's responses must be at least 3 s newer
 *   NATS comes and goes at one node       it keeps its pipes through gaps under 2.5 s; after a longer one it has no share until NATS has
 *                                         answered for 10 s
 *   all lose NATS                         their last responses are less than 3 s apart, so every node keeps its share
 *   all get it back, one before another   the first one's responses count only from then on, so it needs 3 s too
 *   PostgreSQL says nothing               no lease is renewed, and lanes stop before their lease expires, whatever NATS does
 *   the node that took over is gone       its report is removed with its lease, so the disconnected node gets its share back
 *
 * A node that released a pipe this way has lost it. Its pending saves carry the old epoch: they succeed until the next
 * owner has read the row, which raises the epoch, and are rejected afterwards.
 */
import { createHash } from 'node:crypto'
import type { LiveWorker } from '../metadata/cluster-store.ts'

/**
 * How much newer another node's response must be. Two nodes that lose NATS together stop within a second or two of each
 * other.
 */
export const outlastsMs = 3_000

/**
 * The ids of the sharing nodes. If all nodes are draining or would have no share, all of them share, because there is no
 * other node.
 */
export function sharersOf(workers: readonly LiveWorker[]): string[] {
  const reaching = workers.filter((one) => !isCutOff(one, workers))
  const staying = reaching.filter(({ isDraining }) => !isDraining)
  return (staying.length > 0 ? staying : reaching).map(({ nodeId }) => nodeId)
}

/** True when the worker has lost the buffer while another one reached it. */
export function isCutOff({ buffer }: LiveWorker, workers: readonly LiveWorker[]): boolean {
  if (buffer === null || !buffer.isLost) return false
  return workers.some(
    ({ buffer: other }) =>
      other !== null && other.untilMs - Math.max(other.fromMs, buffer.untilMs) >= outlastsMs,
  )
}

/**
 * The node that delivers a pipe: the sharing node with the highest score (rendezvous hashing). Pipes are spread evenly,
 * and a joining or leaving node moves only its own share. Null without nodes. `nodeIds` can be in any order.
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
