/**
 * The messages between main and an ingest thread. Requests that main serves are forwarded as data and answered under
 * their number; commands are acknowledged when they are done.
 */
import type { ObservedMemory } from '../../ingest/observed.ts'
import type { IngestLimits } from '../../ingest/quota.ts'
import type { DaySums } from '../../ingest/shared-counters.ts'
import type { AppenderPort } from '../../log/buffer.ts'
import type { DirectorySource } from '../../metadata/directory-source.ts'
import type { LogSettings } from '../../platform/log.ts'
import type { SentError } from '../../platform/thread-error.ts'
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

export type Command =
  | { kind: 'listen'; name: string; address: ListenAddress; paths: readonly ForwardedPath[] }
  | { kind: 'stop_listening' }
  /** Requests see the change once it is acknowledged. */
  | { kind: 'refresh'; refresh: Refresh }
  | { kind: 'trust'; cidrs: readonly string[] }
  | { kind: 'drain' }
  /** Acknowledged when no request is under way. */
  | { kind: 'idle' }

/** `send`: the response; `last`: and the end of the connection; the others as in Exchange. */
export type SendHow = 'send' | 'last' | 'cut' | 'tracked'

export type ToIngestThread =
  | { kind: 'command'; id: number; command: Command }
  | { kind: 'answer'; id: number; value: unknown }
  | { kind: 'no_answer'; id: number; error: SentError }
  | { kind: 'respond'; id: number; how: SendHow; response: HttpResponse }
  /** The head of a response that follows piece by piece. */
  | { kind: 'stream'; id: number; response: HttpResponse }
  | { kind: 'piece'; id: number; bytes: Uint8Array }
  | { kind: 'stream_end'; id: number }
  | { kind: 'geo'; bytes: SharedArrayBuffer }
  /** Connections are closed after their response from now on. */
  | { kind: 'stopping' }
  | { kind: 'close' }

export interface ForwardedHead {
  method: string
  query: string
  params: readonly string[]
  headers: readonly (readonly [name: string, value: string])[]
  peer: Uint8Array
  /** The body follows in a message of its own. */
  hasBody: boolean
}

/** One method of the directory's source: main asks metadata. */
export interface DirectoryQuestion {
  method: keyof DirectorySource
  id: string
}

/** A request that needs more of a pipe's limits than the node has. */
export interface QuotaQuestion {
  method: 'quota'
  pipeId: string
  limits: IngestLimits
  amount: DaySums
}

export type Question = DirectoryQuestion | QuotaQuestion

export interface RejectedCount {
  pipeId: string
  atMs: number
  requests: number
}

export type FromIngestThread =
  /** The first message: its directory is loaded. */
  | { kind: 'ready' }
  | { kind: 'alive' }
  /** `error`: why the command could not be done. */
  | { kind: 'done'; id: number; error: string | null }
  | { kind: 'ask'; id: number; question: Question }
  /** `path`: its index in `listen`; -1: none of them. */
  | { kind: 'request'; id: number; path: number; head: ForwardedHead }
  /** Null: the client has gone. */
  | { kind: 'body'; id: number; body: Uint8Array | 'too_large' | null }
  | { kind: 'gone'; id: number }
  | { kind: 'sent'; id: number; wasSent: boolean }
  /** The client can take the next piece. */
  | { kind: 'taken'; id: number }
  | { kind: 'rejected'; counts: RejectedCount[] }
  | { kind: 'keys_used'; apiKeyIds: string[] }
  /** It has closed its sockets and does nothing any more: the process must end. */
  | { kind: 'failed'; stack: string }
  /** Its sockets are closed: it may be ended. */
  | { kind: 'closed' }

export const beatEveryMs = 1_000
/** When keys were last used is stored to the minute. */
export const keysUsedEveryMs = 2_500
