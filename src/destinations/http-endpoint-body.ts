/** What one HTTP request to an endpoint carries: body, content headers, Standard Webhooks headers. */
import { createHmac } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { HttpEndpointConfig } from '../contract/destination.ts'
import type { Batch } from './driver.ts'

export type BodyFormat = NonNullable<HttpEndpointConfig['body_format']>

/** One request of an attempt. `seq` is the message it belongs to when it carries a single record. */
export interface RequestBody {
  /** The same for every attempt at this batch: the receiver can tell a repetition by it. */
  webhookId: string
  body: Buffer
  seq?: number
}

const lineBreak = 0x0a
const comma = 0x2c

/** The requests of a batch, in order: one, or with `json_object` one a record. Records keep their own text. */
export function* requestBodies(batch: Batch, format: BodyFormat): Generator<RequestBody> {
  if (format !== 'json_object') {
    const body = format === 'ndjson' ? joined(batch, '', '') : asArray(joined(batch, '[', ']'))
    yield { webhookId: batch.identity, body }
    return
  }
  let index = 0
  for (const message of batch.messages) {
    for (const record of lines(message.body)) {
      yield { webhookId: `${batch.identity}-${index}`, body: record, seq: message.seq }
      index += 1
    }
  }
}

export function contentType(format: BodyFormat): string {
  return format === 'ndjson' ? 'application/x-ndjson' : 'application/json'
}

/** Off the event loop. A low level: batches are compressed once and the network is rarely that slow. */
export function compress(body: Buffer): Promise<Buffer> {
  return promisify(gzip)(body, { level: 4 })
}

/**
 * Standard Webhooks. The id and the time are sent always; the signature with a secret. What is signed is the body as
 * it is sent, after compression. `secret` is `whsec_` and base64.
 */
export function webhookHeaders(
  { webhookId }: RequestBody,
  sent: Buffer,
  nowMs: number,
  secret: string | null | undefined,
): Record<string, string> {
  const timestamp = String(Math.floor(nowMs / 1000))
  const headers: Record<string, string> = { 'webhook-id': webhookId, 'webhook-timestamp': timestamp }
  if (secret) {
    const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
    const mac = createHmac('sha256', key).update(`${webhookId}.${timestamp}.`).update(sent)
    headers['webhook-signature'] = `v1,${mac.digest('base64')}`
  }
  return headers
}

/** All bodies one after another, a line break between two, in one allocation. */
function joined(batch: Batch, before: string, after: string): Buffer {
  const separators = Math.max(0, batch.messages.length - 1)
  const bytes = batch.messages.reduce((sum, message) => sum + message.body.length, 0)
  const whole = Buffer.allocUnsafe(bytes + separators + before.length + after.length)
  let at = whole.write(before, 0, 'latin1')
  for (const [index, { body }] of batch.messages.entries()) {
    if (index > 0) {
      whole[at] = lineBreak
      at += 1
    }
    at += body.copy(whole, at)
  }
  whole.write(after, at, 'latin1')
  return whole
}

/** NDJSON in brackets → a JSON array, in place: no record's text holds a raw line break. */
function asArray(text: Buffer): Buffer {
  for (let at = text.indexOf(lineBreak); at !== -1; at = text.indexOf(lineBreak, at + 1)) text[at] = comma
  return text
}

function* lines(body: Buffer): Generator<Buffer> {
  let start = 0
  for (let end = body.indexOf(lineBreak); end !== -1; end = body.indexOf(lineBreak, start)) {
    yield body.subarray(start, end)
    start = end + 1
  }
  yield body.subarray(start)
}
