/**
 * The client of `/v1`: one method for each operation, typed by the contract. Every method returns both the parsed
 * body and its text, because the text is what `-o json` prints. Failures: `failure.ts`.
 */
import type { AlertsPut } from '../../contract/alerts.ts'
import type { ApiKeyCreate, ApiKeyRotate } from '../../contract/api-key.ts'
import type { DestinationFlush, DestinationRate, OnPermanentError } from '../../contract/delivery-settings.ts'
import type { ColumnMapping, DestinationStatus } from '../../contract/destination.ts'
import type { OperationId, SuccessBody } from '../../contract/operations.ts'
import type { ParkedSelection } from '../../contract/parked.ts'
import type { PipeCreate, PipeLimits, PipeUpdate } from '../../contract/pipe.ts'
import type { TableInference } from '../../contract/table-proposal.ts'
import type { GivenTransform } from '../../contract/transform.ts'
import type { TransformTrialRequest } from '../../contract/transform-trial.ts'
import { UnreachableFailure } from './failure.ts'
import { type HttpResponse, openEvents, type SendOptions, send } from './http.ts'

export interface Reply<T> {
  status: number
  body: T
  /** The body as it was sent; empty for 204. */
  text: string
  /** The version of what was read or changed; null: it has none. */
  etag: string | null
}
/** How a change is made. */
export interface ChangeOptions {
  /** The ETag of what was read before; ApiFailure `precondition_failed` if it has changed since. Absent or null: in any case. */
  ifMatch?: string | null
}

export type PipeList = SuccessBody<'listPipes'>
export type MessageDetail = SuccessBody<'getMessage'>
export type MessageList = SuccessBody<'listMessages'>
export type PipeDetail = SuccessBody<'getPipe'>
export interface DestinationBody {
  destination_type: string
  destination_config: Record<string, unknown>
  destination_max_retry_seconds?: number
  columns?: Partial<ColumnMapping>[]
  destination_name?: string | null
  flush?: DestinationFlush | null
  rate?: DestinationRate | null
  concurrency?: number | null
  on_permanent_error?: OnPermanentError | null
  transform?: GivenTransform | null
  start_from?: 'now' | 'earliest'
}
export type DestinationPatch = Partial<Omit<DestinationBody, 'destination_type' | 'start_from'>>
/** The destination to test: a new one, or a stored one with changes, which are not stored. */
export type DestinationTestBody = DestinationBody | (DestinationPatch & { destination_id: string })
/** How a destination is saved. */
export interface SaveOptions extends ChangeOptions {
  /** False: whatever its transform makes of the newest records. */
  checksTransform?: boolean
}
/** From what a table is proposed for which database: a new one, or that of a stored destination. */
type InferenceOptions = Omit<
  Extract<TableInference, { destination_id: string }>,
  'destination_id' | 'destination_config'
>
export type TableInferenceBody = InferenceOptions &
  (
    | { destination_type: string; destination_config: Record<string, unknown> }
    | { destination_id: string; destination_config?: Record<string, unknown> }
  )
export interface ClientOptions {
  /** Origin of the management API, without a trailing slash. */
  url: string
  /** Origin of ingest and pull when it differs. */
  dataUrl?: string | undefined
  apiKey: string | null
  /** Where the key came from, in words: said when it is rejected. */
  keySource?: string | null
  /** Sent with every request that changes something: the dashboard's session needs its CSRF token there. */
  changeHeaders?: () => Record<string, string>
}

export type Client = ReturnType<typeof openClient>

/** Opens nothing: connections are made with the first request and kept by the platform. */
export function openClient({ url, dataUrl = url, apiKey, keySource = null, changeHeaders }: ClientOptions) {
  const credentials = { apiKey, keySource, changeHeaders }
  const call = async <Id extends OperationId>(
    method: string,
    path: string,
    options?: SendOptions,
  ): Promise<Reply<SuccessBody<Id>>> =>
    decode<SuccessBody<Id>>(url, await send(url, credentials, method, path, options))
  const pipe = (pipeId: string) => `/v1/pipes/${encodeURIComponent(pipeId)}`
  const destination = (pipeId: string, destinationId: string) =>
    `${pipe(pipeId)}/destinations/${encodeURIComponent(destinationId)}`

  const parked = (pipeId: string, destinationId: string, parkedId?: string) =>
    `${destination(pipeId, destinationId)}/parked${parkedId === undefined ? '' : `/${encodeURIComponent(parkedId)}`}`

  return {
    url,
    ingestUrl: (pipeId: string) => `${dataUrl}/v1/ingest/${pipeId}`,
    pullUrl: (destinationId: string) => `${dataUrl}/v1/pull/${destinationId}`,
    openapi: async () =>
      (
        await send(url, credentials, 'GET', '/openapi/management-v1.openapi.yaml', {
          headers: { accept: '*/*' },
        })
      ).text,
    /** `since`: the revision of an overview; the response then has what changed after it, or everything. */
    overview: (since: string | null, signal?: AbortSignal) => {
      const query = since === null ? '' : `?since=${encodeURIComponent(since)}`
      return call<'getOverview'>('GET', `/v1/overview${query}`, { signal })
    },
    pipes: {
      list: (signal?: AbortSignal) => call<'listPipes'>('GET', '/v1/pipes', { signal }),
      create: (body: PipeCreate) => call<'createPipe'>('POST', '/v1/pipes', { body }),
      get: (pipeId: string, signal?: AbortSignal) => call<'getPipe'>('GET', pipe(pipeId), { signal }),
      update: (pipeId: string, body: PipeUpdate, how: ChangeOptions = {}) =>
        call<'updatePipe'>('PATCH', pipe(pipeId), { body, ...conditional(how) }),
      delete: (pipeId: string) => call<'deletePipe'>('DELETE', pipe(pipeId)),
    },
    /** Null: of the whole workspace; `hours` undefined: the last 24. */
    usage: (pipeId: string | null, hours?: string, signal?: AbortSignal) => {
      const query = hours === undefined ? '' : `?hours=${encodeURIComponent(hours)}`
      const path = pipeId === null ? '/v1/usage' : `${pipe(pipeId)}/usage`
      return call<'getUsage'>('GET', `${path}${query}`, { signal })
    },
    /** `query`: as the operation takes it. */
    audit: (query: Record<string, string>, signal?: AbortSignal) =>
      call<'listAudit'>('GET', `/v1/audit?${new URLSearchParams(query)}`, { signal }),
    messages: {
      get: (msgId: string, signal?: AbortSignal) =>
        call<'getMessage'>('GET', `/v1/messages/${encodeURIComponent(msgId)}`, { signal }),
      /** `query`: as the operation takes it. */
      list: (pipeId: string, query: Record<string, string>, signal?: AbortSignal) =>
        call<'listMessages'>('GET', `${pipe(pipeId)}/messages?${new URLSearchParams(query)}`, { signal }),
    },
    /** The records of a pipe as they are stored, as Server-Sent Events. `lastEventId`: goes on behind that event. */
    tail: (
      pipeId: string,
      query: Record<string, string>,
      lastEventId: string | null,
      signal: AbortSignal,
    ): Promise<ReadableStream<Uint8Array>> =>
      openEvents(url, credentials, `${pipe(pipeId)}/tail?${new URLSearchParams(query)}`, {
        headers: lastEventId === null ? {} : { 'last-event-id': lastEventId },
        signal,
      }),
    destinations: {
      create: (pipeId: string, body: DestinationBody, saving: SaveOptions = {}) =>
        call<'createDestination'>('POST', `${pipe(pipeId)}/destinations${savingQuery(saving)}`, { body }),
      get: (pipeId: string, destinationId: string) =>
        call<'getDestination'>('GET', destination(pipeId, destinationId)),
      update: (pipeId: string, destinationId: string, body: DestinationPatch, saving: SaveOptions = {}) =>
        call<'updateDestination'>('PATCH', `${destination(pipeId, destinationId)}${savingQuery(saving)}`, {
          body,
          ...conditional(saving),
        }),
      delete: (pipeId: string, destinationId: string) =>
        call<'deleteDestination'>('DELETE', destination(pipeId, destinationId)),
      setStatus: (pipeId: string, destinationId: string, status: DestinationStatus) =>
        call<'setDestinationStatus'>('PATCH', `${destination(pipeId, destinationId)}/status`, {
          body: { destination_status: status },
        }),
      resetPin: (pipeId: string, destinationId: string) =>
        call<'resetTlsPin'>('POST', `${destination(pipeId, destinationId)}/reset-pin`),
      /** Reads the hourly usage of its lane. */
      usage: (pipeId: string, destinationId: string, signal?: AbortSignal) =>
        call<'getDestinationUsage'>('GET', `${destination(pipeId, destinationId)}/usage`, { signal }),
      /** Connects as the daemon would, stores nothing; the daemon may take its time. */
      test: (pipeId: string, body: DestinationTestBody, sample = false) =>
        call<'testDestination'>('POST', `${pipe(pipeId)}/destinations/test${sample ? '?sample=true' : ''}`, {
          body,
          timeoutMs: 90_000,
        }),
      drift: (pipeId: string, destinationId: string, signal?: AbortSignal) =>
        call<'getDrift'>('GET', `${destination(pipeId, destinationId)}/drift`, { signal }),
      tryTransform: (pipeId: string, body: TransformTrialRequest) =>
        call<'tryTransform'>('POST', `${pipe(pipeId)}/destinations/try-transform`, { body }),
      /** Proposes a table; with `create_table` or `add_columns` makes it so, which may take a while. */
      infer: (pipeId: string, body: TableInferenceBody) =>
        call<'inferTable'>('POST', `${pipe(pipeId)}/destinations/infer`, { body, timeoutMs: 120_000 }),
    },
    lanes: {
      skip: (pipeId: string, destinationId: string) =>
        call<'skipBlockingMessage'>('POST', `${destination(pipeId, destinationId)}/skip`),
      retry: (pipeId: string, destinationId: string) =>
        call<'retryNow'>('POST', `${destination(pipeId, destinationId)}/retry-now`),
      rewind: (pipeId: string, destinationId: string, to: string | number) =>
        call<'rewindDestination'>('POST', `${destination(pipeId, destinationId)}/rewind`, {
          body: { to },
        }),
      /** With `from`: some of its records, from that place on. */
      blockingMessage: (
        pipeId: string,
        destinationId: string,
        page: { from?: number; limit?: number } = {},
      ) =>
        call<'getBlockingMessage'>(
          'GET',
          `${destination(pipeId, destinationId)}/blocking-message?${new URLSearchParams(
            Object.entries(page).map(([name, value]): [string, string] => [name, String(value)]),
          )}`,
        ),
    },
    parked: {
      /** `query`: as the operation takes it. */
      list: (pipeId: string, destinationId: string, query: Record<string, string>, signal?: AbortSignal) =>
        call<'listParked'>('GET', `${parked(pipeId, destinationId)}?${new URLSearchParams(query)}`, {
          signal,
        }),
      get: (pipeId: string, destinationId: string, parkedId: string, signal?: AbortSignal) =>
        call<'getParked'>('GET', parked(pipeId, destinationId, parkedId), { signal }),
      /** `records`: each one's JSON text, which goes out as it is; null: as they are stored. */
      replay: (pipeId: string, destinationId: string, parkedId: string, records: readonly string[] | null) =>
        call<'replayParked'>('POST', `${parked(pipeId, destinationId, parkedId)}/replay`, {
          body: new TextEncoder().encode(records === null ? '{}' : `{"records":[${records.join(',')}]}`),
          headers: { 'content-type': 'application/json' },
        }),
      replayMany: (pipeId: string, destinationId: string, body: ParkedSelection) =>
        call<'replayManyParked'>('POST', `${parked(pipeId, destinationId)}/replay`, { body }),
      discard: (pipeId: string, destinationId: string, parkedId: string) =>
        call<'deleteParked'>('DELETE', parked(pipeId, destinationId, parkedId)),
      discardMany: (pipeId: string, destinationId: string, body: ParkedSelection) =>
        call<'discardManyParked'>('POST', `${parked(pipeId, destinationId)}/discard`, { body }),
    },
    limits: {
      /** `how.ifMatch`: the ETag of the pipe. */
      put: (pipeId: string, body: PipeLimits, how: ChangeOptions = {}) =>
        call<'putLimits'>('PUT', `${pipe(pipeId)}/limits`, { body, ...conditional(how) }),
      clear: (pipeId: string) => call<'deleteLimits'>('DELETE', `${pipe(pipeId)}/limits`),
    },
    origins: {
      add: (pipeId: string, originDomain: string) =>
        call<'addAllowedOrigin'>('POST', `${pipe(pipeId)}/allowed-origins`, {
          body: { origin_domain: originDomain },
        }),
      remove: (pipeId: string, originId: string) =>
        call<'removeAllowedOrigin'>(
          'DELETE',
          `${pipe(pipeId)}/allowed-origins/${encodeURIComponent(originId)}`,
        ),
    },
    alerts: {
      get: (signal?: AbortSignal) => call<'getAlerts'>('GET', '/v1/alerts', { signal }),
      put: (body: AlertsPut, how: ChangeOptions = {}) =>
        call<'putAlerts'>('PUT', '/v1/alerts', { body, ...conditional(how) }),
      clear: () => call<'deleteAlerts'>('DELETE', '/v1/alerts'),
      test: () => call<'testAlerts'>('POST', '/v1/alerts/test', { timeoutMs: 60_000 }),
    },
    keys: {
      list: () => call<'listApiKeys'>('GET', '/v1/api-keys'),
      create: (body: ApiKeyCreate) => call<'createApiKey'>('POST', '/v1/api-keys', { body }),
      rotate: (apiKeyId: string, body: ApiKeyRotate) =>
        call<'rotateApiKey'>('POST', `/v1/api-keys/${encodeURIComponent(apiKeyId)}/rotate`, { body }),
      purge: () => call<'purgeApiKeys'>('POST', '/v1/api-keys/purge'),
      revoke: (apiKeyId: string) =>
        call<'revokeApiKey'>('DELETE', `/v1/api-keys/${encodeURIComponent(apiKeyId)}`),
    },
    users: {
      list: () => call<'listUsers'>('GET', '/v1/users'),
      create: (body: object) => call<'createUser'>('POST', '/v1/users', { body }),
      update: (userId: string, body: object) =>
        call<'updateUser'>('PATCH', `/v1/users/${encodeURIComponent(userId)}`, { body }),
      delete: (userId: string) => call<'deleteUser'>('DELETE', `/v1/users/${encodeURIComponent(userId)}`),
      createSetupLink: (body: object) => call<'createSetupLink'>('POST', '/v1/setup-links', { body }),
    },
    /** `body` is sent as it is; `headers` say its type, encoding and idempotency key. */
    ingest: async (
      pipeId: string,
      body: Uint8Array,
      headers: Record<string, string>,
      signal?: AbortSignal,
    ): Promise<Reply<SuccessBody<'ingestRecords'>>> => {
      const path = `/v1/ingest/${encodeURIComponent(pipeId)}`
      const response = await send(dataUrl, credentials, 'POST', path, {
        body,
        headers,
        signal,
        timeoutMs: 120_000,
      })
      return decode<SuccessBody<'ingestRecords'>>(dataUrl, response)
    },
    /** Status 204: no message in time. The text holds the records as they were sent. */
    pull: (
      destinationId: string,
      query: { waitMs: number; afterSeq: number | null },
      signal?: AbortSignal,
    ): Promise<HttpResponse> => {
      const after = query.afterSeq === null ? '' : `&after_seq=${query.afterSeq}`
      const path = `/v1/pull/${encodeURIComponent(destinationId)}?wait_ms=${query.waitMs}${after}`
      return send(dataUrl, credentials, 'GET', path, { signal, timeoutMs: query.waitMs + 30_000 })
    },
    /** `ack`: done with the leased message; `nack`: redeliver it now. */
    settleLease: (destinationId: string, how: 'ack' | 'nack', msgId: string): Promise<HttpResponse> =>
      send(dataUrl, credentials, 'POST', `/v1/pull/${encodeURIComponent(destinationId)}/${how}`, {
        body: { msg_id: msgId },
      }),
  }
}

function conditional({ ifMatch = null }: ChangeOptions): SendOptions {
  return ifMatch === null ? {} : { headers: { 'if-match': ifMatch } }
}

function savingQuery({ checksTransform = true }: SaveOptions): string {
  return checksTransform ? '' : '?check_transform=false'
}

/** The contract types what the daemon returns; only that it is JSON at all is checked here. */
function decode<T>(url: string, response: HttpResponse): Reply<T> {
  const etag = response.headers.get('etag')
  if (response.status === 204 || response.text === '') {
    return { status: response.status, body: null as T, text: '', etag }
  }
  try {
    return { status: response.status, body: JSON.parse(response.text) as T, text: response.text, etag }
  } catch (error) {
    throw new UnreachableFailure(url, 'what responds there does not speak JSON, so it is not pipectl', error)
  }
}
