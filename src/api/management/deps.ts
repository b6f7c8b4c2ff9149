/** The dependencies of the use cases of management. */
import type { DestinationType } from '../../contract/destination.ts'
import type { NodeState } from '../../contract/node-words.ts'
import type { Overview } from '../../contract/overview.ts'
import type { DestinationTrials, LaneCommands, LaneViews } from '../../delivery/delivery.ts'
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
  trials: DestinationTrials
  /** Reads the buffer's messages for people. */
  history: History
  /**
   * The directory and the lanes have subscribed. A change is published when it is durable: `publish` resolves when
   * requests and lanes see it.
   */
  changes: Changes
  /** The newest committed seq of the buffer: where a destination that starts "now" begins. */
  headSeq: () => Promise<number>
  /** Checks a config that is about to be saved against the egress policy: null, or the key at fault and why. */
  checkTarget: (type: DestinationType, config: Record<string, unknown>) => [string, string] | null
  /** Whether loopback and private addresses are denied now. */
  isPrivateDenied: () => boolean
  /** Called with users whose sessions have ended. */
  usersChanged: (workspaceId: string) => void
  now: () => number
  /** The totals that this process has ingested: by pipe, then by worker. */
  ingestTotals: () => ReadonlyMap<
    string,
    ReadonlyMap<number, { requests: number; records: number; bytes: number; rejected: number }>
  >
  /** The facts about the daemon, which are the same for every workspace. */
  serviceFacts: () => Promise<ServiceFacts>
  /** Sends a test alert and says what came back, without secrets. */
  testAlert: (
    workspaceId: string,
    settings: StoredAlerts,
  ) => Promise<{ ok: boolean; status: number | null; message: string }>
  /** Null: it is one machine. */
  cluster: (() => Promise<ClusterFacts>) | null
  /** The counts of ingest that are not yet in metadata; without it only the roll-ups are shown. */
  pendingUsage?: () => readonly IngestCounts[]
}

export interface ServiceFacts {
  buffer: Overview['buffer']
  service: Omit<Overview['service'], 'egress_private'>
}

export interface ClusterFacts {
  nodes: readonly ClusterNodeFacts[]
  /** Pipe → id of the node that owns it now; a pipe without an owner is not in it. Spans workspaces. */
  owners: ReadonlyMap<string, string>
}

export interface ClusterNodeFacts {
  nodeId: string
  nodeName: string
  state: NodeState
  /** It is this process. */
  isThis: boolean
}
