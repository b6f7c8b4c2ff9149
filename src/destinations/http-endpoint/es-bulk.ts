/**
 * The `_bulk` API of Elasticsearch and OpenSearch. A request has two lines per record: an action and the record. The
 * response has status 200 and a result per record:
 *
 *   201, and 409 (the id exists)     stored: every record has its own id, so repeating a batch changes nothing
 *   429, 5xx                         the batch is sent again
 *   another 4xx                      the record is rejected: it is parked, or the batch fails
 *
 * The whole response is read, within the usual limit. Therefore a large batch is split into several requests.
 */
import { v5 } from 'uuid'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { AttemptProgress, Batch, RejectedRecord } from '../driver.ts'
import { DeliveryError } from '../driver.ts'
import { protocolError } from '../guards.ts'
import { type SingleRecord, singleRecords } from '../one-by-one.ts'
import { parkAll } from '../park.ts'
import type { RequestBody } from './request.ts'

export interface BulkRequest extends RequestBody {
  records: readonly SingleRecord[]
  isFirst: boolean
}

/** Splits a batch into its requests, in order. */
export function* bulkRequests(batch: Batch, destinationId: string): Generator<BulkRequest, void> {
  const { identity, messages } = batch
  const isOnlyMessage = messages.length === 1
  let number = 0
  let records: SingleRecord[] = []
  const request = (): BulkRequest => {
    const firstSeq = records[0]?.seq ?? batch.firstSeq
    return {
      webhookId: number === 0 ? identity : v5(String(number), identity),
      body: toBulk(records),
      firstSeq,
      ...(isOnlyMessage ? { only: { seq: firstSeq, recordIndex: null } } : {}),
      records,
      isFirst: number === 0,
    }
  }
  for (const record of singleRecords(batch, destinationId)) {
    records.push(record)
    if (records.length < resourceLimits.bulkRecords) continue
    yield request()
    records = []
    number += 1
  }
  if (records.length > 0) yield request()
}

function toBulk(records: readonly SingleRecord[]): Buffer {
  const parts: Buffer[] = []
  for (const { id, body } of records) parts.push(Buffer.from(`{"create":{"_id":"${id}"}}\n`), body, lineEnd)
  return Buffer.concat(parts)
}

const lineEnd = Buffer.from('\n')

interface ItemResult {
  status: number
  type: string
  reason: string
}

/** Resolves once every record of the request is stored or parked. Rejects with a DeliveryError. */
export async function settleBulk(
  answer: string,
  sent: readonly SingleRecord[],
  progress: AttemptProgress,
): Promise<void> {
  const results = parseResults(answer, sent.length)
  const refused: RejectedRecord[] = []
  let later: ItemResult | null = null
  for (const [place, result] of results.entries()) {
    const { status, type, reason } = result
    const { seq, recordIndex } = sent[place]!
    if ((status >= 200 && status < 300) || status === 409) continue
    if (status >= 400 && status < 500 && status !== 429 && status !== 408)
      refused.push({
        seq,
        recordIndex,
        code: type,
        message: `The index rejected the record (${status}): ${reason}`,
      })
    else later ??= result
  }
  const [first] = refused
  if (first !== undefined) {
    if (progress.park === null) {
      const { code, message, seq: failedSeq } = first
      throw new DeliveryError('permanent', code, message, { fault: 'records', failedSeq, rejected: first })
    }
    await parkAll(progress.park, refused)
  }
  if (later !== null) {
    const { status, type, reason } = later
    throw new DeliveryError(
      'transient',
      type,
      `The index cannot store some of the records now (${status}): ${reason}`,
    )
  }
}

/** Throws if the outcome of any record is uncertain. */
function parseResults(answer: string, count: number): ItemResult[] {
  let items: unknown
  try {
    items = Object(JSON.parse(answer)).items
  } catch (error) {
    throw unclear(error)
  }
  if (!Array.isArray(items) || items.length !== count) throw unclear()
  return items.map((item) => {
    const { status, error } = Object(Object(item).create)
    if (!Number.isInteger(status)) throw unclear()
    const { type, reason } = Object(error)
    return {
      status,
      type: typeof type === 'string' ? type : `http_${status}`,
      reason: typeof reason === 'string' ? reason : 'no reason was given.',
    }
  })
}

function unclear(cause?: unknown): DeliveryError {
  const message =
    'The response of _bulk does not report a result for each record: check that url ends with /_bulk.'
  return protocolError(message, cause)
}
