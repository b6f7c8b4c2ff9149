/**
 * Uploads a large object in parts.
 *
 *   begin ──▶ parts, two at a time ──▶ complete ──▶ stored once the store returns its ETag
 *     any failure ──▶ the other part is stopped, the upload removed: its parts would be stored and billed forever
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

const partsAtOnce = 2
const removalMs = 5_000

interface Upload {
  Bucket: string | undefined
  Key: string | undefined
  UploadId: string
}

export async function putInParts(
  client: S3Client,
  { Body, ...object }: PutObjectCommandInput & { Body: Buffer },
  partBytes: number,
  signal: AbortSignal,
): Promise<void> {
  const begun = await client.send(new CreateMultipartUploadCommand(object), { abortSignal: signal })
  const { Bucket, Key } = object
  const upload = { Bucket, Key, UploadId: required(begun.UploadId, 'UploadId') }
  try {
    const Parts = await putParts(client, upload, cut(Body, partBytes), signal)
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
  bodies: readonly Buffer[],
  signal: AbortSignal,
): Promise<{ PartNumber: number; ETag: string }[]> {
  const failed = new AbortController()
  const abortSignal = AbortSignal.any([signal, failed.signal])
  const parts: { PartNumber: number; ETag: string }[] = []
  let next = 0
  const worker = async () => {
    for (let at = next++; at < bodies.length; at = next++) {
      const PartNumber = at + 1
      const command = new UploadPartCommand({ ...upload, PartNumber, Body: bodies[at] })
      const { ETag } = await client.send(command, { abortSignal })
      parts[at] = { PartNumber, ETag: required(ETag, 'ETag') }
    }
  }
  const errors: unknown[] = []
  const note = (error: unknown) => {
    errors.push(error)
    failed.abort()
  }
  await Promise.all(Array.from({ length: partsAtOnce }, () => worker().catch(note)))
  if (errors.length > 0) throw errors[0]
  return parts
}

function cut(body: Buffer, partBytes: number): Buffer[] {
  const count = Math.ceil(body.length / partBytes)
  return Array.from({ length: count }, (_, at) => body.subarray(at * partBytes, (at + 1) * partBytes))
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
