/** POST destinations/test for object stores: checks the bucket, and writes and removes an empty object. */
import { randomUUID } from 'node:crypto'
import type {
  Batch,
  DestinationCheck,
  DriverSettings,
  ObjectStoreSpec,
  RejectedRecord,
  Sample,
} from '../driver.ts'
import { objectKey } from './body.ts'
import { openStore } from './connection.ts'
import type { ParquetEnds } from './parquet.ts'

/**
 * Writes an empty object under the key that an object would get now, and removes it: only that proves the permission to write.
 */
export async function checkObjectStore(
  spec: ObjectStoreSpec,
  settings: DriverSettings,
  signal: AbortSignal,
  sample: Sample | null = null,
): Promise<DestinationCheck[]> {
  const { config } = spec
  const store = openStore(config, settings)
  const checks: DestinationCheck[] = []
  const failed = (name: string, error: unknown) =>
    checks.push({ name, ok: false, message: store.deliveryError(error, 0).message })
  try {
    await store.head(signal)
    checks.push({ name: 'bucket', ok: true, message: `Bucket "${config.bucket}" exists.` })
  } catch (error) {
    // Reading a bucket's properties takes another permission than writing to it; the write below decides.
    if (!isForbidden(error)) {
      failed('bucket', error)
      store.close()
      return checks
    }
  }
  try {
    const key = objectKey(emptyBatch(Date.now()), spec, settings.epoch)
    const probe = `${key.slice(0, key.lastIndexOf('/') + 1)}.pipectl-check-${randomUUID()}`
    await store.put({ Key: probe, Body: Buffer.alloc(0) }, signal)
    const isRemoved = await store.remove(probe, signal).then(
      () => true,
      () => false,
    )
    const rest = isRemoved ? '' : ` The empty object ${probe} could not be removed.`
    checks.push({ name: 'write', ok: true, message: `Objects can be written.${rest}` })
  } catch (error) {
    failed('write', error)
  }
  store.close()
  if (config.format === 'parquet') checks.push(...(await checkSchema(spec, sample)))
  return checks
}

/** Builds a Parquet object without records, and with a sample one of the pipe's newest message. Nothing is stored. */
async function checkSchema(spec: ObjectStoreSpec, sample: Sample | null): Promise<DestinationCheck[]> {
  const { columnText, parquetColumns } = await import('./parquet-columns.ts')
  await encodeHere(emptyBatch(Date.now()), spec, null)
  const columns = parquetColumns(spec.columns, spec.timestampField).map(columnText)
  const schema = { name: 'schema', ok: true, message: `Objects have the columns ${columns.join(', ')}.` }
  if (sample === null) return [schema]
  const { recent, isTransformed = false } = sample
  if (recent === null)
    return [
      schema,
      { name: 'sample', ok: true, message: 'The pipe has no record yet that the destination would get.' },
    ]
  const batch = { ...emptyBatch(Date.now()), messages: [recent], recordCount: recent.recordCount }
  const refused: { count: number; first?: RejectedRecord | undefined } = { count: 0 }
  const park = async (some: readonly RejectedRecord[]) => {
    refused.first ??= some[0]
    refused.count += some.length
  }
  const rowCount = await encodeHere(batch, spec, park)
  const { first } = refused
  const of = isTransformed
    ? 'that the transform keeps of the newest message it keeps any of'
    : "of the pipe's newest message"
  const message =
    first === undefined
      ? `The ${rowCount} records ${of} fit.`
      : `Of the ${rowCount + refused.count} records ${of} ${refused.count} do not fit: ${first.message}`
  return [schema, { name: 'sample', ok: first === undefined, message }]
}

/** A check has a thread of its own already. Returns the number of rows. */
async function encodeHere(
  { messages }: Batch,
  { columns, timestampField, config: { compression } }: ObjectStoreSpec,
  park: ParquetEnds['park'],
): Promise<number> {
  const [{ encodeParquet }, { BatchPortions }] = await Promise.all([
    import('./parquet.ts'),
    import('../batch-portions.ts'),
  ])
  const portions = new BatchPortions(messages)
  const next = async () => portions.next()
  return await encodeParquet({ columns, timestampField, compression }, { next, park, rowGroup: () => {} })
}

function isForbidden(error: unknown): boolean {
  return (
    error instanceof Error &&
    '$metadata' in error &&
    Reflect.get(error.$metadata ?? {}, 'httpStatusCode') === 403
  )
}

function emptyBatch(nowMs: number): Batch {
  const message = {
    seq: 0,
    pipeId: '',
    msgId: randomUUID(),
    receivedMs: nowMs,
    recordCount: 0,
    body: Buffer.alloc(0),
  }
  return {
    identity: message.msgId,
    firstSeq: 0,
    lastSeq: 0,
    messages: [message],
    recordCount: 0,
    byteCount: 0,
    recordOffset: 0,
  }
}
