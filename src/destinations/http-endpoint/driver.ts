/**
 * HTTP endpoint driver. A batch is one request (`json_array`, `ndjson`), one request per record (`json_object`,
 * `slack`), or one request per few thousand records (`es_bulk`). A repeated request has the same `webhook-id`.
 */
import { isOneByOne } from '../../contract/destinations/http-endpoint.fields.ts'
import type { AttemptProgress, Batch, DriverModule, HttpEndpointSpec } from '../driver.ts'
import { DeliveryError, noProgress } from '../driver.ts'
import { sendOneByOne } from '../one-by-one.ts'
import { rejectionOf } from '../park.ts'
import { batchBody, compress, contentType, type RequestBody, recordBodies, webhookHeaders } from './body.ts'
import { checkHttpEndpoint } from './check.ts'
import { concernsEndpoint, type EndpointResponse, responseError } from './errors.ts'
import { bulkRequests, settleBulk } from './es-bulk.ts'
import { type Endpoint, openEndpoint } from './request.ts'

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
  if (!isOneByOne(format)) return void (await send(batchBody(batch, spec)))
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
