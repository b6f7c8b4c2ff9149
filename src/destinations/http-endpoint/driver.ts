/**
 * HTTP endpoint driver: a batch is one request (`json_array`, `ndjson`) or one request per record (`json_object`).
 *
 *   json_object   record 1 ─┐  up to `concurrency` requests under way; the first failure starts no more of them
 *                 record 2 ─┼▶ endpoint     stored = the records from the start without a gap: the next attempt
 *                 record 3 ─┘               goes on after them, and repeats those stored behind the gap
 *
 * A record that is sent again has the same `webhook-id` again.
 */
import type { AttemptProgress, Batch, DriverModule, HttpEndpointSpec } from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { batchBody, compress, contentType, type RequestBody, recordBodies, webhookHeaders } from './body.ts'
import { checkHttpEndpoint } from './check.ts'
import { concernsEndpoint, responseError } from './errors.ts'
import { aborted, type Endpoint, openEndpoint } from './request.ts'

export const httpEndpoint: DriverModule<HttpEndpointSpec> = {
  open(spec, settings) {
    const endpoint = openEndpoint(spec, settings)
    return {
      deliver: (batch, signal, progress) => deliver(endpoint, spec, batch, signal, progress),
      close: () => endpoint.close(),
    }
  },
  check: checkHttpEndpoint,
}

async function deliver(
  endpoint: Endpoint,
  spec: HttpEndpointSpec,
  batch: Batch,
  signal: AbortSignal,
  progress: AttemptProgress | undefined,
): Promise<void> {
  const { body_format: format } = spec.config
  const send = (body: RequestBody) => sendBody(endpoint, spec, body, signal)
  if (format !== 'json_object') return await send(batchBody(batch, format))
  await sendRecords(spec, batch, send, signal, progress)
}

/** Rejects with the error of the first record that is not stored, and with how many before it are. */
async function sendRecords(
  spec: HttpEndpointSpec,
  batch: Batch,
  send: (body: RequestBody) => Promise<void>,
  signal: AbortSignal,
  progress: AttemptProgress | undefined,
): Promise<void> {
  const bodies = recordBodies(batch, spec.destinationId)
  /** Places of records that are stored behind one that is not yet. */
  const ahead = new Set<number>()
  const failures: { place: number; error: unknown }[] = []
  let stored = batch.recordOffset
  let begun = batch.recordOffset
  let next = batch.recordOffset
  const isOver = () => failures.length > 0 || signal.aborted

  const worker = async () => {
    while (begun < batch.recordCount && !isOver()) {
      begun += 1
      if (begun > batch.recordOffset + 1) await progress?.beforeRequest()
      if (isOver()) return
      // Place and body are taken together: who passes the gate first sends the earlier record.
      const place = next++
      const { value: body } = bodies.next()
      if (body === undefined) return
      try {
        await send(body)
        ahead.add(place)
        while (ahead.delete(stored)) stored += 1
        progress?.stored(stored)
      } catch (error) {
        failures.push({ place, error })
      }
    }
  }
  await Promise.all(Array.from({ length: spec.concurrency ?? 1 }, worker))
  const [first] = failures.sort((one, other) => one.place - other.place)
  if (first?.error instanceof DeliveryError) throw first.error.with({ storedRecords: stored })
  if (first !== undefined) throw first.error
  if (signal.aborted && stored < batch.recordCount) throw aborted().with({ storedRecords: stored })
}

async function sendBody(
  endpoint: Endpoint,
  { config }: HttpEndpointSpec,
  body: RequestBody,
  signal: AbortSignal,
): Promise<void> {
  const isGzip = config.compression === 'gzip'
  const sent = isGzip ? await compress(body.body) : body.body
  const headers = {
    'content-type': contentType(config.body_format),
    ...(isGzip ? { 'content-encoding': 'gzip' } : {}),
    ...webhookHeaders(body, Date.now(), config.signing_secret),
  }
  const request = { method: config.method, headers, body: sent }
  const response = await endpoint.send(request, signal).catch((error: unknown) => {
    // The egress policy rejects the endpoint, not a message.
    const isDenied = error instanceof DeliveryError && error.class === 'permanent'
    throw isDenied ? error.with({ failedSeq: body.firstSeq }) : error
  })
  const failedSeq = concernsEndpoint(response.status) ? body.firstSeq : body.recordSeq
  const error = responseError(response, Date.now(), { secrets: endpoint.secrets, failedSeq })
  if (error) throw error
}
