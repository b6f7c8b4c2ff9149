/**
 * A node of the cluster, as the rest of its process sees it. `openClusterNode` (nodes.ts) makes it in main; the delivery
 * thread has its own part, `openPipeLeases` (leases.ts), over its own metadata connection.
 *
 *   openClusterNode ─▶ directory, delivery opened, listeners subscribed ─▶ join() ─▶ listen ─▶ … ─▶ close()
 *
 * Opened: the newest change is noted, so nothing that is read afterwards can be older. Joined: the changes made since are
 * applied, and from then on everybody who changes something waits for this node.
 */
import type { Changes } from '../metadata/changes.ts'
import type { ClusterStore, NodeRecord } from '../metadata/cluster-store.ts'
import type { Logger } from '../platform/log.ts'

export interface ClusterNodeOptions {
  store: ClusterStore
  /** `node.name`. */
  name: string
  version: string
  /** Where it listens, for people. */
  address: string | null
  log: Logger
  /** It cannot go on and must be started again: it was away for longer than changes are kept. */
  onFatal(error: Error): void
  /** This machine's clock, ms since the epoch. Default: Date.now. */
  now?: () => number
}

export interface ClusterNode {
  /** The id of this run of the process; it stays the same when the node had to join again. */
  readonly nodeId: string
  readonly name: string
  /**
   * One BigInt64: until when (`process.hrtime.bigint()`) this node may accept requests; 0: not at all. For every thread, read
   * with Atomics.
   */
  readonly liveness: SharedArrayBuffer
  /** The same, checked now. */
  readonly isLive: boolean
  readonly clock: ClusterClock
  /** `publish` resolves when every valid node has seen the change, this one first. */
  readonly changes: Changes
  /** Resolves once it has applied every change, and is valid. Rejects when the database cannot be reached. */
  join(): Promise<void>
  /** By pipe the node that delivers it; at most a second old, and never older than `freshSinceMs` (performance.now()). */
  owners(freshSinceMs?: number): Promise<ReadonlyMap<string, string>>
  /** All nodes, this one included. */
  nodes(): Promise<NodeRecord[]>
  /** Work that one node of all does, as long as it is valid: housekeeping, alerts. The same name, the same lease. */
  lease(duty: string): ClusterLease
  /** Leaves: others take over at once what it held. */
  close(): Promise<void>
}

export interface ClusterClock {
  /** The database's clock minus this machine's, ms; 0 until it is known. */
  readonly offsetMs: number
  /** The database's clock as far as it is known, ms since the epoch: for what people read, never for a decision. */
  now(): number
}

/** A duty of one node. */
export interface ClusterLease {
  /** Whether this node has it now; asks for it when nobody does. Checked before each run. */
  isMine(): Promise<boolean>
}
