/**
 * The client of `/v1`, derived from the table of operations: `call(operationId, …)`, typed by the contract, and
 * separate functions for streams and raw bodies. A reply has the parsed body and its text, which `-o json` prints.
 * Failures: `failure.ts`.
 */
import { type OperationId, operationPaths } from '../../contract/operation-paths.ts'
import type { RequestBody, RequestPath, RequestQuery, SuccessBody } from '../../contract/operations.ts'
import { UnreachableFailure } from './failure.ts'
import { type HttpResponse, openEvents, type SendOptions, send } from './http.ts'

export interface Reply<T> {
  status: number
  body: T
  /** The body as the daemon sent it; empty for 204. */
  text: string
  /** The version of the resource that was read or changed. Null: it has none. */
  etag: string | null
}

/**
 * The parts of a request. Query parameters can be text, which the daemon validates. Undefined and null are not sent.
 */
export type Request<Id extends OperationId> = PathOf<Id> & BodyOf<Id> & CallOptions<Id>
type PathOf<Id extends OperationId> = [keyof RequestPath<Id>] extends [never]
  ? { path?: undefined }
  : { path: RequestPath<Id> }
/** Bytes are JSON that is sent unchanged. */
type BodyOf<Id extends OperationId> =
  RequestBody<Id> extends undefined
    ? { body?: undefined }
    : { body: RequestBody<Id> | Uint8Array<ArrayBuffer> }
interface CallOptions<Id extends OperationId> {
  query?: Query<Id> | undefined
  signal?: AbortSignal | undefined
  /**
   * The ETag of an earlier read. Throws ApiFailure `changed_meanwhile` if the resource has changed since. Absent or
   * null: no check.
   */
  ifMatch?: string | null | undefined
}
export type Query<Id extends OperationId> = {
  [Name in keyof RequestQuery<Id>]?: string | number | boolean | null | undefined
}

export type PipeList = SuccessBody<'listPipes'>
export type PipeDetail = SuccessBody<'getPipe'>
export type MessageDetail = SuccessBody<'getMessage'>
export type MessageList = SuccessBody<'listMessages'>
export type TableRows = SuccessBody<'queryDestination'>
export type Replay = SuccessBody<'getReplay'>
export type ReplayPlan = SuccessBody<'planReplay'>
export type DestinationBody = RequestBody<'createDestination'>
export type DestinationPatch = RequestBody<'updateDestination'>
export type DestinationTestBody = RequestBody<'testDestination'>
/** A column mapping in a request. Missing fields have defaults. */
export type GivenColumn = NonNullable<DestinationPatch['columns']>[number]

/** A body of unchecked user input. The daemon validates it. */
export function unchecked<Id extends OperationId>(body: object): RequestBody<Id> {
  return body as RequestBody<Id>
}

/** The part of a request that controls how a destination is saved. */
export type SaveOptions = Pick<Request<'updateDestination'>, 'query' | 'ifMatch'>

export interface ClientOptions {
  /** Origin of the management API, without a trailing slash. */
  url: string
  /** Origin of ingest and pull, if it differs. */
  dataUrl?: string | undefined
  apiKey: string | null
  /** The source of the key in words, for the message if the key is rejected. */
  keySource?: string | null
  /** Sent with every request that changes something. The dashboard sends the CSRF token of its session. */
  changeHeaders?: () => Record<string, string>
}

export type Client = ReturnType<typeof openClient>

/** Timeouts in ms of operations for which the daemon connects to another server, or runs a query. Others use the default of `send`. */
const timeouts: Partial<Record<OperationId, number>> = {
  testDestination: 90_000,
  inferTable: 120_000,
  inferSchema: 60_000,
  checkSchema: 60_000,
  testAlerts: 60_000,
  queryDestination: 60_000,
  listTables: 60_000,
  ingestRecords: 120_000,
}

/** Opens no connection. The platform connects with the first request and keeps the connection. */
export function openClient({ url, dataUrl = url, apiKey, keySource = null, changeHeaders }: ClientOptions) {
  const credentials = { apiKey, keySource, changeHeaders }
  const request = async (
    id: OperationId,
    { path, query, ...options }: UntypedRequest,
  ): Promise<HttpResponse> => {
    const origin = onDataUrl.test(operationPaths[id][1]) ? dataUrl : url
    const [method] = operationPaths[id]
    return await send(origin, credentials, {
      timeoutMs: timeouts[id],
      ...options,
      method,
      path: target(id, path, query),
    })
  }
  return {
    url,
    ingestUrl: (pipeId: string) => `${dataUrl}/v1/ingest/${pipeId}`,
    hookUrl: (pipeId: string, token = '') => `${dataUrl}/v1/hooks/${pipeId}${token && `/${token}`}`,
    pullUrl: (destinationId: string) => `${dataUrl}/v1/pull/${destinationId}`,
    call: async <Id extends OperationId>(
      id: Id,
      ...[given]: Record<string, never> extends Request<Id>
        ? [given?: Request<NoInfer<Id>>]
        : [given: Request<NoInfer<Id>>]
    ): Promise<Reply<SuccessBody<Id>>> => {
      const { ifMatch = null, ...options }: UntypedRequest & { ifMatch?: string | null | undefined } =
        given ?? {}
      const headers: Record<string, string> = {}
      if (ifMatch !== null) headers['if-match'] = ifMatch
      if (options.body instanceof Uint8Array) headers['content-type'] = 'application/json'
      return decode(url, await request(id, { ...options, headers }))
    },
    openapi: async () =>
      (
        await send(url, credentials, {
          method: 'GET',
          path: '/openapi/management-v1.openapi.yaml',
          headers: { accept: '*/*' },
        })
      ).text,
    /** The records of a pipe as they are stored, as Server-Sent Events. `lastEventId`: continues after that event. */
    tail: (
      pipe_id: string,
      query: Query<'tailPipe'>,
      lastEventId: string | null,
      signal: AbortSignal,
    ): Promise<ReadableStream<Uint8Array>> =>
      openEvents(url, credentials, target('tailPipe', { pipe_id }, query), {
        headers: lastEventId === null ? {} : { 'last-event-id': lastEventId },
        signal,
      }),
    /** `body` is sent unchanged. `headers` contain its type, encoding and idempotency key. */
    ingest: async (
      pipe_id: string,
      options: Pick<SendOptions, 'headers' | 'signal'> & { body: Uint8Array },
    ): Promise<Reply<SuccessBody<'ingestRecords'>>> =>
      decode(dataUrl, await request('ingestRecords', { path: { pipe_id }, ...options })),
    /** Status 204: no message in time. The text contains the records as they were sent. */
    pull: (
      destination_id: string,
      { waitMs, afterSeq }: { waitMs: number; afterSeq: number | null },
      signal?: AbortSignal,
    ): Promise<HttpResponse> =>
      request('pullMessage', {
        path: { destination_id },
        query: { wait_ms: waitMs, after_seq: afterSeq },
        signal,
        timeoutMs: waitMs + 30_000,
      }),
    /** `ack`: the leased message is processed. `nack`: deliver it again now. */
    settleLease: (destination_id: string, how: 'ack' | 'nack', msg_id: string): Promise<HttpResponse> =>
      request(how === 'ack' ? 'ackMessage' : 'nackMessage', { path: { destination_id }, body: { msg_id } }),
  }
}

interface UntypedRequest extends SendOptions {
  path?: Readonly<Record<string, string>> | undefined
  query?: QueryValues | undefined
}
type QueryValues = Readonly<Record<string, string | number | boolean | null | undefined>>

/** The operations that use `dataUrl`. */
const onDataUrl = /^\/v1\/(ingest|pull)\//

function target(
  id: OperationId,
  path: Readonly<Record<string, string>> = {},
  query: QueryValues = {},
): string {
  const filled = operationPaths[id][1].replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(path[name] ?? ''),
  )
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null)
  if (given.length === 0) return filled
  return `${filled}?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))}`
}

/** The contract types the response. Only its JSON syntax is checked here. */
function decode<T>(url: string, response: HttpResponse): Reply<T> {
  const { status, text } = response
  const etag = response.headers.get('etag')
  if (status === 204 || text === '') return { status, body: null as T, text: '', etag }
  try {
    return { status, body: JSON.parse(text) as T, text, etag }
  } catch (error) {
    throw new UnreachableFailure(url, 'the response is not JSON, so the server is not pipectl', error)
  }
}
