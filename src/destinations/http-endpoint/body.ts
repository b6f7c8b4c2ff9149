/** Builds one HTTP request to an endpoint: body, content headers, Standard Webhooks headers. */
import { createHmac } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { BodyFormat } from '../../contract/destinations/http-endpoint.fields.ts'
import { filledBodies, toJsonArray, toNdjson } from '../../log/record-text.ts'
import type { Batch, HttpEndpointSpec } from '../driver.ts'
import { singleRecords } from '../one-by-one.ts'
import { toLokiPush, toSlackMessage } from './vendor-bodies.ts'

/** One request of an attempt. */
export interface RequestBody {
  /** The same for every attempt, so that the receiver can detect a repetition. */
  webhookId: string
  body: Buffer
  /** The first message in this request. */
  firstSeq: number
  /**
   * Set if the request holds only one record, or one message whose records the endpoint does not distinguish (null).
   */
  only?: { seq: number; recordIndex: number | null }
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
    if (format === 'ndjson') return toNdjson(bodies, '', '\n')
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

export function contentType(format: BodyFormat): string {
  return format === 'ndjson' || format === 'es_bulk' ? 'application/x-ndjson' : 'application/json'
}

/** Runs off the event loop. Uses a low level: a batch is compressed once, and the network is rarely that slow. */
export function compress(body: Buffer): Promise<Buffer> {
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
