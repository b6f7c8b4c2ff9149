/**
 * Drivers: how a batch gets into a destination. The port, and what a driver may assume.
 *
 * A driver delivers one batch at a time for one lane. It never retries, sleeps, logs or reads the buffer: the lane
 * does. It either resolves (the destination has stored every record of the batch) or rejects with a DeliveryError.
 * A driver may be asked to deliver the same batch again: with the same `identity` and the same bytes.
 */
import type { StoredMessage } from '../buffer/buffer.ts'
import type { ColumnMapping, DestinationType } from '../contract/destination.ts'

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
}

export interface DestinationDriver {
  /** All or nothing for this batch. Resolves = the destination has stored every record. Rejects: DeliveryError. */
  deliver(batch: Batch, signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

/** Everything a driver knows about its destination. Secrets are in the clear here and must not leave in an error. */
export interface DestinationSpec {
  readonly destinationId: string
  readonly pipeId: string
  readonly pipeName: string
  readonly type: DestinationType
  /** Validated by the type's schema in `contract/destination.ts`; defaults not filled in. */
  readonly config: Readonly<Record<string, unknown>>
  /** Database destinations; empty: columns are matched by name with the table's own. */
  readonly columns: readonly ColumnMapping[]
  /** The pipe's timestamp key (`pipe_ingest_ts_field`): the source of a `record_ts` column without source_field. */
  readonly timestampField: string
}

/** Settings that drivers share; from `config.ts`. */
export interface DriverSettings {
  /** `DESTINATION_DB_SSL`: TLS also for localhost and 127.0.0.1. */
  readonly databaseTls: boolean
  readonly egress: EgressPolicy
}
export interface EgressPolicy {
  /** CIDRs and host names (a leading `*.` matches subdomains). Deny wins over allow. */
  readonly allow: readonly string[]
  readonly deny: readonly string[]
  /** Loopback and private addresses. */
  readonly private: 'allow' | 'deny'
}

/** One line of POST …/destinations/test. */
export interface DestinationCheck {
  name: string
  ok: boolean
  message: string
}

/** A destination type's adapter. Opening does no I/O: a destination that is down still has a driver. */
export interface DriverModule {
  open(spec: DestinationSpec, settings: DriverSettings): DestinationDriver
  /** Connect, authenticate, look: without storing anything. Never throws for what the world does. */
  check(spec: DestinationSpec, settings: DriverSettings, signal: AbortSignal): Promise<DestinationCheck[]>
}

export type DeliveryErrorClass = 'transient' | 'permanent'

export interface DeliveryErrorOptions {
  /** The destination asked for this pause (Retry-After). */
  retryAfterMs?: number
  /** The message that the driver knows to be at fault, where it knows. */
  failedSeq?: number
  cause?: unknown
}

/** The world's error. `message` is shown to people and stored: no secrets, and it says what to do where it can. */
export class DeliveryError extends Error {
  readonly class: DeliveryErrorClass
  /** The destination's own code: an SQLSTATE, an errno name, `http_422`, an S3 code, `egress_denied`, … */
  readonly code: string
  readonly retryAfterMs: number | undefined
  readonly failedSeq: number | undefined

  constructor(
    errorClass: DeliveryErrorClass,
    code: string,
    message: string,
    options: DeliveryErrorOptions = {},
  ) {
    super(message, { cause: options.cause })
    this.name = 'DeliveryError'
    this.class = errorClass
    this.code = code
    this.retryAfterMs = options.retryAfterMs
    this.failedSeq = options.failedSeq
  }
}
