/**
 * The nodes that ended without leaving, for display only: one setting per node. The node that removes an expired lease
 * stores it in the same transaction, so every node knows whether another one left or was lost. A remaining lease time
 * does not tell: on a busy machine a node can leave when its lease has almost ended.
 */
import type { LostNode } from '../../metadata/cluster-store.ts'
import { deleteSetting, putSetting } from '../../metadata/move-state.ts'
import type { ClusterNodeRow } from '../../metadata/tables.ts'
import type { Connection } from '../../metadata/transactions.ts'
import type { DatabaseClock } from './statements.ts'

const keptMs = 3_600_000
const prefix = 'lost-node:'

interface StoredNode {
  name: string
  /** When its lease expired, by the database's clock. */
  expiredMs: number
}

/** `removed`: the rows of the expired leases. */
export async function noteLostNodes(
  trx: Connection,
  removed: readonly Pick<ClusterNodeRow, 'node_id' | 'node_name' | 'expires_ms'>[],
): Promise<void> {
  if (removed.length === 0) return
  const newestMs = Math.max(...removed.map((one) => one.expires_ms))
  await forgetLostNodes(trx, ({ expiredMs }) => expiredMs < newestMs - keptMs)
  for (const { node_id, node_name: name, expires_ms: expiredMs } of removed)
    await putSetting(trx, prefix + node_id, { name, expiredMs } satisfies StoredNode)
}

export async function forgetLostNodes(
  trx: Connection,
  isForgotten: (one: LostNode & StoredNode) => boolean,
): Promise<void> {
  for (const one of await stored(trx)) if (isForgotten(one)) await deleteSetting(trx, prefix + one.nodeId)
}

/** Those of the last hour. */
export async function lostNodes(db: Connection, clock: DatabaseClock): Promise<LostNode[]> {
  const all = await stored(db)
  if (all.length === 0) return []
  const { now_ms } = await db.selectNoFrom(clock().as('now_ms')).executeTakeFirstOrThrow()
  return all.filter(({ expiredMs }) => expiredMs > now_ms - keptMs)
}

async function stored(db: Connection): Promise<(LostNode & StoredNode)[]> {
  const rows = await db
    .selectFrom('metadata_settings')
    .selectAll()
    .where('name', 'like', `${prefix}%`)
    .orderBy('name')
    .execute()
  return rows.map(({ name, value }) => ({
    nodeId: name.slice(prefix.length),
    ...(JSON.parse(value) as StoredNode),
  }))
}
