/**
 * Metadata: workspaces, keys, pipes, destinations, limits, origins, usage. The port that the use cases of
 * `management/` are written against; SQLite keeps it on one machine, PostgreSQL in a cluster, through one dialect-
 * neutral code (Kysely).
 *
 * Invariants
 * - Every method is async and, but for the workspace-less look-ups said so, takes `workspaceId` first; what belongs to
 *   another workspace does not exist.
 * - A method that changes something resolves only when the change is durable.
 * - Secret values of a destination config arrive and leave in the clear here and are sealed (AES-256-GCM) in the file.
 * - Uniqueness is decided by the database: a second name throws ApiError `duplicate_…`, also in a race.
 */
import type { ColumnMapping, DestinationStatus, DestinationType } from '../contract/destination.ts'
import type { PipeLimits } from '../contract/limits.ts'
import type { Pipe } from '../contract/pipe.ts'
import type { LaneSource, LaneStore } from '../delivery/delivery.ts'
import type { DirectorySource } from '../ingest/directory.ts'

export interface StoredDestination {
  destination_id: string
  pipe_id: string
  destination_type: DestinationType
  destination_status: DestinationStatus
  destination_max_retry_seconds: number
  /** In the clear: redact before showing. */
  destination_config: Record<string, unknown>
  columns: ColumnMapping[]
  destination_created_ts: string
  destination_updated_ts: string
}

export interface StoredOrigin {
  pipe_allowed_origin_id: string
  origin_domain: string
}

export interface StoredApiKey {
  api_key_id: string
  api_key_name: string
  api_key_prefix: string
  api_key_status: 'active' | 'revoked'
  api_key_created_ts: string
}

export interface NewDestination {
  destination_type: DestinationType
  destination_max_retry_seconds: number
  destination_config: Record<string, unknown>
  columns: ColumnMapping[]
  /** Where its lane starts: the cursor. 0: the earliest message that is kept. */
  startAfterSeq: number
}

export interface DestinationChange {
  destination_max_retry_seconds?: number
  destination_config?: Record<string, unknown>
  columns?: ColumnMapping[]
  destination_status?: DestinationStatus
}

/** One hour of one pipe, or sums over hours. */
export interface UsageCounts {
  ingest_requests: number
  ingest_records: number
  ingest_bytes: number
  rejected_requests: number
  delivered_records: number
  failed_attempts: number
  skipped_records: number
}

export interface PipeUsage extends UsageCounts {
  last_ingest_ts: string | null
}

/** What ingest counted for one pipe since the last flush, and the pipe's running totals as of it. */
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

export interface Metadata {
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
    /** Id, name and times in `change` are ignored. Null: no such pipe. */
    update(workspaceId: string, pipeId: string, change: Partial<Pipe>): Promise<Pipe | null>
    /** With destinations, lanes, limits, origins and usage. False: no such pipe. */
    delete(workspaceId: string, pipeId: string): Promise<boolean>
  }
  readonly destinations: {
    list(workspaceId: string, pipeId: string): Promise<StoredDestination[]>
    get(workspaceId: string, pipeId: string, destinationId: string): Promise<StoredDestination | null>
    /** By its own id alone: for pull, whose path names no pipe. */
    find(workspaceId: string, destinationId: string): Promise<StoredDestination | null>
    /** With its columns and its lane. Throws `pipe_not_found`. An empty `source_field` is stored as null. */
    create(workspaceId: string, pipeId: string, destination: NewDestination): Promise<StoredDestination>
    /** `destination_config` and `columns` are replaced as a whole. Null: no such destination on this pipe. */
    update(
      workspaceId: string,
      pipeId: string,
      destinationId: string,
      change: DestinationChange,
    ): Promise<StoredDestination | null>
    delete(workspaceId: string, pipeId: string, destinationId: string): Promise<boolean>
  }
  readonly limits: {
    get(workspaceId: string, pipeId: string): Promise<PipeLimits | null>
    /** Throws `pipe_not_found`. */
    put(workspaceId: string, pipeId: string, limits: PipeLimits): Promise<PipeLimits>
  }
  readonly origins: {
    list(workspaceId: string, pipeId: string): Promise<StoredOrigin[]>
    /** Throws `duplicate_origin` (letters of either case are the same) and `pipe_not_found`. */
    add(workspaceId: string, pipeId: string, originDomain: string): Promise<StoredOrigin>
    remove(workspaceId: string, pipeId: string, originId: string): Promise<boolean>
  }
  readonly apiKeys: {
    list(workspaceId: string): Promise<StoredApiKey[]>
    /** Throws `duplicate_api_key_name` (unique among active keys). */
    create(workspaceId: string, key: NewApiKey): Promise<StoredApiKey>
    /** False: no active key with this id. */
    revoke(workspaceId: string, apiKeyId: string): Promise<boolean>
  }
  readonly usage: {
    /** Sums since `sinceMs` (whole hours), by pipe; a pipe without any is left out. */
    byPipe(workspaceId: string, sinceMs: number): Promise<Record<string, PipeUsage>>
    /** Adds what ingest counted; `marks` are the pipes' running totals that the sums now include. */
    addIngest(counts: readonly IngestCounts[], marks: readonly UsageMark[]): Promise<void>
    marks(): Promise<UsageMark[]>
    /** Accepted since the start of the UTC day, by pipe: what the day quotas start from. */
    ingestedSince(sinceMs: number): Promise<Record<string, { records: number; bytes: number }>>
    /** Forgets the hours that began before then. */
    prune(beforeMs: number): Promise<void>
  }
  readonly directory: DirectorySource
  readonly laneSource: LaneSource
  readonly laneStore: LaneStore
  close(): Promise<void>
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
}
