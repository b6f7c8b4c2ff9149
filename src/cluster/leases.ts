/**
 * Which pipes this node delivers: the delivery thread's part of the cluster.
 */
import type { LaneOwnership } from '../delivery/lane-ownership.ts'
import type { Logger } from '../log.ts'
import type { ClusterStore } from './cluster-store.ts'

export interface PipeLeasesOptions {
  /** Over the thread's own metadata connection. */
  store: ClusterStore
  /** `ClusterNode.nodeId`: main gives it to the thread. */
  nodeId: string
  log: Logger
}

export interface PipeLeases extends LaneOwnership {
  /** Every pipe that this node shall deliver, in any order, as of now. */
  readonly ownedPipes: ReadonlyMap<string, number>
  /** Frees every pipe: after the lanes were closed, so the rows are saved. */
  close(): Promise<void>
}

/** Resolves when it holds its share of the pipes, so that the lanes can be opened. Rejects when the database cannot be reached. */
export type OpenPipeLeases = (options: PipeLeasesOptions) => Promise<PipeLeases>
