/**
 * Metadata: workspaces, keys, pipes, destinations, limits, origins, usage. This is the port that the use cases of
 * `management/` are written against. It is stored in SQLite on one machine and in PostgreSQL in a cluster, by the
 * same code (Kysely).
 *
 * Invariants
 * - Every method is async. Except for look-ups marked as workspace-independent, its first parameter is the id of the
 *   workspace or a reference that contains it. Resources of another workspace are treated as missing.
 * - A method that changes something resolves only when the change is durable.
 * - Secret values of a destination config are in the clear in this interface and sealed (AES-256-GCM) in the
 *   database.
 * - The database enforces uniqueness: a second name throws ApiError `duplicate_…`, even in a race.
 */
import type { SavedDrift } from '../contract/drift.ts'
import type { ParkedDetail, ParkedReason, ParkedRecord } from '../contract/parked.ts'
import type { SchemaVersion } from '../contract/pipe-schema.ts'
import type { AddedColumnStore } from './added-columns.ts'
import type { AlertStore } from './alert-store.ts'
import type { AlertSettingsStore } from './alerts.ts'
import type { ApiKeyStore } from './api-keys.ts'
import type { Actor, AuditStore } from './audit.ts'
import type { ClusterStore } from './cluster-store.ts'
import type { DestinationStore } from './destinations.ts'
import type { DirectorySource } from './directory-source.ts'
import type { DataDirIdentity } from './identity.ts'
import type { AttemptLog, LaneLatency } from './lane-history.ts'
import type { LaneRecords, RunsOfKind } from './lane-records.ts'
import type { DriftStore, LaneSource, LaneStore, PinStore, RangeStore } from './lane-state.ts'
import type { LimitStore } from './limits.ts'
import type { OriginStore } from './origins.ts'
import type { StoredOverview } from './overview.ts'
import type { ParkedStore } from './parked-store-port.ts'
import type { PipeParkedStore } from './pipe-parked-port.ts'
import type { PipeStore } from './pipes.ts'
import type { PrivacyErasure } from './privacy-erasure.ts'
import type { PrivacyJobs } from './privacy-jobs.ts'
import type { ReplayStore } from './replays.ts'
import type { SessionStore } from './sessions.ts'
import type { DestinationRef, PipeRef } from './tables.ts'
import type { UsageStore } from './usage.ts'
import type { UserStore } from './users.ts'
import type { VersionStore } from './versions.ts'
import type { WorkspaceStore } from './workspaces.ts'

/** The location of the metadata. Serialisable: every thread that needs metadata opens it from the same spec. */
export type MetadataSpec =
  /** `file` is created if it is missing. */
  | { kind: 'sqlite'; file: string }
  /** `url` contains user and password, so it must not appear in a log or a message. */
  | { kind: 'postgresql'; url: string }

/** The position of a parked row in its destination's list. */
export interface ParkedPosition {
  seq: number
  /** -1: the message as a whole. */
  index: number
}

/** Selects parked rows of a destination: all (`ids` null) or these, with one error code and reason or (null) any. */
export interface ParkedSelector {
  ids: readonly string[] | null
  errorCode: string | null
  reason: ParkedReason | null
}

export interface ParkedQuery {
  limit: number
  /** Lists the rows after this position. Null: from the first one. */
  after: ParkedPosition | null
  errorCode: string | null
  reason: ParkedReason | null
}

export interface Metadata {
  /**
   * Returns the same metadata, whose changes the audit log attributes to this actor. Without it they are attributed to
   * a command.
   */
  as(actor: Actor): Metadata
  readonly versions: VersionStore
  readonly audit: AuditStore
  /** The identity is the same for every handle, from the first open on. */
  identity(): Promise<DataDirIdentity>
  /** Returns the greatest `stream_seq` that lanes and epochs refer to. The buffer must never assign it again. */
  knownSeq(): Promise<number>
  readonly workspaces: WorkspaceStore
  readonly pipes: PipeStore
  readonly destinations: DestinationStore
  /**
   * Records that destinations permanently rejected, and skipped messages (docs/dev/contract.md#parked-records). Each
   * call sees those of its workspace only.
   */
  readonly parked: {
    /** Lists rows in the order of their messages. */
    list(
      destination: DestinationRef,
      query: ParkedQuery,
    ): Promise<{ parked: ParkedRecord[]; next: ParkedPosition | null }>
    /** `recordTexts`: the original JSON text of each record. Null: the destination has no such row. */
    get(
      destination: DestinationRef,
      parkedId: string,
    ): Promise<{ record: ParkedRecord; history: ParkedDetail['history']; recordTexts: string[] } | null>
    /** Requests a replay by the lane. `recordTexts`, each on one line, replace the records. */
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
     * Requests a replay of the selected rows, in small steps; a crash leaves some undone. Returns the number of rows
     * that were not being replayed before. The caller writes the audit entry.
     */
    replayMany(destination: DestinationRef, which: ParkedSelector): Promise<number>
    discard(destination: DestinationRef, parkedId: string): Promise<'discarded' | 'not_found' | 'replaying'>
    /** Discards the selected rows that are not being replayed, as `replayMany` does. Returns how many were removed. */
    discardMany(destination: DestinationRef, which: ParkedSelector): Promise<number>
    /**
     * Removes rows of all workspaces that were parked before this time, in small steps. Returns the number of records
     * by destination.
     */
    prune(beforeMs: number): Promise<Map<string, number>>
  }
  readonly pipeParked: PipeParkedStore
  readonly replays: ReplayStore
  readonly privacy: PrivacyJobs & PrivacyErasure
  readonly limits: LimitStore
  readonly origins: OriginStore
  readonly apiKeys: ApiKeyStore
  readonly alerts: AlertSettingsStore
  readonly users: UserStore
  readonly sessions: SessionStore
  readonly usage: UsageStore
  /**
   * Returns a text that changes whenever any process may have changed the metadata. It includes everything committed
   * before the call. The call is cheap, so that caches can check it often.
   */
  version(): Promise<string>
  readonly overview: StoredOverview
  readonly laneRecords: LaneRecords
  readonly runsOfKind: RunsOfKind
  readonly attempts: AttemptLog
  readonly latency: LaneLatency
  readonly directory: DirectorySource
  readonly laneSource: LaneSource
  readonly laneStore: LaneStore
  readonly parkedStore: ParkedStore & RangeStore
  readonly pinStore: PinStore
  readonly alertStore: AlertStore
  readonly driftStore: DriftStore
  readonly addedColumns: AddedColumnStore
  /** The state that the nodes of a cluster share. Not used on a single machine. */
  readonly cluster: ClusterStore | null
  /** Returns the drift as it was last saved. Null: never, or the destination belongs to another workspace. */
  drift(destination: DestinationRef): Promise<SavedDrift | null>
  /** The last versions of the schema of a pipe, newest first. */
  schemaVersions(pipe: PipeRef): Promise<SchemaVersion[]>
  close(): Promise<void>
}
