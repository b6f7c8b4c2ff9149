/**
 * The calls between main and an ingest thread. Requests that main serves are forwarded as data, and their responses come
 * back under their number.
 */
import type { AskedQuota } from '../../ingest/cluster-quota.ts'
import type { ObservedMemory } from '../../ingest/observed.ts'
import type { IngestLimits } from '../../ingest/quota.ts'
import type { DaySums } from '../../ingest/shared-counters.ts'
import type { AppenderPort } from '../../log/buffer.ts'
import type { DirectorySource } from '../../metadata/directory-source.ts'
import type { LogSettings } from '../../platform/log.ts'
import type { ListenAddress } from '../../settings/settings.ts'
import type { HttpResponse } from '../http/response.ts'

export interface IngestThreadData {
  /** From 0. */
  index: number
  log: LogSettings
  /** The memory of SharedCounters. */
  counters: SharedArrayBuffer
  /** In a cluster, main reserves parts of limits. */
  asksForQuota: boolean
  /** The memory of IngestObserved; the thread's slot is its index. */
  observed: ObservedMemory
  /** Transferred. */
  appender: AppenderPort
  /** The file of geolocation; null: none so far. */
  geo: SharedArrayBuffer | null
  trustedProxies: readonly string[]
  /** The limit of all threads together. */
  maxInFlightBytes: number
  maxBodyBytes: number
  maxRecords: number
  maxKeys: number
  /** Bodies that it decompresses, and its threads that parse large ones, at a time. */
  decoders: number
  parsers: number
  /** An Int32 per thread: 1 when it holds no sockets any more. */
  closed: SharedArrayBuffer
}

/** Paths that main serves; the thread knows them to tell them from each other. */
export interface ForwardedPath {
  path: string
  methods: readonly string[]
  /** Those that take a key. */
  keyed: readonly string[]
}

/** A pipe or a key that has changed. */
export type Refresh = { pipeId: string } | { apiKeyId: string }

export interface SharedAddress {
  name: string
  address: ListenAddress
  paths: readonly ForwardedPath[]
}

/** `send`: the response; `last`: and the end of the connection; the others as in Exchange. */
export type SendHow = 'send' | 'last' | 'cut' | 'tracked'

/** The responses of main to requests that the thread forwarded. `id`: the number of the request. */
export interface ForwardedResponses {
  respond(id: number, how: SendHow, response: HttpResponse): void
  /** The head of a response that follows piece by piece. */
  stream(id: number, response: HttpResponse): void
  piece(id: number, bytes: Uint8Array): void
  streamEnd(id: number): void
}

/** The calls of main. */
export interface IngestCalls extends ForwardedResponses {
  /** First: loads the directory. */
  open(): void
  listen(shared: SharedAddress): void
  stopListening(): void
  /** Requests see the change once it has returned. */
  refresh(changed: Refresh): void
  trust(cidrs: readonly string[]): void
  drain(): void
  /** Returns when no request is under way. */
  idle(): void
  loadGeo(bytes: SharedArrayBuffer): void
  /** Connections are closed after their response from now on. */
  stopping(): void
  closeSockets(): void
}

export interface ForwardedHead {
  method: string
  query: string
  params: readonly string[]
  headers: readonly (readonly [name: string, value: string])[]
  peer: Uint8Array
  /** The body follows in a message of its own. */
  hasBody: boolean
}

export interface RejectedCount {
  pipeId: string
  atMs: number
  requests: number
}

/** The calls of the thread. The directory's source is main's, which asks metadata. */
export interface IngestReports extends DirectorySource {
  /** A request needs more of a pipe's limits than the node has. */
  quota(pipeId: string, limits: IngestLimits, amount: DaySums): AskedQuota
  /** `path`: its index in `listen`; -1: none of them. */
  request(id: number, path: number, head: ForwardedHead): void
  /** Null: the client has gone. */
  body(id: number, body: Uint8Array | 'too_large' | null): void
  gone(id: number): void
  sent(id: number, wasSent: boolean): void
  /** The client can take the next piece. */
  taken(id: number): void
  rejected(counts: readonly RejectedCount[]): void
  keysUsed(apiKeyIds: readonly string[]): void
  /** It has closed its sockets and does nothing any more: the process must end. */
  failed(stack: string): void
  /** Its sockets are closed: it can be terminated. */
  closed(): void
}
