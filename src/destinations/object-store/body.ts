/**
 * A batch as one object: its bytes and its key. Both depend on the batch alone, never on the clock or on chance, so
 * that a retry writes the very same object again: there is one copy, whatever became of the first response.
 */
import { promisify } from 'node:util'
import { gzip as gzipWithCallback } from 'node:zlib'
import { filledBodies, toJsonArray, toNdjson } from '../../buffer/record-text.ts'
import { keyInEpoch, parseKeyTemplate, renderKey } from '../../contract/key-template.ts'
import { type Batch, DeliveryError, type ObjectStoreSpec } from '../driver.ts'

export interface StoredObject {
  key: string
  body: Buffer
  contentType: string
  contentEncoding: string | undefined
}

/** Compression runs on a thread of the pool. Rejects with a permanent DeliveryError when the key template is wrong. */
export async function objectOf(batch: Batch, spec: ObjectStoreSpec, epoch = 1): Promise<StoredObject> {
  const { format, compression, key_template } = spec.config
  const isGzip = compression === 'gzip'
  const extension = `${format === 'ndjson' ? 'ndjson' : 'json'}${isGzip ? '.gz' : ''}`
  const key = keyOf(batch, spec, { template: key_template, extension, epoch })
  const bodies = filledBodies(batch.messages)
  // NDJSON ends with a line break, so that objects can be put one after another.
  const plain = format === 'ndjson' ? toNdjson(bodies, '', '\n') : toJsonArray(bodies)
  return {
    key,
    // Node's gzip header holds no time. Level 6 of 500-byte records keeps up with more than 100,000 records/s.
    body: isGzip ? await gzip(plain, { level: 6 }) : plain,
    contentType: format === 'ndjson' ? 'application/x-ndjson' : 'application/json',
    contentEncoding: isGzip ? 'gzip' : undefined,
  }
}

const gzip = promisify(gzipWithCallback)

/**
 * Times are those of the first message, in UTC. Sequence numbers have 16 digits (2^53 has 16), so that keys sort in
 * the order of the pipe.
 */
function keyOf(
  batch: Batch,
  spec: ObjectStoreSpec,
  { template, extension, epoch }: { template: string; extension: string; epoch: number },
): string {
  const parsed = parseKeyTemplate(template)
  if (!parsed.ok)
    throw new DeliveryError('permanent', 'invalid_key_template', `key_template ${parsed.message}.`, {
      failedSeq: batch.firstSeq,
    })
  const [first] = batch.messages
  const time = new Date(first?.receivedMs ?? 0).toISOString()
  const padded = (seq: number) => String(seq).padStart(16, '0')
  const rendered = renderKey(parsed.parts, {
    pipe_name: spec.pipeName,
    pipe_id: spec.pipeId,
    destination_id: spec.destinationId,
    yyyy: time.slice(0, 4),
    MM: time.slice(5, 7),
    dd: time.slice(8, 10),
    HH: time.slice(11, 13),
    mm: time.slice(14, 16),
    ss: time.slice(17, 19),
    first_seq: padded(batch.firstSeq),
    last_seq: padded(batch.lastSeq),
    msg_id: first?.msgId ?? batch.identity,
    epoch: String(epoch),
    ext: extension,
  })
  const key = keyInEpoch(rendered, parsed.parts, { epoch, extension })
  // The name of a pipe is free text.
  if (key.split('/').some((segment) => segment === '.' || segment === '..'))
    throw new DeliveryError(
      'permanent',
      'invalid_key_template',
      'key_template gives a key with . or .. in it.',
      {
        failedSeq: batch.firstSeq,
      },
    )
  if (Buffer.byteLength(key) <= 1024) return key
  throw new DeliveryError('permanent', 'KeyTooLongError', 'key_template gives a key of over 1024 bytes.', {
    failedSeq: batch.firstSeq,
  })
}
