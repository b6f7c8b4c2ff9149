/** The dependencies of the use cases of management. */
import type { DestinationType } from '../../contract/destination.ts'
import type { NodeState } from '../../contract/node-words.ts'
import type { Overview } from '../../contract/overview.ts'
import type { DestinationTrials, LaneCommands, LaneViews } from '../../delivery/delivery.ts'
import type { QueryProcesses } from '../../destinations/sqlite/query-processes.ts'
import type { PipeReplays } from '../../ingest/parked/replays.ts'
import type { StoredAlerts } from '../../metadata/alerts.ts'
import type { Changes } from '../../metadata/changes.ts'
import type { Passwords } from '../../metadata/password-hash.ts'
import type { Metadata } from '../../metadata/store.ts'
import type { IngestCounts } from '../../metadata/usage.ts'
import type { History } from '../../observe/history/history.ts'

export interface ManagementDeps {
  metadata: Metadata
  passwords: Passwords
  laneViews: LaneViews
  laneCommands: LaneCommands
  /** Replays of records parked at a pipe. */
  pipeReplays: PipeReplays
  trials: DestinationTrials
  /** Queries on the files of SQLite destinations. */
  tableQueries: Pick<QueryProcesses, 'run'>
  /** Reads messages of the buffer for users. */
  history: History
  /**
   * Publishes durable changes to the directory and the lanes, which have subscribed. `publish` resolves when requests
   * and lanes see the change.
   */
  changes: Changes
  /** The newest committed seq of the buffer: where a destination that starts "now" begins. */
  headSeq: () => Promise<number>
  /**
   * Checks a config that is about to be saved against the egress policy. Null if it is allowed, otherwise the key at
   * fault and the reason.
   */
  checkTarget: (type: DestinationType, config: Record<string, unknown>) => [string, string] | null
  /** Whether loopback and private addresses are currently denied. */
  isPrivateDenied: () => boolean
  /** Called with the workspace of users whose sessions have ended. */
  usersChanged: (workspaceId: string) => void
  now: () => number
  /** The totals that this process has ingested: by pipe, then by worker. */
  ingestTotals: () => ReadonlyMap<
    string,
    ReadonlyMap<number, { requests: number; records: number; bytes: number; rejected: number }>
  >
  /** The facts about the daemon, which are the same for every workspace. */
  serviceFacts: () => Promise<ServiceFacts>
  /** Sends a test alert and returns the outcome, without secrets. */
  testAlert: (
    workspaceId: string,
    settings: StoredAlerts,
  ) => Promise<{ ok: boolean; status: number | null; message: string }>
  /** A job on personal data was created or cancelled. Not called in a cluster. */
  privacyChanged: (jobId: string) => void
  /** `buffer.undelivered_hours`. */
  undeliveredHours: number
  /** Null on a single machine. */
  cluster: (() => Promise<ClusterFacts>) | null
  /** The counts of ingest that are not stored in metadata yet. Without it, only the roll-ups are shown. */
  pendingUsage?: () => readonly IngestCounts[]
}

export interface ServiceFacts {
  buffer: Overview['buffer']
  service: Omit<Overview['service'], 'egress_private'>
}

export interface ClusterFacts {
  nodes: readonly ClusterNodeFacts[]
  /** The id of the node that owns each pipe now. A pipe without an owner is absent. Spans workspaces. */
  owners: ReadonlyMap<string, string>
}

export interface ClusterNodeFacts {
  nodeId: string
  nodeName: string
  state: NodeState
  /** True for this process. */
  isThis: boolean
}
