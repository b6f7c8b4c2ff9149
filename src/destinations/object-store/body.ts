/**
 * Converts a batch to one object: its bytes and its key. Both depend only on the batch, never on the clock or randomness. A
 * retry therefore writes the same object again: there is one copy, whatever happened to the first response.
 */
import { promisify } from 'node:util'
import { gzip as gzipWithCallback } from 'node:zlib'
import { keyInEpoch, keyWith, parseKeyTemplate, renderKey } from '../../contract/key-template.ts'
import { filledBodies, toJsonArray, toNdjson } from '../../log/record-text.ts'
import { type Batch, DeliveryError, type ObjectStoreSpec, type ParkRecords } from '../driver.ts'

export interface StoredObject {
  key: string
  body: Buffer
  contentType: string
  contentEncoding: string | undefined
}

interface ObjectOptions {
  epoch?: number | undefined
  /**
   * If set, receives the records that do not fit, in several calls, and the object holds the others. If not, the first one is
   * an error.
   */
  park?: ParkRecords | null
  signal?: AbortSignal
}

/**
 * Text is compressed on a pool thread. Null: no record is left for an object. Rejects with a permanent DeliveryError if the key
 * template is wrong, or a record does not fit the columns.
 */
export async function objectOf(
  batch: Batch,
  spec: ObjectStoreSpec,
  { epoch, park, signal }: ObjectOptions = {},
): Promise<StoredObject | null> {
  const key = objectKey(batch, spec, epoch)
  if (spec.config.format !== 'parquet') return { key, ...(await textOf(batch, spec)) }
  // Loaded with the first Parquet object.
  const { parquetThreads } = await import('./parquet-threads.ts')
  const options = { park: park ?? null, ...(signal && { signal }) }
  const { rowCount, bytes } = await parquetThreads.encode(batch, spec, options)
  if (rowCount === 0) return null
  return { key, body: bytes, contentType: 'application/vnd.apache.parquet', contentEncoding: undefined }
}

/** The key of the batch's object. Throws a permanent DeliveryError if the key template is wrong. */
export function objectKey(batch: Batch, spec: ObjectStoreSpec, epoch = 1): string {
  const { format, compression, key_template: template } = spec.config
  const names = { ndjson: 'ndjson', json_array: 'json', parquet: 'parquet' }
  // A Parquet file is compressed internally.
  const isGzip = compression === 'gzip' && format !== 'parquet'
  return keyOf(batch, spec, { template, extension: `${names[format]}${isGzip ? '.gz' : ''}`, epoch })
}

async function textOf(batch: Batch, spec: ObjectStoreSpec): Promise<Omit<StoredObject, 'key'>> {
  const { format, compression } = spec.config
  const isGzip = compression === 'gzip'
  const bodies = filledBodies(batch.messages)
  // NDJSON ends with a line break, so that objects can be concatenated.
  const plain = format === 'ndjson' ? toNdjson(bodies, '', '\n') : toJsonArray(bodies)
  return {
    // Node's gzip header holds no time. Level 6 handles more than 100,000 records/s of 500 bytes.
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
  const ofRange = keyInEpoch(rendered, parsed.parts, { epoch, extension })
  // An object of the same range already exists, with the records that were not parked.
  const key = batch.isReplay ? keyWith(`-replay-${batch.identity}`, ofRange, extension) : ofRange
  // The name of a pipe is arbitrary text.
  if (key.split('/').some((segment) => segment === '.' || segment === '..'))
    throw new DeliveryError(
      'permanent',
      'invalid_key_template',
      'key_template produces a key with . or .. as a part.',
      {
        failedSeq: batch.firstSeq,
      },
    )
  if (Buffer.byteLength(key) <= 1024) return key
  throw new DeliveryError(
    'permanent',
    'KeyTooLongError',
    'key_template produces a key of more than 1024 bytes.',
    {
      failedSeq: batch.firstSeq,
    },
  )
}
