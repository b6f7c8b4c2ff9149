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
import type { AlertEvent, AlertFormat } from '../contract/alert-words.ts'
import type { AlertsStatus } from '../contract/alerts.ts'
import type { ApiKey, KeyRights } from '../contract/api-key.ts'
import type { AuditEntry } from '../contract/audit.ts'
import type { DeliverySettings, GivenDeliverySettings } from '../contract/delivery-settings.ts'
import type {
  ColumnMapping,
  Destination,
  DestinationStatus,
  DestinationType,
  TlsPin,
} from '../contract/destination.ts'
import type { SavedDrift } from '../contract/drift.ts'
import type { Epoch } from '../contract/epochs.ts'
import type { VersionedResource } from '../contract/operation.ts'
import type { OverviewLane, OverviewPipe } from '../contract/overview.ts'
import type { ParkedDetail, ParkedReason, ParkedRecord } from '../contract/parked.ts'
import type { AllowedOrigin, Pipe, PipeLimits, PipeUsage } from '../contract/pipe.ts'
import type { Transform } from '../contract/transform.ts'
import type { LaneHour, UsageHour } from '../contract/usage.ts'
import type { User, UserRole } from '../contract/user.ts'
import type { ClusterStore } from './cluster-store.ts'
import type { DirectorySource } from './directory-source.ts'
import type { DriftStore, LaneSource, LaneState, LaneStore, PassedMessages, PinStore } from './lane-state.ts'
import type { ParkedStore } from './parked-store-port.ts'

/** Where the metadata is. Serialisable: every thread that needs metadata opens it from the same spec. */
export type MetadataSpec =
  /** `file` is made when it is missing. */
  | { kind: 'sqlite'; file: string }
  /** `url`: with user and password, so never for a log or a message. */
  | { kind: 'postgresql'; url: string }

/** As responses show it, but for its lane; with secrets in the clear and every key present. */
export type StoredDestination = Omit<
  Destination,
  'lane' | 'columns' | 'concurrency' | 'tls_pin' | 'transform'
> &
  Pick<DeliverySettings, 'concurrency'> & {
    columns: ColumnMapping[]
    transform: Transform | null
    /** The key of its database server; null: none is pinned. */
    tls_pin: TlsPin | null
    /** Places in the config whose stored value does not open: they are empty there. */
    unreadable_secrets?: string[]
  }

export interface NewDestination extends GivenDeliverySettings {
  destination_type: DestinationType
  destination_max_retry_seconds: number
  destination_config: Record<string, unknown>
  columns: ColumnMapping[]
  transform?: Transform | null
  /** Where its lane starts: the cursor. 0: the earliest message that is kept. */
  startAfterSeq: number
}

/** An absent field stays as it is; null resets it. */
export interface DestinationChange extends GivenDeliverySettings {
  destination_max_retry_seconds?: number
  destination_config?: Record<string, unknown>
  columns?: ColumnMapping[]
  transform?: Transform | null
  destination_status?: DestinationStatus
  /** Removes the pin. A change of the server (host, port) does so by itself. */
  tls_pin?: null
}

/**
 * A change, or what decides it from what is stored: no other change comes between. The function may be called several
 * times, and what it throws leaves everything as it was.
 */
export type Decided<Stored, Change> = Change | ((current: Stored) => Change)

/** Usage that the hourly roll-ups know: all but the backlog. */
export type RolledUpUsage = Omit<PipeUsage, 'pending_messages' | 'pending_bytes' | 'blocked_lanes'>

/** The counts of ingest for one pipe since the last flush, and the pipe's running totals at that time. */
export interface IngestCounts {
  pipeId: string
  /** Start of the UTC hour, ms. */
  hourMs: number
  requests: number
  records: number
  bytes: number
  rejected: number
  lastIngestMs: number | null
}

/** Which data directory this is. */
export interface DataDirIdentity {
  readonly dataDirId: string
  /** Oldest first; the last one is in force. */
  readonly epochs: readonly Epoch[]
}

/** On whose behalf something is changed. */
export interface Actor {
  readonly kind: 'key' | 'user' | 'local'
  /** The id of the key or the user. */
  readonly id: string | null
  /** Null: metadata knows it by the id. */
  readonly name: string | null
  /** The address of the client; null: it is on the machine. */
  readonly address: string | null
  /** The operationId; null: what each method is by itself. */
  readonly operation: string | null
  /** For the first change that is made on its behalf. */
  readonly guard?: VersionGuard
}

/** A change that is only made to a resource as the caller knows it. Checked in the transaction of the change. */
export interface VersionGuard {
  of: VersionedResource
  /** Null: any. */
  expected: readonly string[] | null
  /** Called after the change is durable; null: the resource is gone. */
  changed(version: string | null): void
}

/** A change for the audit log, with secrets left out. */
export interface AuditedChange {
  workspaceId: string
  /** The operationId, where the actor does not say which one it is. */
  operation: string
  resourceId: string | null
  pipeId: string | null
  before: Record<string, unknown> | null
  after: Record<string, unknown> | null
}

export interface AuditQuery {
  limit: number
  /** Older than this entry. */
  after: number | null
  operation: string | null
  resourceId: string | null
  sinceMs: number | null
  /** Only these pipes; null: all of the workspace. */
  pipeIds: ReadonlySet<string> | null
}

/** Where a parked row stands in its destination's list. */
export interface ParkedPlace {
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
  after: ParkedPlace | null
  errorCode: string | null
  reason: ParkedReason | null
}

/** Where alerts of a workspace go, in the clear. */
export interface AlertSettings {
  url: string
  secret: string | null
  format: AlertFormat
  /** Null: all, also what later versions add. */
  events: readonly AlertEvent[] | null
}

export interface StoredAlerts extends AlertSettings {
  /** The stored address or secret does not open: both are empty, and nothing can be sent. */
  isUnreadable: boolean
  status: AlertsStatus
}

/** The alert state of one lane and one event: `observe/alerts/marks.ts`. */
export interface AlertMark {
  /** The destination's id; empty: of the service. */
  subject: string
  event: AlertEvent
  /** `held`: it is so, and was not told because the last time was too short ago. `raised`: it was told and is still so. */
  state: 'none' | 'held' | 'raised'
  /** When it became so. */
  sinceMs: number | null
  toldMs: number | null
  /** Not told since. */
  heldBack: number
  /** For an event that counts: the number that was reported. */
  counted: number
}

/** A workspace with alerts, as the watch of lanes sees it. */
export interface WatchedWorkspace {
  workspaceId: string
  events: readonly AlertEvent[] | null
  hasBegun: boolean
  pending: number
}

export interface QueuedAlert {
  alertId: string
  atMs: number
  /** The alert as the standard format has it. */
  json: string
}

export type AlertOutcome =
  | { kind: 'sent'; atMs: number }
  /** `isFinal`: it is not tried again. */
  | { kind: 'failed'; atMs: number; code: string; message: string; isFinal: boolean }

export interface AlertStore {
  /** Every workspace with alerts. */
  workspaces(): Promise<WatchedWorkspace[]>
  marks(workspaceId: string): Promise<AlertMark[]>
  /**
   * Records the result of a check of the lanes: all of it or nothing. False: the workspace has no alerts any more,
   * and nothing was stored. `gone`: marks that are no longer needed.
   */
  record(
    workspaceId: string,
    found: { marks: readonly AlertMark[]; gone: readonly AlertMark[]; alerts: readonly QueuedAlert[] },
  ): Promise<boolean>
  /** The oldest alert that is not sent, and where it goes; null: there is none. */
  next(workspaceId: string): Promise<{ alert: QueuedAlert; settings: StoredAlerts } | null>
  settle(workspaceId: string, alertId: string, outcome: AlertOutcome): Promise<void>
}

export interface Metadata {
  /** The same metadata, whose changes are this one's in the audit log. Otherwise they are a command's. */
  as(actor: Actor): Metadata
  readonly versions: {
    /** Null: there is no such resource. */
    of(resource: VersionedResource): Promise<string | null>
  }
  readonly audit: {
    list(workspaceId: string, query: AuditQuery): Promise<{ entries: AuditEntry[]; next: number | null }>
    /** Records a change that another store makes. Returns its number, for `complete`. */
    record(change: AuditedChange): Promise<number>
    /** Adds the outcome. */
    complete(workspaceId: string, auditId: number, after: Record<string, unknown>): Promise<void>
    /** Removes the entries, of all workspaces, that are older, in small steps. */
    prune(beforeMs: number): Promise<void>
  }
  /** The same for every handle, from the first open on. */
  identity(): Promise<DataDirIdentity>
  /** The greatest `stream_seq` that lanes and epochs name: the buffer must never give it out again. */
  knownSeq(): Promise<number>
  readonly workspaces: {
    /** Creates the workspace and its first key. Throws ApiError `validation_error`: the name is taken, or malformed. */
    create(name: string, key: NewApiKey): Promise<{ workspaceId: string; apiKeyId: string }>
    list(): Promise<{ workspaceId: string; name: string }[]>
  }
  readonly pipes: {
    list(workspaceId: string): Promise<Pipe[]>
    get(workspaceId: string, pipeId: string): Promise<Pipe | null>
    /** Throws `duplicate_pipe_name`. */
    create(
      workspaceId: string,
      pipe: Omit<Pipe, 'pipe_id' | 'pipe_created_ts' | 'pipe_updated_ts'>,
    ): Promise<Pipe>
    /** Id, name and times of the change are ignored. Null: no such pipe. */
    update(workspaceId: string, pipeId: string, change: Decided<Pipe, Partial<Pipe>>): Promise<Pipe | null>
    /** With destinations, lanes, limits, origins and usage. False: no such pipe. */
    delete(workspaceId: string, pipeId: string): Promise<boolean>
  }
  readonly destinations: {
    list(workspaceId: string, pipeId: string): Promise<StoredDestination[]>
    get(workspaceId: string, pipeId: string, destinationId: string): Promise<StoredDestination | null>
    /** By its own id alone: for pull, whose path names no pipe. */
    find(workspaceId: string, destinationId: string): Promise<StoredDestination | null>
    /** With its columns and its lane. Throws `pipe_not_found` and `duplicate_destination_name`. An empty `source_field` is stored as null. */
    create(workspaceId: string, pipeId: string, destination: NewDestination): Promise<StoredDestination>
    /**
     * `destination_config` and `columns` are replaced as a whole. Null: no such destination on this pipe. Throws
     * `duplicate_destination_name`.
     */
    update(
      workspaceId: string,
      pipeId: string,
      destinationId: string,
      change: Decided<StoredDestination, DestinationChange>,
    ): Promise<StoredDestination | null>
    delete(workspaceId: string, pipeId: string, destinationId: string): Promise<boolean>
  }
  /**
   * The records that destinations permanently rejected, and those that were skipped
   * (docs/dev/contract.md#parked-records). Only those of the given workspace.
   */
  readonly parked: {
    /** In the order of their messages. */
    list(
      workspaceId: string,
      destinationId: string,
      query: ParkedQuery,
    ): Promise<{ parked: ParkedRecord[]; next: ParkedPlace | null }>
    /** With each record's own JSON text. */
    get(
      workspaceId: string,
      destinationId: string,
      parkedId: string,
    ): Promise<{ record: ParkedRecord; history: ParkedDetail['history']; recordTexts: string[] } | null>
    /** The lane will replay it; `recordTexts`, each on one line, take the place of its records. */
    replay(
      workspaceId: string,
      destinationId: string,
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
    replayMany(workspaceId: string, destinationId: string, which: ParkedSelector): Promise<number>
    discard(
      workspaceId: string,
      destinationId: string,
      parkedId: string,
    ): Promise<'discarded' | 'not_found' | 'replaying'>
    /** As `replayMany`: those that are not being replayed. Returns how many were removed. */
    discardMany(workspaceId: string, destinationId: string, which: ParkedSelector): Promise<number>
    /** Removes what was parked before, of all workspaces, in small steps. By destination, how many records. */
    prune(beforeMs: number): Promise<Map<string, number>>
  }
  readonly limits: {
    get(workspaceId: string, pipeId: string): Promise<PipeLimits | null>
    /** Throws `pipe_not_found`. */
    put(workspaceId: string, pipeId: string, limits: PipeLimits): Promise<PipeLimits>
    /** False: the pipe has none, or there is no such pipe. */
    delete(workspaceId: string, pipeId: string): Promise<boolean>
  }
  readonly origins: {
    list(workspaceId: string, pipeId: string): Promise<AllowedOrigin[]>
    /** Throws `duplicate_origin` (letters of either case are the same) and `pipe_not_found`. */
    add(workspaceId: string, pipeId: string, originDomain: string): Promise<AllowedOrigin>
    remove(workspaceId: string, pipeId: string, originId: string): Promise<boolean>
  }
  readonly apiKeys: {
    list(workspaceId: string): Promise<ApiKey[]>
    /**
     * Throws `duplicate_api_key_name` (unique among active keys), and `validation_error` for a pipe that the workspace does
     * not have.
     */
    create(workspaceId: string, key: NewApiKey): Promise<ApiKey>
    /**
     * A new key, and the end of another one at `endMs`, or earlier where it expires earlier; null: it is revoked now. `decide`
     * is given the old one and may throw. Null: no active key with this id.
     */
    rotate(
      workspaceId: string,
      apiKeyId: string,
      endMs: number | null,
      decide: (old: ApiKey) => NewApiKey,
    ): Promise<{ created: ApiKey; replaced: ApiKey } | null>
    /** Removes the rows of these keys, where they are revoked or expired. How many there were. */
    forget(workspaceId: string, apiKeyIds: readonly string[]): Promise<number>
    /** They were used in the minute that began then. Of all workspaces. */
    used(apiKeyIds: readonly string[], minuteMs: number): Promise<void>
    /**
     * False: no active key with this id. Its row stays listed for a while; of more revoked ones than the workspace may
     * keep, those that were revoked first go.
     */
    revoke(workspaceId: string, apiKeyId: string): Promise<boolean>
    /** Removes the rows of keys, of all workspaces, that were revoked or expired before this time. */
    prune(revokedBeforeMs: number): Promise<void>
  }
  readonly alerts: {
    /** Null: none are set up. */
    get(workspaceId: string): Promise<StoredAlerts | null>
    /** As a whole. What is pending stays, and goes to the new address. `decide` may throw. */
    put(workspaceId: string, decide: (current: StoredAlerts | null) => AlertSettings): Promise<StoredAlerts>
    /** With everything that is pending. False: there were none. */
    delete(workspaceId: string): Promise<boolean>
  }
  readonly users: {
    list(workspaceId: string): Promise<User[]>
    /** Throws `duplicate_user_email` (in this workspace; others are not looked at) and `workspace_full`. */
    create(workspaceId: string, user: NewUser): Promise<User>
    /** Ends every session of the user. Null: no such user. Throws `last_admin`. */
    update(workspaceId: string, userId: string, change: UserChange): Promise<User | null>
    /** With its sessions. False: no such user. Throws `last_admin`. */
    delete(workspaceId: string, userId: string): Promise<boolean>
    /** The accounts of all workspaces, the oldest first: for signing in. */
    accountsOf(email: string): Promise<StoredUser[]>
    /** Makes the user and forgets the link. Null: there is no such link (any more). Throws as `create` does. */
    redeemSetupLink(hash: string, user: Omit<NewUser, 'role'>): Promise<StoredUser | null>
    /** Throws `workspace_full`. */
    createSetupLink(workspaceId: string, link: NewSetupLink): Promise<void>
    /** Whether `redeemSetupLink` would find it now. */
    hasSetupLink(hash: string): Promise<boolean>
  }
  /** Workspace-independent: a session's hash says whose it is. */
  readonly sessions: {
    /** False: this is no longer the user's password, or there is no such user. Ends the oldest session of too many. */
    begin(user: StoredUser, hash: string): Promise<boolean>
    /** Whether it is too old is for the caller to say. */
    find(hash: string): Promise<StoredSession | null>
    used(hash: string): Promise<void>
    end(hash: string): Promise<void>
    /** Those last used, or begun, before these times. */
    prune(lastUsedBeforeMs: number, begunBeforeMs: number): Promise<void>
  }
  readonly usage: {
    /** Sums since `sinceMs` (whole hours), by pipe, and when its last request was, however long ago; a pipe without either is left out. */
    byPipe(workspaceId: string, sinceMs: number): Promise<Record<string, RolledUpUsage>>
    /**
     * By start of hour (ms), from `firstMs` to `lastMs`, both included: summed over those pipes, or all of the workspace. An
     * hour without any is left out, and so is everything of a pipe of another workspace.
     */
    byHour(
      workspaceId: string,
      pipeIds: readonly string[] | null,
      firstMs: number,
      lastMs: number,
    ): Promise<Map<number, Omit<UsageHour, 'hour_ts'>>>
    /** The same of one lane. Nothing of a destination of another workspace. */
    ofLane(
      workspaceId: string,
      destinationId: string,
      firstMs: number,
      lastMs: number,
    ): Promise<Map<number, Omit<LaneHour, 'hour_ts'>>>
    /**
     * Adds what ingest counted; `marks` are the pipes' running totals that the sums now include. After it has rejected, the next
     * call holds the same counts, grown by what came since: so they are added once also where the outcome was not known.
     */
    addIngest(counts: readonly IngestCounts[], marks: readonly UsageMark[]): Promise<void>
    /**
     * Adds to the hour what these totals are more than what is marked, and marks them: however many count, and whatever they
     * know, each message is counted once. Totals that are less than marked add nothing.
     */
    countUpTo(totals: readonly UsageMark[], hourMs: number): Promise<void>
    marks(): Promise<UsageMark[]>
    /** Accepted since the start of the UTC day, by pipe: what the day quotas start from. */
    ingestedSince(sinceMs: number): Promise<Record<string, { records: number; bytes: number }>>
    /** Forgets the hours that began before then, except the newest in which a pipe had a request. */
    prune(beforeMs: number): Promise<void>
  }
  /**
   * Another one whenever anything of the metadata may have changed since, by whichever process; what was committed before the
   * call is part of it. Costs nothing: for whoever keeps a copy.
   */
  version(): Promise<string>
  /** Every pipe with its destinations, by name, and its usage since then. Costs nothing per message. */
  overview(workspaceId: string, sinceMs: number): Promise<StoredOverviewPipe[]>
  /**
   * The lanes of a pipe, oldest destination first, each as it was last saved with what became of its messages between the two, which
   * belong to it, newest first; at most `shownHistoryRuns` of them. Nothing of a pipe of another workspace.
   */
  laneRecords(workspaceId: string, pipeId: string, firstSeq: number, lastSeq: number): Promise<LaneRecord[]>
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
  drift(workspaceId: string, destinationId: string): Promise<SavedDrift | null>
  close(): Promise<void>
}

export interface LaneRecord {
  state: LaneState
  runs: LaneRun[]
  /** The messages that have parked records now. */
  parkedSeqs: ReadonlySet<number>
}

/** `before`: the lane began behind these messages. */
export type LaneRun = Omit<PassedMessages, 'kind'> & {
  kind: 'delivered' | 'parked' | 'skipped' | 'dropped' | 'before'
}

/** How much of a pipe's running totals the roll-ups include: what a crash left out is added at start. */
export interface UsageMark {
  pipeId: string
  messages: number
  records: number
  bytes: number
}

export interface NewApiKey {
  name: string
  prefix: string
  /** SHA-256 of the whole key, hex. */
  hash: string
  rights: KeyRights
}

export interface NewUser {
  /** As it was typed. */
  email: string
  role: UserRole
  passwordHash: string
}

/** An absent field stays as it is. */
export interface UserChange {
  role?: UserRole
  passwordHash?: string
}

export interface NewSetupLink {
  role: UserRole
  /** SHA-256 of the token, hex. */
  hash: string
  expiresMs: number
}

export interface StoredUser {
  readonly workspaceId: string
  readonly user: User
  readonly passwordHash: string
}

export interface StoredSession {
  readonly workspaceId: string
  readonly workspaceName: string
  readonly user: User
  readonly passwordHash: string
  readonly createdMs: number
  /** To the minute. */
  readonly lastUsedMs: number
}

export type OverviewDestination = Omit<OverviewLane, 'lane'>

/** The part of an overview that metadata stores. */
export type StoredOverviewPipe = Pick<
  OverviewPipe,
  'pipe_id' | 'pipe_name' | 'pipe_description' | 'pipe_status' | 'usage_today' | 'last_ingest_ts'
> & { destinations: OverviewDestination[] }
