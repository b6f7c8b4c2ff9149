/**
 * The state that the nodes of a cluster share in the metadata database: the nodes, the changes that each has applied,
 * and the owner of each pipe. Available as `metadata.cluster`.
 *
 * Time: every `…expires…` is set and compared by the database, with its own clock. A node never compares its clock with
 * that of another node. It measures its own leases on its monotonic clock, starting before the request was sent. So it
 * considers a lease valid for a shorter time than the database does.
 *
 * An expired lease never becomes valid again. The node that finds it expired removes its row. If a renewal is in
 * progress, the removal waits for it and the renewal wins. Renewing a removed row has no effect, and the next lease has
 * another id. Another node can take over what a lease held only once its row is removed.
 *
 *   lease of a node      ── heartbeat of main: accepts requests, holds duties
 *   lease of a worker    ── heartbeat of the delivery thread: holds pipes
 */
import type { BufferContact } from '../log/buffer.ts'
import type { KeyStore } from '../log/key-store.ts'
import type { Change } from './changes.ts'

export type { BufferContact }

/** How long a lease is valid after it was renewed, by the database's clock. */
export const leaseMs = 6_000
/** The holder of a lease considers it expired this much earlier than the database does. */
export const leaseMarginMs = 1_000

export interface NodeEntry {
  /** Identifies one run of the process. */
  nodeId: string
  /** As configured. Nothing checks that it is unique. */
  name: string
  version: string
  /** The address the node listens on, for display only; null: unknown. */
  address: string | null
}

export interface NodeRecord extends NodeEntry {
  /** By the database's clock, ms since the epoch. */
  startedMs: number
  /** The remaining time of its lease in ms; 0: expired, and its row is not removed yet. */
  leftMs: number
  /** When its lease expires or expired, by the database's clock: ms since the epoch. */
  expiresMs: number
  /** The newest change that the node has applied; it has applied all earlier ones as well. */
  seenChange: number
  /** The node hands its pipes over and takes no new ones. */
  isDraining: boolean
  /** The node's delivery thread has a valid lease. */
  isDelivering: boolean
  ownedPipes: number
}

/** A node that ended without leaving the cluster. */
export type LostNode = Pick<NodeEntry, 'nodeId' | 'name'>

/**
 * A change of metadata with its number. Changes become visible in the order of their numbers: a reader that has seen a
 * number has seen all lower ones.
 */
export interface NumberedChange {
  seq: number
  change: Change
}

export interface OwnedPipe {
  pipeId: string
  /** Grows with every change of owner. */
  epoch: number
}

/** A delivery thread with a valid lease. */
export interface LiveWorker {
  leaseId: string
  nodeId: string
  isDraining: boolean
  /** When the buffer last responded to this worker without a loss, by the database's clock; null: unknown. */
  buffer: { fromMs: number; untilMs: number; isLost: boolean } | null
}

/** A pipe without an owner: its owner's lease expired, or it never had one. */
export interface FreePipe {
  pipeId: string
  /** The lease of the previous owner. A takeover compares and sets it. */
  heldBy: string | null
}

/** The demand of the other nodes' clients, for the pipes that the caller named. */
export interface QuotaDemand {
  /** The number of nodes with a valid lease. */
  nodes: number
  /** By pipe: the records per second of all other nodes that named the pipe, and the number of those nodes. */
  others: ReadonlyMap<string, { records: number; nodes: number }>
}

export interface QuotaAmount {
  records: number
  bytes: number
}

export interface QuotaAsk {
  need: QuotaAmount
  spare: QuotaAmount
  held: QuotaAmount
}

/** A part of a pipe's daily quota that one node may accept. */
export interface QuotaBlock extends QuotaAmount {
  /** Identifies the sums that the block was taken from. They start again when limits are removed. */
  ledgerId: string
  /** Reserved for the day by all nodes, this block included. */
  reserved: QuotaAmount
  /** The time left until the UTC day ends, in ms, by the database's clock. */
  dayLeftMs: number
}

export interface ClusterStore {
  /** The database's clock, ms since the epoch. */
  now(): Promise<number>

  readonly nodes: {
    /**
     * Adds the node under a new lease, with the newest change that it has applied. An entry of the same node with an
     * expired lease is replaced.
     */
    join(node: NodeEntry, leaseId: string, seenChange: number, isDraining: boolean): Promise<void>
    /**
     * `forMs`: valid for this long from now, at most `leaseMs`. Null: the lease expired or was removed, and everything
     * held under it is lost. The node can join again.
     */
    renew(leaseId: string, forMs: number): Promise<{ isDraining: boolean } | null>
    /** Records that the node has applied this change and all earlier ones. */
    seen(leaseId: string, seenChange: number): Promise<void>
    leave(leaseId: string): Promise<void>
    /** Returns the nodes by name, including those that ended without leaving some seconds ago. */
    list(): Promise<NodeRecord[]>
    /** False: there is no such node. */
    setDraining(nodeId: string, isDraining: boolean): Promise<boolean>
    /** Removes nodes with an expired lease, and remembers them as lost. */
    removeExpired(): Promise<void>
    /**
     * Returns the nodes that were removed within the last hour because their lease expired. A node that leaves is none
     * of them. A node that joins again, or another one with its name, removes it from the list.
     */
    lost(): Promise<LostNode[]>
  }

  readonly changes: {
    /** Returns the number of the newest change; 0: there is none yet. */
    newest(): Promise<number>
    /**
     * Returns at most `limit` changes after that number, in order. Null: some are no longer kept, and everything must
     * be read again.
     */
    since(seq: number, limit: number): Promise<NumberedChange[] | null>
    /** True if another node with a valid lease has not applied this change yet. */
    isAwaited(seq: number, exceptLeaseId: string): Promise<boolean>
    /** Removes older changes that every node with a valid lease has applied. */
    prune(olderThanMs: number): Promise<void>
    /**
     * Calls back when there may be a new change, or a node has applied one. Notifications use a connection of their own
     * and can be lost, so callers must poll as well. Returns a function that stops listening.
     */
    listen(onNotified: () => void): () => Promise<void>
  }

  readonly pipes: {
    /**
     * Adds a lease for a delivery thread. Earlier leases of the same node end, because main runs one delivery thread at
     * a time.
     */
    join(lease: { nodeId: string; leaseId: string }, buffer?: BufferContact | null): Promise<void>
    /** Returns the number of pipes held. Null: the lease expired or was removed, and every pipe with it. */
    renew(leaseId: string, buffer?: BufferContact | null): Promise<number | null>
    /** Ends the lease and frees its pipes. */
    leave(leaseId: string): Promise<void>
    /** Removes expired leases. */
    removeExpired(): Promise<void>
    workers(): Promise<LiveWorker[]>
    /** Returns the pipes without an owner. `pipeId`: only that pipe, if it has none. */
    free(pipeId?: string): Promise<FreePipe[]>
    /**
     * Claims those pipes that have not changed since `free` returned them, each under a new and higher epoch. Meant for
     * hundreds of pipes per call, not thousands.
     */
    claim(leaseId: string, pipes: readonly FreePipe[]): Promise<OwnedPipe[]>
    /** Returns the pipes held under the lease. */
    held(leaseId: string): Promise<OwnedPipe[]>
    /** Releases one pipe. */
    release(leaseId: string, pipe: OwnedPipe): Promise<void>
    /** Returns, by pipe, the node that delivers it. Pipes without an owner are left out. */
    owners(): Promise<Map<string, string>>
  }

  /** Limits of pipes, shared by all nodes. PostgreSQL only. */
  readonly quotas: {
    /**
     * Reserves `need` and a part of `spare`, in one statement that never exceeds the stored limits. The spare and the
     * node's unused reservation are together a small part of what is left. Null: the pipe has no limits, or `openDay`
     * was not called.
     */
    reserve(pipeId: string, ask: QuotaAsk): Promise<QuotaBlock | null>
    /** Creates the sums of the current day from the pipe's usage, if they do not exist. */
    openDay(pipeId: string): Promise<void>
    /** Returns a part of a block. Ignored if the sums have started again since. */
    returnBlock(block: { pipeId: string; ledgerId: string }, amount: QuotaAmount): Promise<void>
    /**
     * Stores the demand of this node's clients, valid for some seconds. Returns the demand of the other nodes' clients.
     */
    demand(nodeId: string, records: ReadonlyMap<string, number>): Promise<QuotaDemand>
    /** Deletes expired reports of demand, those of removed nodes included. */
    pruneDemand(): Promise<void>
  }

  /** Idempotency keys, shared by all nodes. PostgreSQL only. */
  readonly keys: KeyStore

  /** Named duties that one node does for all of them. */
  readonly duties: {
    /** True: the node with this lease has the duty, from before or from now on. */
    claim(duty: string, leaseId: string): Promise<boolean>
    release(duty: string, leaseId: string): Promise<void>
  }
}

/** For code that runs only in a cluster. */
export function requireShared({ cluster }: { cluster: ClusterStore | null }): ClusterStore {
  if (cluster === null) throw new Error('this metadata is not shared by a cluster')
  return cluster
}
