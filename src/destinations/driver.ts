/**
 * The port of drivers, which deliver batches to destinations, and what a driver can assume.
 *
 * A driver delivers one batch at a time for one lane. It never retries, sleeps, logs or reads the buffer; the lane
 * does. It either resolves (the destination has stored every record of the batch) or rejects with a DeliveryError. The
 * lane can ask for the same batch again, with the same `identity` and the same bytes.
 */
import type { AttemptRequest, AttemptResponse } from '../contract/attempts.ts'
import type { ColumnMapping, ResolvedConfig, TableColumn, WrittenBy } from '../contract/destination.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { TableProposal } from '../contract/table-proposal.ts'
import type { Transform } from '../contract/transform.ts'
import type { StoredMessage } from '../log/buffer.ts'
import { cleanCode, cleanText, cutToCharacters, withoutSecrets } from './error-text.ts'

/** The messages of one attempt. Their range is fixed before the first attempt. */
export interface Batch {
  /** UUID version 5 of destination_id and range: the same for every attempt at this range. */
  readonly identity: string
  readonly firstSeq: number
  readonly lastSeq: number
  readonly messages: readonly StoredMessage[]
  readonly recordCount: number
  /** Total bytes of all bodies. */
  readonly byteCount: number
  /**
   * Number of records of the first message that an earlier attempt stored (`storedRecords`); they are left out. Always
   * 0 for a driver that stores a batch as a whole.
   */
  readonly recordOffset: number
  /**
   * Increases with every rewind of the lane. State that a destination keeps for a smaller generation does not apply to
   * this batch. Default: 0.
   */
  readonly generation?: number
  /**
   * The batch is a replay: of parked records, which a user may have edited, or of messages that the lane has passed. Only
   * an earlier attempt with the same identity counts as a repeat.
   */
  readonly isReplay?: boolean
  /**
   * The namespace of the ids of single records in a replay of several batches, which can be cut again. Default: the
   * identity of the batch.
   */
  readonly replayId?: string
}

/** Functions through which the lane and a driver track a batch that is sent in several requests. */
export interface AttemptProgress {
  /** Awaited before every request after the first, to keep the destination's `rate`. Resolves early on abort. */
  beforeRequest(): Promise<void>
  /** The first `records` records of the batch are stored, including those left out; they are not sent again. */
  stored(records: number): void
  /** The `msg_id` of the pipe's message at this seq; null if the buffer holds none; or `unreplicated`. */
  messageIdAt(seq: number): Promise<string | typeof unreplicated | null>
  /**
   * Null if the lane does not park records. Otherwise (`on_permanent_error: park`) the driver stores every other record
   * of the batch, but first awaits this call with ALL rejected records. After a crash between the two, both are
   * repeated; parking is idempotent by destination, msg_id and record index. If it rejects, the driver stores nothing
   * and rejects with the same error. At most 1,000 records per call.
   */
  readonly park: ParkRecords | null
  /** One request of the attempt has ended. For people: its content decides nothing. */
  exchanged(exchange: Exchanged): void
}

/** A request of an attempt and its response, without secrets. */
export interface AttemptExchange {
  readonly request: AttemptRequest
  /** Null: none was received. */
  readonly response: AttemptResponse | null
}

export interface Exchanged {
  readonly isFailed: boolean
  /** Describes it. Called at most once, after the attempt, and only for the exchange that is kept. */
  describe(): AttemptExchange
}

/** Instead of a `msg_id`: only a primary that this directory has replaced can have had a message there. */
export const unreplicated = 'unreplicated'

export type ParkRecords = (rejected: readonly RejectedRecord[]) => Promise<void>

/** Progress for a delivery outside a lane. */
export const noProgress: AttemptProgress = {
  beforeRequest: async () => {},
  stored: () => {},
  messageIdAt: async () => null,
  park: null,
  exchanged: () => {},
}

/** A record that the destination rejects because of its content. */
export interface RejectedRecord {
  /** stream_seq of its message. */
  readonly seq: number
  /**
   * Index of the record in that message, from 0; null if the destination does not distinguish the message's records.
   */
  readonly recordIndex: number | null
  /** The destination's own code and message: one short printable line each, without secrets. */
  readonly code: string
  readonly message: string
  /** Set if the destination names them; `value` has at most 200 characters. */
  readonly column?: string
  readonly value?: string
}

export interface DestinationDriver {
  /**
   * Stores the whole batch or nothing. Resolves once the destination has stored every record. Rejects with a
   * DeliveryError.
   */
  /** `progress` defaults to `noProgress`. */
  deliver(batch: Batch, signal: AbortSignal, progress?: AttemptProgress): Promise<void>
  close(): Promise<void>
}

/**
 * Everything a driver knows about its destination. `type` determines the shape of `config`, whose defaults are filled
 * in. Secrets are in plain text here and must not appear in an error.
 */
export type DestinationSpec = ResolvedConfig & {
  readonly destinationId: string
  readonly pipeId: string
  readonly pipeName: string
  /** Its workspace, for turns where lanes wait for each other, and for the paths of its files. */
  readonly workspaceId?: string
  /** For databases. Empty: columns are matched with the table's columns by name. */
  readonly columns: readonly ColumnMapping[]
  /** The pipe's timestamp key (`pipe_ingest_ts_field`): the source of a `record_ts` column without `source_field`. */
  readonly timestampField: string
  /**
   * Maximum number of concurrent requests, for NATS and for HTTP endpoints with one request per record. Default: 1.
   */
  readonly concurrency?: number
  /** Applied to records before the driver receives them. Drivers ignore it. */
  readonly transform?: Transform | null
  /** For checks of a stored database destination: the pinned key of its server (see `PinServerKey`). */
  readonly pinnedKey?: string | null
  /** This driver delivers only replays. Their progress is not the progress of the lane. */
  readonly isForReplays?: boolean
  /** Config paths whose stored secret cannot be decrypted. Nothing can be delivered until they are set again. */
  readonly unreadableSecrets?: readonly string[]
}
/** The spec of one destination type. */
export type SpecOf<T extends DestinationSpec['type']> = Extract<DestinationSpec, { type: T }>
export type DatabaseSpec = SpecOf<'destination_database'>
export type SqliteSpec = SpecOf<'destination_sqlite'>
/** The spec of a type with a table. */
export type TableSpec = DatabaseSpec | SqliteSpec
export type ObjectStoreSpec = SpecOf<'destination_object_store'>
export type HttpEndpointSpec = SpecOf<'destination_http_endpoint'>
export type NatsSpec = SpecOf<'destination_nats'>
export type PullSpec = SpecOf<'destination_pull'>

/** Settings that all drivers share; from `config.ts`. */
export interface DriverSettings {
  /** `DESTINATION_DB_SSL`: use TLS for localhost and 127.0.0.1 too. */
  readonly databaseTls: boolean
  /** `DESTINATION_DB_CLEARTEXT_AUTH`: a password can be sent over TLS whose certificate is not verified. */
  readonly databasePasswordInClear?: boolean
  /** `DESTINATION_DB_TLS_PIN`. If false, any database server is accepted over TLS. */
  readonly pinsDatabaseKeys?: boolean
  /** Buckets that can be written with the AWS credentials of this machine. */
  readonly machineCredentials?: readonly string[]
  /** The epoch of the data directory: greater than 1 after a restore. Default: 1. */
  readonly epoch?: number
  /**
   * The timeline of the data directory (`timelineOf`). It distinguishes its log from every other log, including those
   * of restored copies.
   */
  readonly timeline?: string
  /** Where the files of SQLite destinations are. Null or missing: nowhere, because this is a node of a cluster. */
  readonly tables?: TableFilesSettings | null
  readonly egress: EgressPolicy
}
export interface TableFilesSettings {
  readonly dir: string
  /** Nothing is stored while the disk has less free space: it is needed to accept messages. */
  readonly minFreeBytes: number
}
export interface EgressPolicy {
  /** CIDRs and host names (a leading `*.` matches subdomains). Deny wins over allow. */
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  /** Loopback and private addresses. `auto`: see `isPrivateDenied` (guards.ts). */
  readonly private: 'allow' | 'deny' | 'auto'
  /** For `auto`: the number of workspaces, as an Int32. Main writes it, the threads that dial read it. */
  readonly workspaces?: SharedArrayBuffer
  /** Addresses that are never dialed; see `own-addresses.ts`. */
  readonly own?: readonly OwnAddress[]
}

/** A listener of this service, or a server that holds its state. `host` as written in the settings. */
export interface OwnAddress {
  readonly host: string
  readonly port: number
  /** If set, only this database of the server. */
  readonly database?: string
}

/**
 * Pins the key of a server whose certificate is not verified (SHA-256 of the SubjectPublicKeyInfo, lower-case hex) if
 * no key is pinned yet. Resolves with the pinned key once it is durable. Null means that the destination was changed,
 * or its pin reset, after the driver was opened: the driver must not use the connection. Rejects when nothing can be
 * stored.
 */
export type PinServerKey = (sha256: string) => Promise<string | null>

/** One result line of POST …/destinations/test. */
export interface DestinationCheck {
  name: string
  ok: boolean
  message: string
  /** The columns that can receive a value, if the check read a database table. */
  tableColumns?: TableColumn[]
  /** How rows are written to a database table, if the check found out; `message` has the reason. */
  writtenBy?: WrittenBy
}

/** The adapter for one destination type. Opening does no I/O: a destination that is down still has a driver. */
export interface DriverModule<Spec extends DestinationSpec = DestinationSpec> {
  open(spec: Spec, settings: DriverSettings, pin: PinServerKey): DestinationDriver
  /**
   * Connects, authenticates and checks the target without storing anything. With a sample, a database inserts one
   * record and rolls it back. Compares with `spec.pinnedKey` and pins nothing. Never throws for an error of the
   * destination or the network.
   */
  check(
    spec: Spec,
    settings: DriverSettings,
    signal: AbortSignal,
    sample?: Sample | null,
  ): Promise<DestinationCheck[]>
  /**
   * For databases: proposes a table for the records, and creates or extends it if the request asks for it. Compares
   * with `spec.pinnedKey` and pins nothing. Never throws for an error of the destination or the network.
   */
  infer?(
    spec: Spec,
    settings: DriverSettings,
    signal: AbortSignal,
    request: InferRequest,
  ): Promise<TableProposal>
  /**
   * Called after the destination is deleted: removes what the driver stored next to the records. Compares with
   * `spec.pinnedKey`.
   */
  forget?(spec: Spec, settings: DriverSettings, signal: AbortSignal): Promise<void>
}

/** The sample from which a table is proposed, and the changes to make. */
export interface InferRequest {
  /** Records in the format of a stored body. */
  bodies: readonly Buffer[]
  source: TableProposal['source']
  /** Keys that the pipe adds to every record, with the kind of their values. */
  enriched: readonly { key: string; kind: 'time' | 'string' | 'decimal' | 'integer' }[]
  /** Restricts the proposal to these keys; null: all keys. */
  keys: readonly string[] | null
  createTable: boolean
  addColumns: boolean
  dedupe: { kind: 'key'; key: string } | { kind: 'generated' } | { kind: 'none' }
  /** Set for `auto_add_columns`, whose keys no person has chosen. Default: a person asked for the proposal. */
  automatic?: AutomaticColumns
}

/** Only a key that is a column name as it is gets a column, and no lock is waited for longer than a moment. */
export interface AutomaticColumns {
  /** Columns that an earlier try may have added. Any other column that exists is not used. */
  planned: readonly string[]
  /** The names of the mapped columns. */
  mapped: readonly string[]
}

/**
 * The record for an insert that is rolled back: from the pipe's newest message, or null if a record must be made up.
 */
export interface Sample {
  recent: StoredMessage | null
  /** The sample is the newest message that the destination's transform keeps, in its transformed form. */
  isTransformed?: boolean
}

/**
 * The facts that the server knows of a destination type without its driver. Main validates a config with it, the lane
 * takes its deadline from it, and `load` loads the driver and its client library when the first batch is due. Facts
 * that clients need too are in `contract/destinations/<type>.fields.ts`.
 */
export interface DestinationDescriptor<Spec extends DestinationSpec = DestinationSpec> {
  readonly type: Spec['type']
  /**
   * Every fault of a config whose shape is valid: its key, and a sentence that follows the key's name. `stored` is the
   * config that it replaces; an unchanged value of it is not rejected for having expired.
   */
  rules(config: Spec['config'], stored?: Spec['config']): [key: string, message: string][]
  /**
   * Every fault of the column mappings, as a path below `columns` (`.0.column_name`) and a sentence. Only for types
   * with columns.
   */
  columnFaults?(columns: readonly ColumnMapping[], config: Spec['config']): [path: string, message: string][]
  /** The config keys that name the table, for the audit log. Only for types with a table, whose drivers have `infer`. */
  readonly tableKeys?: readonly string[]
  /** Why this service cannot have destinations of the type, whatever their config, as a fault of a key. */
  unavailable?(settings: DriverSettings): [key: string, message: string] | null
  /** The hosts to dial, with the config key that names each. Empty if the egress policy does not apply. */
  targets(config: Spec['config']): readonly ConfigTarget[]
  /** Maximum duration of one attempt, from the driver's own deadlines. */
  attemptLimitMs(spec: Spec, batch: Batch): number
  /** Number of requests for this many records. Each one counts against the destination's rate. */
  requestsPerBatch(config: Spec['config'], records: number): number
  /** False: the lane reads its next batch only after the current one, and holds the memory of one. Default: true. */
  readsAhead?(config: Spec['config']): boolean
  /** An attempt whose connection is lost has stored nothing. */
  readonly isTransactional: boolean
  /** The lane's position is stored at the destination, next to the records. */
  isExactlyOnce(config: Spec['config']): boolean
  /** Values that must not appear in a stored error, in addition to the sealed ones. */
  secrets(config: Spec['config']): string[]
  load(spec: Spec): Promise<DriverModule<Spec>>
}
/** `host`: the host of a database. */
export type ConfigTarget =
  | { key: string; host: string; port: number; database: string }
  | { key: string; url: string }

export type DeliveryErrorClass = 'transient' | 'permanent'
export type DeliveryFault = 'records' | 'destination'

export interface DeliveryErrorOptions {
  /** The destination asked for this pause (Retry-After). */
  retryAfterMs?: number
  /** The seq of the message at fault, if the driver knows it. */
  failedSeq?: number
  /** Number of records from the start of the batch that are stored despite the error, including those left out. */
  storedRecords?: number
  /**
   * The attempt ran out of time. `rolled_back`: a database confirmed that nothing is stored, so a smaller batch can be
   * sent at once. `unknown`: it may be stored, so the batch is repeated under its own identity before it is made
   * smaller.
   */
  timedOut?: 'rolled_back' | 'unknown'
  /**
   * The fault of a permanent error. 'records': the content of the records is rejected. 'destination' (the default): no
   * record is at fault (wrong password, missing table, 401, 404 …), so skipping one does not help. Undefined for a
   * transient error, except for `driver_crashed` at a single message.
   */
  fault?: DeliveryFault
  /** The first record that is known to be rejected. */
  rejected?: RejectedRecord
  /** Details for the operator's log: never stored, never in a response. */
  detail?: string
  cause?: unknown
}

/**
 * An error of the destination or the network. `message` is stored and shown to users: it holds no secrets and says what
 * to do where possible. It is always reduced to one short line of printable text.
 */
export class DeliveryError extends Error {
  readonly class: DeliveryErrorClass
  /** The destination's code: an SQLSTATE, an errno name, `http_422`, an S3 code, `egress_denied`, … */
  readonly code: string
  readonly retryAfterMs: number | undefined
  readonly failedSeq: number | undefined
  readonly storedRecords: number | undefined
  readonly timedOut: 'rolled_back' | 'unknown' | undefined
  readonly fault: DeliveryFault | undefined
  readonly rejected: RejectedRecord | undefined
  readonly detail: string | undefined

  constructor(
    errorClass: DeliveryErrorClass,
    code: string,
    message: string,
    options: DeliveryErrorOptions = {},
  ) {
    super(cleanText(message), { cause: options.cause })
    this.name = 'DeliveryError'
    this.class = errorClass
    this.code = cleanCode(code)
    this.retryAfterMs = options.retryAfterMs
    this.failedSeq = options.failedSeq
    this.storedRecords = options.storedRecords
    this.timedOut = options.timedOut
    this.fault = options.fault ?? (errorClass === 'permanent' ? 'destination' : undefined)
    this.rejected = options.rejected === undefined ? undefined : cleanRejected(options.rejected)
    this.detail = options.detail === undefined ? undefined : cleanText(options.detail)
  }

  /** All fields except the text. The cause is left out, so that the fields can be sent to another thread. */
  get known(): DeliveryErrorOptions {
    const { retryAfterMs, failedSeq, storedRecords, timedOut, fault, rejected, detail } = this
    return { retryAfterMs, failedSeq, storedRecords, timedOut, fault, rejected, detail }
  }

  /** Returns the same error with further fields set, such as the message at fault. */
  with(more: DeliveryErrorOptions): DeliveryError {
    const options = { ...this.known, cause: this.cause, ...more }
    return new DeliveryError(this.class, this.code, this.message, options)
  }

  /**
   * Returns the same error without config values that the destination echoed, and without its cause, which may hold
   * more.
   */
  scrubbed(secrets: readonly string[]): DeliveryError {
    const [code, message] = [withoutSecrets(this.code, secrets), withoutSecrets(this.message, secrets)]
    const rejected = this.rejected && withoutSecretsIn(this.rejected, secrets)
    return new DeliveryError(this.class, code, message, { ...this.known, rejected })
  }
}

/** Makes its texts short, printable and single-line. Idempotent. */
function cleanRejected({ seq, recordIndex, code, message, column, value }: RejectedRecord): RejectedRecord {
  const { tableColumnCharacters, rejectedValueCharacters } = resourceLimits
  return {
    seq,
    recordIndex,
    code: cleanCode(code),
    message: cleanText(message),
    ...(column === undefined ? {} : { column: cutToCharacters(cleanText(column), tableColumnCharacters) }),
    ...(value === undefined ? {} : { value: cutToCharacters(cleanText(value), rejectedValueCharacters) }),
  }
}

/** The record as it can leave a driver: clean, and without config values that the destination echoed. */
export function withoutSecretsIn(rejected: RejectedRecord, secrets: readonly string[]): RejectedRecord {
  const clean = cleanRejected(rejected)
  const without = (text: string) => withoutSecrets(text, secrets)
  const { code, message, column, value } = clean
  return {
    ...clean,
    code: without(code),
    message: without(message),
    ...(column === undefined ? {} : { column: without(column) }),
    ...(value === undefined ? {} : { value: without(value) }),
  }
}
