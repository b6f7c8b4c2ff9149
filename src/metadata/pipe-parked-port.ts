/**
 * The port for records that are parked at their pipe, before any lane, because they do not match the pipe's schema
 * (docs/dev/contract.md#records-parked-at-the-pipe). Ingest parks them; users list, edit, replay and discard them.
 *
 *   mismatching record ─▶ parked ──replay begins──▶ replaying ──appended, durable──▶ removed
 *                           ▲                           │
 *                           └──── append rejected ──────┘
 *
 * A crash between two steps of a request that parks:
 *
 *   step                                           after a crash
 *   1 the mismatching records are committed here   parked but not acknowledged; a repeat of the request parks them again,
 *                                                  or, with the same Idempotency-Key, finds them here
 *   2 the other records are fsynced in the log     as 1; the repeat stores them again, or once with a key
 *   3 202                                          nothing is missing: both parts were durable before
 *
 * A crash between two steps of a replay:
 *
 *   1 the row is marked as replaying, committed    the next replay of the row continues with the same text and key
 *   2 the record is fsynced in the log             as 1: the log recognizes the key, which is derived from the row's id
 *   3 the row is removed, committed                the record is in the log once
 *
 * A row that is replaying can be neither edited nor discarded, even if no replay of this process works on it. The log can
 * have the record already, or another node can be between the steps:
 *
 *   edit      the next replay is a repeat for the log, so the row would be removed and the edit lost
 *   discard   the record could be stored nevertheless, so the response would be wrong
 *
 * The next replay always settles the row. It is not checked again, and nothing is stored twice.
 *
 * No owner is needed: any node of a cluster can write any row, and two concurrent replays of one row append it under
 * the same key.
 */
import { errorPathCharacters, type PipeParkedRecord, type SchemaFault } from '../contract/pipe-parked.ts'
import type { PipeRef } from './tables.ts'

/** The members that the pipe adds to a record: see `Enrichment` of ingest. */
export interface AddedMembers {
  keys: readonly string[]
  text: string
}

export interface NewPipeParked {
  parkedId: string
  /** Its index in the request. */
  recordIndex: number
  /** The record's JSON text as it was sent, on one line. */
  text: string
  faults: readonly SchemaFault[]
}

/** The mismatching records of one request. */
export interface ParkRequest {
  workspaceId: string
  pipeId: string
  msgId: string
  receivedMs: number
  /** True: the ids are derived from an Idempotency-Key, so a repeat of the request has the same ids. */
  isKeyed: boolean
  /** The members that the pipe adds to each record of the request. They are added when the record is replayed. */
  enrichment: AddedMembers
  records: readonly NewPipeParked[]
}

/**
 * `parked`: the records are durable. `msgId`: that of the first request with the same key. `full`: nothing of the request
 * was parked. `gone`: the pipe was deleted.
 */
export type ParkOutcome = { kind: 'parked'; msgId: string } | { kind: 'full' } | { kind: 'gone' }

/** A parked record, as replays need it. */
export interface PipeParkedText {
  parkedId: string
  text: string
  enrichment: AddedMembers
  /** Grows with each edit. */
  edits: number
  isReplaying: boolean
}

/** The number of records that are parked at a pipe. */
export interface ParkedAtPipe extends PipeRef {
  records: number
}

export interface PipeParkedPosition {
  msgId: string
  index: number
}

export interface PipeParkedQuery {
  limit: number
  /** Lists the rows after this position. Null: from the first one. */
  after: PipeParkedPosition | null
  errorPath: string | null
}

/** Selects rows of a pipe: all (`ids` null) or these, whose first error has this path, if one is named. */
export interface PipeParkedSelector {
  ids: readonly string[] | null
  errorPath: string | null
}

/** Returns the path as it is stored for the filter: PostgreSQL stores neither NUL nor lone surrogates. */
export function storedPath(path: string): string {
  return path.slice(0, errorPathCharacters).toWellFormed().replaceAll('\0', '\ufffd')
}

/** For ingest. */
export interface PipeParking {
  /**
   * Parks the records of all requests in one transaction, durable when it resolves. Outcomes are in the order of the
   * requests. `maxBytes`: the setting parked.max_bytes.
   */
  park(requests: readonly ParkRequest[], maxBytes: number): Promise<ParkOutcome[]>
  /** Removes records of requests that were then rejected. Only for ids that are not derived from a key. */
  unpark(parkedIds: readonly string[]): Promise<void>
}

/** For replays. */
export interface PipeParkedReplays {
  /**
   * Marks rows as replaying, if their text is still the one that was checked. Returns the ids of those that are marked
   * now, including those that were before.
   */
  beginReplays(pipe: PipeRef, rows: readonly PipeParkedText[]): Promise<Set<string>>
  /** The log has certainly not stored the records. */
  releaseReplays(pipe: PipeRef, parkedIds: readonly string[]): Promise<void>
  /** The log has stored the records: removes the rows. Returns their number. */
  endReplays(pipe: PipeRef, parkedIds: readonly string[]): Promise<number>
  /** Replaces the errors of a row that a replay found to mismatch. */
  noteFaults(pipe: PipeRef, parkedId: string, faults: readonly SchemaFault[]): Promise<void>
}

export interface PipeParkedStore extends PipeParking, PipeParkedReplays {
  list(
    pipe: PipeRef,
    query: PipeParkedQuery,
  ): Promise<{ parked: PipeParkedRecord[]; next: PipeParkedPosition | null }>
  /** Returns the number of parked records of the pipe, of all pages. */
  count(pipe: PipeRef): Promise<number>
  /** Returns the pipes of all workspaces that have parked records. */
  counts(): Promise<ParkedAtPipe[]>
  get(pipe: PipeRef, parkedId: string): Promise<{ record: PipeParkedRecord; text: PipeParkedText } | null>
  /** Returns the texts of the next selected rows, as many as fit into one step. Empty: there are no more. */
  texts(
    pipe: PipeRef,
    which: PipeParkedSelector,
    after: PipeParkedPosition | null,
  ): Promise<(PipeParkedText & { position: PipeParkedPosition })[]>
  /** Replaces the text and the errors of a row that is not being replayed. */
  edit(
    pipe: PipeRef,
    parkedId: string,
    changed: { text: string; faults: readonly SchemaFault[] },
  ): Promise<'edited' | 'not_found' | 'replaying'>
  discard(pipe: PipeRef, parkedId: string): Promise<'discarded' | 'not_found' | 'replaying'>
  /** Discards the selected rows that are not being replayed, in small steps. Returns how many were removed. */
  discardMany(pipe: PipeRef, which: PipeParkedSelector): Promise<number>
  /**
   * Removes rows of all workspaces that were parked before `parkedBeforeMs`, in small steps, and the marks of removed
   * rows that are older than `doneBeforeMs`. Returns the number of records by pipe.
   */
  prune(parkedBeforeMs: number, doneBeforeMs: number): Promise<Map<string, number>>
}
