/**
 * The calls between main and an ingest thread. Requests that main serves are forwarded as data. Their responses carry
 * the number of the request.
 */
import type { Mismatches } from '../../contract/schema-words.ts'
import type { HookRefusal } from '../../contract/source-words.ts'
import type { IngestLimits } from '../../ingest/admission.ts'
import type { AskedQuota } from '../../ingest/cluster-quota.ts'
import type { ObservedMemory } from '../../ingest/observed.ts'
import type { Parked } from '../../ingest/parked/queue.ts'
import type { DaySums } from '../../ingest/shared-counters.ts'
import type { AppenderPort } from '../../log/buffer.ts'
import type { DirectorySource } from '../../metadata/directory-source.ts'
import type { ParkRequest } from '../../metadata/pipe-parked-port.ts'
import type { LogSettings } from '../../platform/log.ts'
import type { ListenAddress } from '../../settings/settings.ts'
import type { HttpResponse } from '../http/response.ts'

export interface IngestThreadData {
  /** Counts from 0. */
  index: number
  log: LogSettings
  /** The memory of SharedCounters. */
  counters: SharedArrayBuffer
  /** In a cluster, main reserves parts of the limits for the thread. */
  asksForQuota: boolean
  /** The memory of IngestObserved; the thread's slot is its index. */
  observed: ObservedMemory
  /** The port is transferred to the thread. */
  appender: AppenderPort
  /** The geolocation file; null: none is loaded. */
  geo: SharedArrayBuffer | null
  trustedProxies: readonly string[]
  /** The limit of all threads together. */
  maxInFlightBytes: number
  maxBodyBytes: number
  maxRecords: number
  maxKeys: number
  /** The maximum number of bodies that it decompresses at the same time. */
  decoders: number
  /** The maximum number of threads that parse large bodies at the same time. */
  parsers: number
  /** An Int32 per thread: 1 once it has no open sockets. */
  closed: SharedArrayBuffer
}

/** Paths that main serves. The thread needs them to match requests. */
export interface ForwardedPath {
  path: string
  methods: readonly string[]
  /** The methods that require a key. */
  keyed: readonly string[]
}

/** A changed pipe or key. */
export type Refresh = { pipeId: string } | { apiKeyId: string }

export interface SharedAddress {
  name: string
  address: ListenAddress
  paths: readonly ForwardedPath[]
}

/**
 * How a response is sent. `send`: the connection stays open. `last`: the connection is closed afterwards. The others
 * are as in Exchange.
 */
export type SendHow = 'send' | 'last' | 'cut' | 'tracked'

/** The responses of main to requests that the thread forwarded. `id`: the number of the request. */
export interface ForwardedResponses {
  respond(id: number, how: SendHow, response: HttpResponse): void
  /** The head of a response whose body follows in pieces. */
  stream(id: number, response: HttpResponse): void
  piece(id: number, bytes: Uint8Array): void
  streamEnd(id: number): void
}

/** The calls of main. */
export interface IngestCalls extends ForwardedResponses {
  /** Loads the directory. Must be the first call. */
  open(): void
  listen(shared: SharedAddress): void
  stopListening(): void
  /** Returns once requests see the change. */
  refresh(changed: Refresh): void
  trust(cidrs: readonly string[]): void
  drain(): void
  /** Returns when no request is in progress. */
  idle(): void
  loadGeo(bytes: SharedArrayBuffer): void
  /** From now on connections are closed after their response. */
  stopping(): void
  closeSockets(): void
}

export interface ForwardedHead {
  method: string
  query: string
  params: readonly string[]
  headers: readonly (readonly [name: string, value: string])[]
  peer: Uint8Array
  /** The body follows in a separate message. */
  hasBody: boolean
}

export interface RejectedCount {
  pipeId: string
  atMs: number
  requests: number
  /** Why they were rejected, if they are webhooks. */
  hook: HookRefusal | null
}

/** Records that did not match the schema of a pipe. */
export interface MismatchCount {
  pipeId: string
  atMs: number
  mismatches: Mismatches
}

/** See MismatchParking. */
interface ParkingCalls {
  park(requests: readonly ParkRequest[]): Parked[]
  unpark(parkedIds: readonly string[]): void
}

/** Counts of the thread since the last call. */
interface CountReports {
  rejected(counts: readonly RejectedCount[]): void
  mismatched(counts: readonly MismatchCount[]): void
  keysUsed(apiKeyIds: readonly string[]): void
}

/** The calls of the thread. Its directory reads from main, which asks metadata. */
export interface IngestReports extends DirectorySource, ParkingCalls, CountReports {
  /** Asks for more of a pipe's limits than the node has reserved. */
  quota(pipeId: string, limits: IngestLimits, amount: DaySums): AskedQuota
  /** `path`: its index in `listen`; -1: no path matches. */
  request(id: number, path: number, head: ForwardedHead): void
  /** Null: the client has disconnected. */
  body(id: number, body: Uint8Array | 'too_large' | null): void
  gone(id: number): void
  sent(id: number, wasSent: boolean): void
  /** The client can take the next piece. */
  taken(id: number): void
  /** The thread has closed its sockets and stopped working. The process must end. */
  failed(stack: string): void
  /** The sockets are closed: the thread can be terminated. */
  closed(): void
}
