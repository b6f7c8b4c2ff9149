/**
 * Uploads a large object in parts.
 *
 *   begin ──▶ parts, a few at a time ──▶ complete ──▶ stored once the store returns its ETag
 *     any failure ──▶ the other parts are stopped, the upload removed: its parts would be stored and billed forever
 *
 * After the signal, only the removal is sent, without waiting for it.
 */
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  type PutObjectCommandInput,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { DeliveryError } from '../driver.ts'

const removalMs = 5_000

interface Upload {
  Bucket: string | undefined
  Key: string | undefined
  UploadId: string
}

export interface Parts {
  bodies: AsyncGenerator<Buffer> | Generator<Buffer>
  /** Each part in progress is held in memory. */
  concurrency: number
}

/** Throws the error of the store, or that of the generator of the bodies. The caller closes the generator. */
export async function putInParts(
  client: S3Client,
  object: Omit<PutObjectCommandInput, 'Body'>,
  bodies: Parts,
  signal: AbortSignal,
): Promise<void> {
  const begun = await client.send(new CreateMultipartUploadCommand(object), { abortSignal: signal })
  const { Bucket, Key } = object
  const upload = { Bucket, Key, UploadId: required(begun.UploadId, 'UploadId') }
  try {
    const Parts = await putParts(client, upload, bodies, signal)
    const complete = new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } })
    const { ETag } = await client.send(complete, { abortSignal: signal })
    // A failure can come with status 200.
    required(ETag, 'ETag')
  } catch (error) {
    const removal = remove(client, upload, signal.aborted ? null : signal)
    if (!signal.aborted) await removal
    throw error
  }
}

/** Settles once no part is in progress. */
async function putParts(
  client: S3Client,
  upload: Upload,
  { bodies, concurrency }: Parts,
  signal: AbortSignal,
): Promise<{ PartNumber: number; ETag: string }[]> {
  const failed = new AbortController()
  const abortSignal = AbortSignal.any([signal, failed.signal])
  const parts: { PartNumber: number; ETag: string }[] = []
  let next = 0
  const worker = async () => {
    for (;;) {
      // A generator resolves its calls in their order, so this is the position of the next body.
      const at = next++
      const { done, value: Body } = await bodies.next()
      if (done) return
      const PartNumber = at + 1
      const command = new UploadPartCommand({ ...upload, PartNumber, Body })
      const { ETag } = await client.send(command, { abortSignal })
      parts[at] = { PartNumber, ETag: required(ETag, 'ETag') }
    }
  }
  const errors: unknown[] = []
  const note = (error: unknown) => {
    errors.push(error)
    failed.abort()
  }
  await Promise.all(Array.from({ length: concurrency }, () => worker().catch(note)))
  if (errors.length > 0) throw errors[0]
  return parts
}

export function* cut(body: Buffer, partBytes: number): Generator<Buffer> {
  for (let at = 0; at < body.length; at += partBytes) yield body.subarray(at, at + partBytes)
}

/** Ignores its own errors: the first failure is the one to report. */
async function remove(client: S3Client, upload: Upload, signal: AbortSignal | null): Promise<void> {
  const limit = AbortSignal.timeout(removalMs)
  const abortSignal = signal === null ? limit : AbortSignal.any([signal, limit])
  await client.send(new AbortMultipartUploadCommand(upload), { abortSignal }).catch(() => {})
}

function required(value: string | undefined, name: string): string {
  if (typeof value === 'string' && value !== '') return value
  const message = `The object store accepted a part of the object, but its response has no ${name}.`
  throw new DeliveryError('transient', 'incomplete_response', message)
}
