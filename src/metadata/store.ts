/**
 * Metadata: workspaces, keys, pipes, destinations, limits, origins, usage. The port that the use cases of
 * `management/` are written against; SQLite keeps it on one machine, PostgreSQL in a cluster, through one dialect-
 * neutral code (Kysely).
 *
 * Invariants
 * - Every method is async and, except look-ups marked as workspace-independent, takes `workspaceId` first; what belongs to
 *   another workspace does not exist.
 * - A method that changes something resolves only when the change is durable.
 * - Secret values of a destination config arrive and leave in the clear here and are sealed (AES-256-GCM) in the file.
 * - Uniqueness is decided by the database: a second name throws ApiError `duplicate_…`, also in a race.
 */
import type { SavedDrift } from '../contract/drift.ts'
import type { ParkedDetail, ParkedReason, ParkedRecord } from '../contract/parked.ts'
import type { AlertStore } from './alert-store.ts'
import type { AlertSettingsStore } from './alerts.ts'
import type { ApiKeyStore } from './api-keys.ts'
import type { Actor, AuditStore } from './audit.ts'
import type { ClusterStore } from './cluster-store.ts'
import type { DestinationStore } from './destinations.ts'
import type { DirectorySource } from './directory-source.ts'
import type { DataDirIdentity } from './identity.ts'
import type { AttemptLog } from './lane-attempts.ts'
import type { LaneRecords } from './lane-records.ts'
import type { DriftStore, LaneSource, LaneStore, PinStore } from './lane-state.ts'
import type { LimitStore } from './limits.ts'
import type { OriginStore } from './origins.ts'
import type { StoredOverview } from './overview.ts'
import type { ParkedStore } from './parked-store-port.ts'
import type { PipeStore } from './pipes.ts'
import type { SessionStore } from './sessions.ts'
import type { DestinationRef } from './tables.ts'
import type { UsageStore } from './usage.ts'
import type { UserStore } from './users.ts'
import type { VersionStore } from './versions.ts'
import type { WorkspaceStore } from './workspaces.ts'

/** Where the metadata is. Serialisable: every thread that needs metadata opens it from the same spec. */
export type MetadataSpec =
  /** `file` is made when it is missing. */
  | { kind: 'sqlite'; file: string }
  /** `url`: with user and password, so never for a log or a message. */
  | { kind: 'postgresql'; url: string }

/** The position of a parked row in its destination's list. */
export interface ParkedPosition {
  seq: number
  /** -1: the message. */
  index: number
}

/** Parked rows of a destination: all (`ids` null) or these, of one error or (null) of any. */
export interface ParkedSelector {
  ids: readonly string[] | null
  errorCode: string | null
}

export interface ParkedQuery {
  limit: number
  /** Behind this one. */
  after: ParkedPosition | null
  errorCode: string | null
  reason: ParkedReason | null
}

export interface Metadata {
  /** The same metadata, whose changes are this one's in the audit log. Otherwise they are a command's. */
  as(actor: Actor): Metadata
  readonly versions: VersionStore
  readonly audit: AuditStore
  /** The same for every handle, from the first open on. */
  identity(): Promise<DataDirIdentity>
  /** The greatest `stream_seq` that lanes and epochs name: the buffer must never give it out again. */
  knownSeq(): Promise<number>
  readonly workspaces: WorkspaceStore
  readonly pipes: PipeStore
  readonly destinations: DestinationStore
  /**
   * The records that destinations permanently rejected, and those that were skipped
   * (docs/dev/contract.md#parked-records). Only those of the given workspace.
   */
  readonly parked: {
    /** In the order of their messages. */
    list(
      destination: DestinationRef,
      query: ParkedQuery,
    ): Promise<{ parked: ParkedRecord[]; next: ParkedPosition | null }>
    /** With each record's own JSON text. */
    get(
      destination: DestinationRef,
      parkedId: string,
    ): Promise<{ record: ParkedRecord; history: ParkedDetail['history']; recordTexts: string[] } | null>
    /** The lane will replay it; `recordTexts`, each on one line, take the place of its records. */
    replay(
      destination: DestinationRef,
      parkedId: string,
      recordTexts: readonly string[] | null,
    ): Promise<
      | { kind: 'requested'; replays: number }
      | { kind: 'not_found' }
      | { kind: 'replaying' }
      | { kind: 'too_many'; most: number }
    >
    /**
     * All, or these, in small steps; a crash leaves some. How many were not being replayed before. The audit entry is the
     * caller's.
     */
    replayMany(destination: DestinationRef, which: ParkedSelector): Promise<number>
    discard(destination: DestinationRef, parkedId: string): Promise<'discarded' | 'not_found' | 'replaying'>
    /** As `replayMany`: those that are not being replayed. Returns how many were removed. */
    discardMany(destination: DestinationRef, which: ParkedSelector): Promise<number>
    /** Removes what was parked before, of all workspaces, in small steps. By destination, how many records. */
    prune(beforeMs: number): Promise<Map<string, number>>
  }
  readonly limits: LimitStore
  readonly origins: OriginStore
  readonly apiKeys: ApiKeyStore
  readonly alerts: AlertSettingsStore
  readonly users: UserStore
  readonly sessions: SessionStore
  readonly usage: UsageStore
  /**
   * Another one whenever anything of the metadata may have changed since, by whichever process; what was committed before the
   * call is part of it. Costs nothing: for whoever keeps a copy.
   */
  version(): Promise<string>
  readonly overview: StoredOverview
  readonly laneRecords: LaneRecords
  readonly attempts: AttemptLog
  readonly directory: DirectorySource
  readonly laneSource: LaneSource
  readonly laneStore: LaneStore
  readonly parkedStore: ParkedStore
  readonly pinStore: PinStore
  readonly alertStore: AlertStore
  readonly driftStore: DriftStore
  /** The state that nodes of a cluster share; a single machine does not use it. */
  readonly cluster: ClusterStore | null
  /** As it was saved last; null: never, or the destination is of another workspace. */
  drift(destination: DestinationRef): Promise<SavedDrift | null>
  close(): Promise<void>
}
