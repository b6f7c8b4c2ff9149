/**
 * The state that nodes of a cluster share in the metadata database: the nodes, the changes that each has seen, and
 * the owner of each pipe. Kept by metadata as `metadata.cluster`.
 *
 * Time: every `…expires…` is set and compared by the database, with its own clock. A node never compares its clock
 * with another's. It measures its own leases on its monotonic clock, from before the request was sent, so it believes
 * in a lease for a shorter time than the database does.
 *
 * A lease that is over never comes back: the node that finds it expired removes its row (waiting for a renewal that
 * is under way, which then wins), a renewal of a removed row renews nothing, and the next lease has another id. A
 * removed row is therefore final, and it is the one condition under which another node may take the things that the
 * lease held.
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
/** So much before that its holder stops believing in it. */
export const leaseMarginMs = 1_000

export interface NodeEntry {
  /** Identifies one run of the process. */
  nodeId: string
  /** As configured; unique only if the operator sees to it. */
  name: string
  version: string
  /** Where it listens, for people; null: not known. */
  address: string | null
}

export interface NodeRecord extends NodeEntry {
  /** By the database's clock, ms since the epoch. */
  startedMs: number
  /** How long it is still valid; 0: expired, and nobody has removed it yet. */
  leftMs: number
  /** When its lease ends, or ended, by the database's clock: ms since the epoch. */
  expiresMs: number
  /** The newest change that it has applied, with all before. */
  seenChange: number
  /** It hands its pipes over and takes none. */
  isDraining: boolean
  /** It delivers: its delivery thread has a valid lease. */
  isDelivering: boolean
  ownedPipes: number
}

/** One change of metadata with its place: whoever has seen a number has missed none below it. */
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
  /** When the buffer answered it without a loss, by the database's clock; null: not known. */
  buffer: { fromMs: number; untilMs: number; isLost: boolean } | null
}

/** A pipe whose owner is gone, or that has none yet. */
export interface FreePipe {
  pipeId: string
  /** The lease of the owner that is gone: a takeover is a compare-and-set with it. */
  heldBy: string | null
}

/** The demand of the other nodes' clients, for the pipes that this node named. */
export interface QuotaDemand {
  /** Nodes with a valid lease. */
  nodes: number
  /** By pipe: the records per second of all other nodes that named the pipe, and how many these are. */
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

/** A part of a pipe's day that one node may accept. */
export interface QuotaBlock extends QuotaAmount {
  /** The sums that it was taken from; they begin again when limits are removed. */
  ledgerId: string
  /** All that is reserved of the day by all nodes, this block included. */
  reserved: QuotaAmount
  /** Until the UTC day ends, by the database's clock. */
  dayLeftMs: number
}

export interface ClusterStore {
  /** The database's clock, ms since the epoch. */
  now(): Promise<number>

  readonly nodes: {
    /** Joins under a new lease, having seen these changes. A node that is there already (its lease expired) is replaced. */
    join(node: NodeEntry, leaseId: string, seenChange: number, isDraining: boolean): Promise<void>
    /**
     * `forMs`: from now, at most `leaseMs`. Null: the lease expired or is gone, and with it everything that was held under it;
     * the node may join again.
     */
    renew(leaseId: string, forMs: number): Promise<{ isDraining: boolean } | null>
    /** The node has applied this change and all before. */
    seen(leaseId: string, seenChange: number): Promise<void>
    leave(leaseId: string): Promise<void>
    /** Those that are there, by name; one that ended without leaving for some seconds more. */
    list(): Promise<NodeRecord[]>
    /** False: no such node. */
    setDraining(nodeId: string, isDraining: boolean): Promise<boolean>
    /** Removes nodes whose lease is over. */
    removeExpired(): Promise<void>
  }

  readonly changes: {
    /** The number of the newest change; 0: there was none. */
    newest(): Promise<number>
    /** After that number, in order, at most `limit`. Null: some of them are no longer kept; everything must be read again. */
    since(seq: number, limit: number): Promise<NumberedChange[] | null>
    /** Whether a node other than this one that is valid has not seen it yet. */
    isAwaited(seq: number, exceptLeaseId: string): Promise<boolean>
    /** Removes those that every valid node has seen and that are older than this. */
    prune(olderThanMs: number): Promise<void>
    /**
     * Calls back when there may be something new: a change, or a node that has seen one. Best effort, from a connection of its
     * own: notifications may be lost, so whoever waits looks from time to time. Returns how to end it.
     */
    listen(onNotified: () => void): () => Promise<void>
  }

  readonly pipes: {
    /** The lease of a delivery thread. Earlier ones of the same node end: main runs one delivery thread at a time. */
    join(nodeId: string, leaseId: string, buffer?: BufferContact | null): Promise<void>
    /** How many pipes it holds; null: the lease expired or is gone, and with it every pipe. */
    renew(leaseId: string, buffer?: BufferContact | null): Promise<number | null>
    /** Ends the lease; its pipes are free. */
    leave(leaseId: string): Promise<void>
    /** Removes leases that are over. */
    removeExpired(): Promise<void>
    workers(): Promise<LiveWorker[]>
    /** Pipes that nobody holds; `pipeId`: whether that one is among them. */
    free(pipeId?: string): Promise<FreePipe[]>
    /** Takes those that are still as they were found, each with an epoch above all before. Hundreds at once, not thousands. */
    claim(leaseId: string, pipes: readonly FreePipe[]): Promise<OwnedPipe[]>
    /** The pipes that the lease holds. */
    held(leaseId: string): Promise<OwnedPipe[]>
    /** Gives one up. */
    release(leaseId: string, pipe: OwnedPipe): Promise<void>
    /** By pipe, the node that delivers it. A pipe that nobody holds is left out. */
    owners(): Promise<Map<string, string>>
  }

  /** Limits of pipes, for all nodes together. PostgreSQL only. */
  readonly quotas: {
    /**
     * Reserves `need` and some of `spare`, in one statement that never exceeds the limits as stored. The spare and what the node
     * holds unused are together a small part of what is left. Null: the pipe has no limits, or its day was not opened.
     */
    reserve(pipeId: string, ask: QuotaAsk): Promise<QuotaBlock | null>
    /** Begins the sums of the current day, if they have not begun, with the pipe's usage. */
    openDay(pipeId: string): Promise<void>
    /** Returns a part of a block. Ignored when the sums have begun again since. */
    returnBlock(pipeId: string, ledgerId: string, amount: QuotaAmount): Promise<void>
    /** Tells what this node's clients ask for, valid for some seconds; returns what the other nodes' clients ask for. */
    demand(nodeId: string, records: ReadonlyMap<string, number>): Promise<QuotaDemand>
    /** Deletes expired reports of demand, those of removed nodes included. */
    pruneDemand(): Promise<void>
  }

  /** Idempotency keys, for all nodes together. PostgreSQL only. */
  readonly keys: KeyStore

  /** The duties that one node does for all, each by its name. */
  readonly duties: {
    /** True: the node whose lease this is has it, from before or from now on. */
    claim(duty: string, leaseId: string): Promise<boolean>
    release(duty: string, leaseId: string): Promise<void>
  }
}

/** For code that runs in a cluster alone. */
export function requireShared({ cluster }: { cluster: ClusterStore | null }): ClusterStore {
  if (cluster === null) throw new Error('no other process shares this metadata')
  return cluster
}
