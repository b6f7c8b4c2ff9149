/**
 * Drivers: how a batch gets into a destination. The port, and what a driver may assume.
 *
 * A driver delivers one batch at a time for one lane. It never retries, sleeps, logs or reads the buffer: the lane
 * does. It either resolves (the destination has stored every record of the batch) or rejects with a DeliveryError.
 * A driver may be asked to deliver the same batch again: with the same `identity` and the same bytes.
 */
import type { ColumnMapping, ResolvedConfig, TableColumn } from '../contract/destination.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import type { TableProposal } from '../contract/table-proposal.ts'
import type { Transform } from '../contract/transform.ts'
import type { StoredMessage } from '../log/buffer.ts'
import { cleanCode, cleanText, cutToCharacters, withoutSecrets } from './error-text.ts'

/** The run of messages that one attempt carries. Its range is fixed before the first attempt. */
export interface Batch {
  /** UUID version 5 of destination_id and the range: the same for every attempt at this range. */
  readonly identity: string
  readonly firstSeq: number
  readonly lastSeq: number
  readonly messages: readonly StoredMessage[]
  readonly recordCount: number
  /** Bytes of all bodies together. */
  readonly byteCount: number
  /**
   * So many records of the first message are stored already (`storedRecords` of an earlier attempt) and are left out.
   * Always 0 for a driver that stores a batch as a whole.
   */
  readonly recordOffset: number
  /**
   * Grows with every rewind of the lane: what a destination remembers of a smaller one says nothing about this batch. 0
   * where not given.
   */
  readonly generation?: number
  /** Parked records, edited perhaps: nothing that was sent before is a repeat of it but what has its identity. */
  readonly isReplay?: boolean
}

/** The calls and counts that the lane shares with a driver while it sends a batch in several requests. */
export interface AttemptProgress {
  /** Awaited before every request after the first: keeps the destination's own `rate`. Resolves early on abort. */
  beforeRequest(): Promise<void>
  /** So many records from the start of the batch, those left out included, are stored: not to be sent again. */
  stored(records: number): void
  /** The `msg_id` of the pipe's message at this seq; null: the buffer holds none there. */
  messageIdAt(seq: number): Promise<string | null>
  /**
   * Null where the lane parks nothing. Otherwise (`on_permanent_error: park`) the driver stores every other record of the batch,
   * having awaited this with ALL rejected ones before it commits them (crash between: both are repeated, and
   * parking is idempotent by destination, msg_id and record index). Rejects when they cannot be parked: the driver stores
   * nothing and rejects with that. At most 1,000 records a call.
   */
  readonly park: ParkRecords | null
}

export type ParkRecords = (rejected: readonly RejectedRecord[]) => Promise<void>

/** The progress of a delivery that no lane makes. */
export const noProgress: AttemptProgress = {
  beforeRequest: async () => {},
  stored: () => {},
  messageIdAt: async () => null,
  park: null,
}

/** A record of a batch that the destination rejects for what it holds. */
export interface RejectedRecord {
  /** stream_seq of its message. */
  readonly seq: number
  /** Its place in that message, from 0; null: the destination does not tell the message's records apart. */
  readonly recordIndex: number | null
  /** The destination's own code and words: one short printable line each, without secrets. */
  readonly code: string
  readonly message: string
  /** Where the destination names them; value at most 200 characters. */
  readonly column?: string
  readonly value?: string
}

export interface DestinationDriver {
  /** All or nothing for this batch. Resolves = the destination has stored every record. Rejects: DeliveryError. */
  /** Without `progress`: as with `noProgress`. */
  deliver(batch: Batch, signal: AbortSignal, progress?: AttemptProgress): Promise<void>
  close(): Promise<void>
}

/**
 * Everything a driver knows about its destination: `type` decides what `config` is, defaults filled in. Secrets are in
 * the clear here and must not leave in an error.
 */
export type DestinationSpec = ResolvedConfig & {
  readonly destinationId: string
  readonly pipeId: string
  readonly pipeName: string
  /** Whose turn it is where lanes wait for each other; of a lane only. */
  readonly workspaceId?: string
  /** Database destinations; empty: columns are matched by name with the table's own. */
  readonly columns: readonly ColumnMapping[]
  /** The pipe's timestamp key (`pipe_ingest_ts_field`): the source of a `record_ts` column without source_field. */
  readonly timestampField: string
  /** HTTP endpoints with one request per record, and NATS: how many may be under way at once; 1 where not given. */
  readonly concurrency?: number
  /** Applied to records before the driver gets them: drivers ignore it. */
  readonly transform?: Transform | null
  /** For checks of a stored database destination: the key that is pinned of its server (see `PinServerKey`). */
  readonly pinnedKey?: string | null
  /** It delivers replays alone: how far they have come is no part of how far the lane has. */
  readonly isForReplays?: boolean
  /** Places in the config whose stored value does not open: nothing can be delivered until they are set again. */
  readonly unreadableSecrets?: readonly string[]
}
/** The spec of one type. */
export type SpecOf<T extends DestinationSpec['type']> = Extract<DestinationSpec, { type: T }>
export type DatabaseSpec = SpecOf<'destination_database'>
export type ObjectStoreSpec = SpecOf<'destination_object_store'>
export type HttpEndpointSpec = SpecOf<'destination_http_endpoint'>
export type NatsSpec = SpecOf<'destination_nats'>
export type PullSpec = SpecOf<'destination_pull'>

/** Settings that drivers share; from `config.ts`. */
export interface DriverSettings {
  /** `DESTINATION_DB_SSL`: TLS also for localhost and 127.0.0.1. */
  readonly databaseTls: boolean
  /** `DESTINATION_DB_CLEARTEXT_AUTH`: a password may be sent over TLS whose certificate is not verified. */
  readonly databasePasswordInClear?: boolean
  /** `DESTINATION_DB_TLS_PIN`: false: over TLS any database server is taken for the right one. */
  readonly pinsDatabaseKeys?: boolean
  /** Buckets that may be written with the AWS credentials of this machine. */
  readonly machineCredentials?: readonly string[]
  /** The epoch of the data directory: more than 1 after a restore. Default: 1. */
  readonly epoch?: number
  /**
   * The timeline of the data directory: tells its log from every other log, including those of restored copies
   * (`timelineOf`).
   */
  readonly timeline?: string
  readonly egress: EgressPolicy
}
export interface EgressPolicy {
  /** CIDRs and host names (a leading `*.` matches subdomains). Deny wins over allow. */
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  /** Loopback and private addresses. `auto`: see `isPrivateDenied` (egress-addresses.ts). */
  readonly private: 'allow' | 'deny' | 'auto'
  /** With `auto`, an Int32: how many workspaces there are. Main writes it, the threads that dial read it. */
  readonly workspaces?: SharedArrayBuffer
  /** Addresses that are never dialed: see `own-addresses.ts`. */
  readonly own?: readonly OwnAddress[]
}

/** A listener of this service, or a server that holds its state. `host` as the settings have it. */
export interface OwnAddress {
  readonly host: string
  readonly port: number
  /** Only this database of the server. */
  readonly database?: string
}

/**
 * Given the key of a server whose certificate is not verified (SHA-256 of the SubjectPublicKeyInfo, lower-case hex), pins
 * it if none is pinned, and returns the one that is: durable when it resolves. Null: the destination was changed, or its
 * pin reset, after the driver was opened, which must use this connection for nothing. Rejects when nothing can be stored.
 */
export type PinServerKey = (sha256: string) => Promise<string | null>

/** One line of POST …/destinations/test. */
export interface DestinationCheck {
  name: string
  ok: boolean
  message: string
  /** The columns that take a value, if the check read a database's table. */
  tableColumns?: TableColumn[]
}

/** An adapter. Opening does no I/O: a destination that is down still has a driver. */
export interface DriverModule<Spec extends DestinationSpec = DestinationSpec> {
  open(spec: Spec, settings: DriverSettings, pin: PinServerKey): DestinationDriver
  /**
   * Connect, authenticate, look: without storing anything. With a sample, a database inserts one record and rolls it
   * back. Compares with `spec.pinnedKey` and pins nothing. Never throws for what the world does.
   */
  check(
    spec: Spec,
    settings: DriverSettings,
    signal: AbortSignal,
    sample?: Sample | null,
  ): Promise<DestinationCheck[]>
  /**
   * Databases: proposes a table for the records, and creates or extends it where the request says so. Compares with
   * `spec.pinnedKey` and pins nothing. Never throws for what the world does.
   */
  infer?(
    spec: Spec,
    settings: DriverSettings,
    signal: AbortSignal,
    request: InferRequest,
  ): Promise<TableProposal>
  /** The destination was deleted: removes what the driver kept beside the records. Compares with `spec.pinnedKey`. */
  forget?(spec: Spec, settings: DriverSettings, signal: AbortSignal): Promise<void>
}

/** The sample from which a table is proposed, and the changes to make. */
export interface InferRequest {
  /** Records in the format of a stored body. */
  bodies: readonly Buffer[]
  source: TableProposal['source']
  /** Keys that the pipe adds to every record, with the kind of their values. */
  enriched: readonly { key: string; kind: 'time' | 'string' | 'decimal' | 'integer' }[]
  /** Only these; null: all. */
  keys: readonly string[] | null
  createTable: boolean
  addColumns: boolean
  dedupe: { kind: 'key'; key: string } | { kind: 'generated' } | { kind: 'none' }
}

/** For an insert that is rolled back: the pipe's newest message, or null where a record has to be made up. */
export interface Sample {
  recent: StoredMessage | null
  /** It is the newest that the destination's transform keeps, as it is then. */
  isTransformed?: boolean
}

/**
 * The facts that the server knows of a destination type without its driver: main checks with it whatever is saved,
 * the lane learns its deadline from it, and `load` loads the driver with its client library when the first batch is
 * due. Everything that clients need too is in the type's `contract/destinations/<type>.fields.ts`.
 */
export interface DestinationDescriptor<Spec extends DestinationSpec = DestinationSpec> {
  readonly type: Spec['type']
  /**
   * Everything wrong with a config whose shape is right: its key and a sentence that goes after the key's name. `stored`: what it
   * takes the place of; what is kept of that is not refused because time has passed.
   */
  rules(config: Spec['config'], stored?: Spec['config']): [key: string, message: string][]
  /** Everything wrong with the column mappings, as a path below `columns` (`.0.column_name`) and a sentence; only of types with columns. */
  columnFaults?(columns: readonly ColumnMapping[], config: Spec['config']): [path: string, message: string][]
  /** The hosts to dial, and the config key that names each; none: nothing that the egress policy applies to. */
  targets(config: Spec['config']): readonly ConfigTarget[]
  /** Longest time one attempt may take: the driver's own deadlines. */
  attemptLimitMs(spec: Spec, batch: Batch): number
  /** How many requests this many records take: each waits for its turn in the destination's rate. */
  requestsPerBatch(config: Spec['config'], records: number): number
  /** An attempt whose connection is lost has stored nothing. */
  readonly isTransactional: boolean
  /** The lane's position is kept at the destination, next to the records. */
  isExactlyOnce(config: Spec['config']): boolean
  /** Values that must not be part of a stored error, in addition to those that are sealed. */
  secrets(config: Spec['config']): string[]
  load(spec: Spec): Promise<DriverModule<Spec>>
}
/** `host`: of a database. */
export type ConfigTarget =
  | { key: string; host: string; port: number; database: string }
  | { key: string; url: string }

export type DeliveryErrorClass = 'transient' | 'permanent'
export type DeliveryFault = 'records' | 'destination'

export interface DeliveryErrorOptions {
  /** The destination asked for this pause (Retry-After). */
  retryAfterMs?: number
  /** The message that the driver knows to be at fault, where it knows. */
  failedSeq?: number
  /** So many records from the start of the batch, those left out included, are stored in spite of the error. */
  storedRecords?: number
  /**
   * The attempt ran out of time. `rolled_back`: nothing of it is stored (a database said so), a smaller batch may go at
   * once. `unknown`: it may have been stored, so it is repeated under its own identity before it is made smaller.
   */
  timedOut?: 'rolled_back' | 'unknown'
  /**
   * The fault of a permanent error. 'records': the content of the records is rejected. 'destination': no record is at
   * fault (wrong password, missing table, 401, 404 …), so skipping one changes nothing; the default. undefined:
   * transient, except for `driver_crashed` at a single message.
   */
  fault?: DeliveryFault
  /** The first record that is known to be rejected. */
  rejected?: RejectedRecord
  /** Details for the operator only, for the log: never stored, never in a response. */
  detail?: string
  cause?: unknown
}

/**
 * The world's error. `message` is shown to people and stored: no secrets, and it says what to do where it can. Whatever
 * it is made from, it is one short line of printable text.
 */
export class DeliveryError extends Error {
  readonly class: DeliveryErrorClass
  /** The destination's own code: an SQLSTATE, an errno name, `http_422`, an S3 code, `egress_denied`, … */
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

  /** All fields of the error besides its text. The cause is left out, so that it can be sent to another thread. */
  get known(): DeliveryErrorOptions {
    const { retryAfterMs, failedSeq, storedRecords, timedOut, fault, rejected, detail } = this
    return { retryAfterMs, failedSeq, storedRecords, timedOut, fault, rejected, detail }
  }

  /** The same error with more known of it: the message at fault, how much is stored. */
  with(more: DeliveryErrorOptions): DeliveryError {
    const options = { ...this.known, cause: this.cause, ...more }
    return new DeliveryError(this.class, this.code, this.message, options)
  }

  /** The same error without what the destination echoed of its config, and without its cause, which may hold more. */
  scrubbed(secrets: readonly string[]): DeliveryError {
    const [code, message] = [withoutSecrets(this.code, secrets), withoutSecrets(this.message, secrets)]
    const rejected = this.rejected && withoutSecretsIn(this.rejected, secrets)
    return new DeliveryError(this.class, code, message, { ...this.known, rejected })
  }
}

/** Its texts are short, printable and on one line. Idempotent. */
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

/** As it may leave a driver: clean, and without what the destination echoed of its config. */
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
