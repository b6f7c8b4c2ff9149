/**
 * The interface of this cluster node within its process. `openClusterNode` (nodes.ts) creates it in main; the delivery
 * thread has its own part, `openPipeLeases` (leases.ts), with its own metadata connection.
 *
 *   openClusterNode ─▶ directory, delivery opened, listeners subscribed ─▶ join() ─▶ listen ─▶ … ─▶ close()
 *
 * Opening records the newest change, so that everything read afterwards is at least as new. Joining applies the changes
 * since then; from then on, every node that makes a change waits for this node.
 */
import type { Changes } from '../metadata/changes.ts'
import type { ClusterStore, NodeRecord } from '../metadata/cluster-store.ts'
import type { Logger } from '../platform/log.ts'

export interface ClusterNodeOptions {
  store: ClusterStore
  /** `node.name`. */
  name: string
  version: string
  /** The address of its listener, for people. */
  address: string | null
  log: Logger
  /** The node must be restarted: it was away for longer than changes are kept. */
  onFatal(error: Error): void
  /** This machine's clock, ms since the epoch. Default: Date.now. */
  now?: () => number
}

export interface ClusterNode {
  /** The id of this run of the process. It stays the same when the node has to join again. */
  readonly nodeId: string
  readonly name: string
  /**
   * One BigInt64, read with Atomics by every thread: the time (`process.hrtime.bigint()`) until which this node can
   * accept requests; 0 when it cannot.
   */
  readonly liveness: SharedArrayBuffer
  /** The same, checked now. */
  readonly isLive: boolean
  readonly clock: ClusterClock
  /** `publish` resolves when every valid node, starting with this one, has seen the change. */
  readonly changes: Changes
  /** Resolves when it has applied every change and is valid. Rejects when the database cannot be reached. */
  join(): Promise<void>
  /** The delivering node by pipe; at most a second old, and never older than `freshSinceMs` (performance.now()). */
  owners(freshSinceMs?: number): Promise<ReadonlyMap<string, string>>
  /** All nodes including this one. */
  nodes(): Promise<NodeRecord[]>
  /** A duty that one node does for all while it is valid, such as housekeeping and alerts. Equal names share one lease. */
  lease(duty: string): ClusterLease
  /** Leaves the cluster: other nodes take over immediately. */
  close(): Promise<void>
}

export interface ClusterClock {
  /** The database's clock minus this machine's, ms; 0 until it is known. */
  readonly offsetMs: number
  /** The database's clock as far as it is known, ms since the epoch. For people, never for a decision. */
  now(): number
}

/** A duty of one node. */
export interface ClusterLease {
  /** True when this node has the duty; tries to take a free one. Call it before each run. */
  isMine(): Promise<boolean>
}
