/**
 * The client of `/v1`: one method for each operation, typed by the contract. Every method answers both the parsed
 * body and its text, because the text is what `-o json` prints. Failures: `failure.ts`.
 */
import type { ColumnMapping, Destination, DestinationStatus } from '../contract/destination.ts'
import type { PipeLimits } from '../contract/limits.ts'
import type { Pipe, PipeCreate, PipeUpdate } from '../contract/pipe.ts'
import { UnreachableFailure } from './failure.ts'
import { type Answer, type SendOptions, send } from './http.ts'

export interface Reply<T> {
  status: number
  body: T
  /** The body as it was sent; empty for 204. */
  text: string
}

export interface PipeUsage {
  ingest_requests: number
  ingest_records: number
  ingest_bytes: number
  rejected_requests: number
  delivered_records: number
  failed_attempts: number
  skipped_records: number
  pending_messages: number
  pending_bytes: number
  blocked_lanes: number
  last_ingest_ts: string | null
}
export interface PipeList {
  pipes: Pipe[]
  usage_by_pipe: Record<string, PipeUsage>
  usage_stats_window_hours: number
}
export interface AllowedOrigin {
  pipe_allowed_origin_id: string
  origin_domain: string
}
export interface ApiKey {
  api_key_id: string
  api_key_name: string
  api_key_prefix: string
  api_key_status: 'active' | 'revoked'
  api_key_created_ts: string
}
export interface PipeDetail {
  pipe: Pipe
  destinations: Destination[]
  limits: PipeLimits | null
  allowed_origins: AllowedOrigin[]
  api_keys: ApiKey[]
}
export interface DestinationBody {
  destination_type: string
  destination_config: Record<string, unknown>
  destination_max_retry_seconds?: number
  columns?: Partial<ColumnMapping>[]
  start_from?: 'now' | 'earliest'
}
export type DestinationPatch = Partial<
  Pick<DestinationBody, 'destination_config' | 'destination_max_retry_seconds' | 'columns'>
>
export interface BlockingMessageView {
  msg_id: string
  stream_seq: number
  received_ts: string
  records_count: number
  records: Record<string, unknown>[]
  truncated: boolean
}
export interface Accepted {
  accepted: true
  pipe_id: string
  pipe_name: string
  records_count: number
  msg_id: string
  message: string
}

export interface ClientOptions {
  /** Origin of the management API, without a trailing slash. */
  url: string
  /** Origin of ingest and pull when it differs. */
  dataUrl?: string | undefined
  apiKey: string | null
}

export type Client = ReturnType<typeof openClient>

/** Opens nothing: connections are made with the first request and kept by the platform. */
export function openClient({ url, dataUrl = url, apiKey }: ClientOptions) {
  const call = async <T>(method: string, path: string, options?: SendOptions): Promise<Reply<T>> =>
    decode<T>(url, await send(url, apiKey, method, path, options))
  const pipe = (pipeId: string) => `/v1/pipes/${encodeURIComponent(pipeId)}`
  const destination = (pipeId: string, destinationId: string) =>
    `${pipe(pipeId)}/destinations/${encodeURIComponent(destinationId)}`

  return {
    url,
    health: () => call<{ status: string; timestamp: string }>('GET', '/v1/health', { timeoutMs: 5_000 }),
    openapi: async () =>
      (await send(url, apiKey, 'GET', '/openapi/management-v1.openapi.yaml', { headers: { accept: '*/*' } }))
        .text,
    pipes: {
      list: (signal?: AbortSignal) => call<PipeList>('GET', '/v1/pipes', { signal }),
      create: (body: PipeCreate) => call<{ pipe_id: string }>('POST', '/v1/pipes', { body }),
      get: (pipeId: string, signal?: AbortSignal) => call<PipeDetail>('GET', pipe(pipeId), { signal }),
      update: (pipeId: string, body: PipeUpdate) => call<{ pipe: Pipe }>('PATCH', pipe(pipeId), { body }),
      delete: (pipeId: string) => call<null>('DELETE', pipe(pipeId)),
    },
    destinations: {
      create: (pipeId: string, body: DestinationBody) =>
        call<{ destination_id: string }>('POST', `${pipe(pipeId)}/destinations`, { body }),
      get: (pipeId: string, destinationId: string) =>
        call<{ destination: Destination }>('GET', destination(pipeId, destinationId)),
      update: (pipeId: string, destinationId: string, body: DestinationPatch) =>
        call<{ destination: Destination }>('PATCH', destination(pipeId, destinationId), { body }),
      delete: (pipeId: string, destinationId: string) =>
        call<null>('DELETE', destination(pipeId, destinationId)),
      setStatus: (pipeId: string, destinationId: string, status: DestinationStatus) =>
        call<{ destination_status: DestinationStatus }>(
          'PATCH',
          `${destination(pipeId, destinationId)}/status`,
          { body: { destination_status: status } },
        ),
      /** Connects as the daemon would, stores nothing; the daemon may take its time. */
      test: (pipeId: string, body: DestinationBody) =>
        call<{ ok: boolean; checks: { name: string; ok: boolean; message: string }[] }>(
          'POST',
          `${pipe(pipeId)}/destinations/test`,
          { body, timeoutMs: 90_000 },
        ),
    },
    lanes: {
      skip: (pipeId: string, destinationId: string) =>
        call<{ skipped: boolean; status: string }>('POST', `${destination(pipeId, destinationId)}/skip`),
      retry: (pipeId: string, destinationId: string) =>
        call<{ retried: boolean; msg_id: string | null; status: string }>(
          'POST',
          `${destination(pipeId, destinationId)}/retry-now`,
        ),
      rewind: (pipeId: string, destinationId: string, to: string | number) =>
        call<{ cursor_seq: number }>('POST', `${destination(pipeId, destinationId)}/rewind`, {
          body: { to },
        }),
      blockingMessage: (pipeId: string, destinationId: string) =>
        call<BlockingMessageView>('GET', `${destination(pipeId, destinationId)}/blocking-message`),
    },
    limits: {
      put: (pipeId: string, body: PipeLimits) =>
        call<{ limits: PipeLimits }>('PUT', `${pipe(pipeId)}/limits`, { body }),
    },
    origins: {
      add: (pipeId: string, originDomain: string) =>
        call<{ pipe_allowed_origin_id: string }>('POST', `${pipe(pipeId)}/allowed-origins`, {
          body: { origin_domain: originDomain },
        }),
      remove: (pipeId: string, originId: string) =>
        call<null>('DELETE', `${pipe(pipeId)}/allowed-origins/${encodeURIComponent(originId)}`),
    },
    keys: {
      list: () => call<{ api_keys: ApiKey[] }>('GET', '/v1/api-keys'),
      create: (name: string) =>
        call<{ api_key_id: string; api_key: string; api_key_name: string }>('POST', '/v1/api-keys', {
          body: { api_key_name: name },
        }),
      revoke: (apiKeyId: string) => call<null>('DELETE', `/v1/api-keys/${encodeURIComponent(apiKeyId)}`),
    },
    /** `body` is sent as it is; `headers` say its type, encoding and idempotency key. */
    ingest: async (
      pipeId: string,
      body: Uint8Array,
      headers: Record<string, string>,
      signal?: AbortSignal,
    ): Promise<Reply<Accepted>> => {
      const path = `/v1/ingest/${encodeURIComponent(pipeId)}`
      const answer = await send(dataUrl, apiKey, 'POST', path, { body, headers, signal, timeoutMs: 120_000 })
      return decode<Accepted>(dataUrl, answer)
    },
    /** Status 204: no message in time. The text holds the records as they were sent. */
    pull: (
      destinationId: string,
      query: { waitMs: number; afterSeq: number | null },
      signal?: AbortSignal,
    ): Promise<Answer> => {
      const after = query.afterSeq === null ? '' : `&after_seq=${query.afterSeq}`
      const path = `/v1/pull/${encodeURIComponent(destinationId)}?wait_ms=${query.waitMs}${after}`
      return send(dataUrl, apiKey, 'GET', path, { signal, timeoutMs: query.waitMs + 30_000 })
    },
    /** `ack`: done with the leased message; `nack`: give it again now. */
    answerLease: (destinationId: string, answer: 'ack' | 'nack', msgId: string): Promise<Answer> =>
      send(dataUrl, apiKey, 'POST', `/v1/pull/${encodeURIComponent(destinationId)}/${answer}`, {
        body: { msg_id: msgId },
      }),
  }
}

/** The contract types what the daemon answers; only that it is JSON at all is checked here. */
function decode<T>(url: string, answer: Answer): Reply<T> {
  if (answer.status === 204 || answer.text === '') {
    return { status: answer.status, body: null as T, text: '' }
  }
  try {
    return { status: answer.status, body: JSON.parse(answer.text) as T, text: answer.text }
  } catch (error) {
    throw new UnreachableFailure(url, 'what answers there does not speak JSON, so it is not pipectl', error)
  }
}
