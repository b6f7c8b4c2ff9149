/**
 * HTTP endpoint driver. A batch is one request (`json_array`, `ndjson`), one request per record (`json_object`,
 * `slack`), or one request per few thousand records (`es_bulk`). A repeated request has the same `webhook-id`.
 */
import { createHmac } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { type BodyFormat, oneByOneFormats } from '../../contract/destinations/http-endpoint.fields.ts'
import { asNdjson, filledBodies, toJsonArray } from '../../log/record-text.ts'
import {
  type AttemptProgress,
  type Batch,
  DeliveryError,
  type DriverModule,
  type HttpEndpointSpec,
  noProgress,
} from '../driver.ts'
import { sendOneByOne, singleRecords } from '../one-by-one.ts'
import { rejectionOf } from '../park.ts'
import { checkHttpEndpoint } from './check.ts'
import { bulkRequests, settleBulk } from './es-bulk.ts'
import { type Endpoint, openEndpoint, type RequestBody } from './request.ts'
import { concernsEndpoint, type EndpointResponse, responseError } from './response.ts'
import { toLokiPush, toSlackMessage } from './vendor-bodies.ts'

export const httpEndpoint: DriverModule<HttpEndpointSpec> = {
  open(spec, settings) {
    const endpoint = openEndpoint(spec, settings)
    return {
      deliver: (batch, signal, progress = noProgress) => deliver({ endpoint, spec }, batch, signal, progress),
      close: () => endpoint.close(),
    }
  },
  check: checkHttpEndpoint,
}

async function deliver(
  { endpoint, spec }: { endpoint: Endpoint; spec: HttpEndpointSpec },
  batch: Batch,
  signal: AbortSignal,
  progress: AttemptProgress,
): Promise<void> {
  const { body_format: format } = spec.config
  const send = (body: RequestBody) => sendBody({ endpoint, spec, progress }, body, signal)
  if (format === 'es_bulk') {
    for (const { records, isFirst, ...body } of bulkRequests(batch, spec.destinationId)) {
      if (!isFirst) await progress.beforeRequest()
      const { excerpt } = await send(body)
      await settleBulk(excerpt, records, progress)
    }
    return
  }
  if (!oneByOneFormats.has(format)) return void (await send(batchBody(batch, spec)))
  const records = recordBodies(batch, spec)
  await sendOneByOne(
    { batch, records, concurrency: spec.concurrency ?? 1, send: async (body) => void (await send(body)) },
    signal,
    progress,
  )
}

interface Sending {
  endpoint: Endpoint
  spec: HttpEndpointSpec
  progress: AttemptProgress
}

async function sendBody(
  { endpoint, spec: { config }, progress }: Sending,
  body: RequestBody,
  signal: AbortSignal,
): Promise<EndpointResponse> {
  const isGzip = config.compression === 'gzip'
  const sent = isGzip ? await compress(body.body) : body.body
  const headers = {
    'content-type': contentType(config.body_format),
    ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
    ...webhookHeaders(body, Date.now(), config.signing_secret),
  }
  const isWhole = config.body_format === 'es_bulk'
  const request = { method: config.method, headers, body: sent, isWhole }
  const exchanged = (isFailed: boolean, response: EndpointResponse | null) =>
    progress.exchanged({ isFailed, describe: () => endpoint.describe(request, response) })
  const response = await endpoint.send(request, signal).catch((error: unknown) => {
    if (!signal.aborted) exchanged(true, null)
    // The egress policy rejects the endpoint, not a message.
    const isDenied = error instanceof DeliveryError && error.class === 'permanent'
    throw isDenied ? error.with({ failedSeq: body.firstSeq }) : error
  })
  const failedSeq = concernsEndpoint(response.status) ? body.firstSeq : body.only?.seq
  const error = responseError(response, Date.now(), { secrets: endpoint.secrets, failedSeq })
  exchanged(error !== null, response)
  if (error === null) return response
  if (error.fault !== 'records' || body.only === undefined) throw error
  throw error.with({ rejected: rejectionOf(error, body.only) })
}

/** A batch as one request. Records keep their original text. */
export function batchBody(batch: Batch, { config, pipeName }: HttpEndpointSpec): RequestBody {
  const { identity, firstSeq, messages } = batch
  const bodies = filledBodies(messages)
  return {
    webhookId: identity,
    body: bodyOf(),
    firstSeq,
    ...(messages.length === 1 ? { only: { seq: firstSeq, recordIndex: null } } : {}),
  }

  function bodyOf(): Buffer {
    const { body_format: format, labels } = config
    // Every line of NDJSON ends with a newline, including the last: receivers wait for it.
    if (format === 'ndjson') return asNdjson(bodies)
    if (format === 'loki') return toLokiPush(messages, labels, pipeName)
    return toJsonArray(bodies)
  }
}

/** One request per record: see `singleRecords`. */
export function* recordBodies(
  batch: Batch,
  { config, destinationId }: HttpEndpointSpec,
): Generator<RequestBody, void> {
  const { body_format: format, text_template: template } = config
  for (const { id, body: record, seq, recordIndex } of singleRecords(batch, destinationId)) {
    const body = format === 'slack' ? toSlackMessage(record, template) : record
    yield { webhookId: id, body, firstSeq: seq, only: { seq, recordIndex } }
  }
}

function contentType(format: BodyFormat): string {
  return format === 'ndjson' || format === 'es_bulk' ? 'application/x-ndjson' : 'application/json'
}

/** Runs off the event loop. Uses a low level: a batch is compressed once, and the network is rarely that slow. */
function compress(body: Buffer): Promise<Buffer> {
  return promisify(gzip)(body, { level: 4 })
}

/**
 * Standard Webhooks headers. The id and the time are always sent. With secrets (`whsec_` and base64, separated by a
 * space) there is one signature per secret. The uncompressed body is signed: frameworks decompress a request before an
 * application sees it, so the application could not verify the compressed bytes.
 */
export function webhookHeaders(
  { webhookId, body }: RequestBody,
  nowMs: number,
  secrets: string | null,
): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1000))
  const headers: Record<string, string> = { 'webhook-id': webhookId, 'webhook-timestamp': timestamp }
  if (secrets === null) return headers
  const signatures = secrets.split(' ').map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
    return `v1,${createHmac('sha256', key).update(`${webhookId}.${timestamp}.`).update(body).digest('base64')}`
  })
  return { ...headers, 'webhook-signature': signatures.join(' ') }
}
