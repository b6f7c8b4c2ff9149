/**
 * Driver of S3-compatible object stores: one object a batch, under a key that the batch alone determines.
 *
 * The SDK's own retries are off: the lane retries. Bodies are Buffers, never streams: they can be signed as a whole, and
 * many stores do not understand the chunked signing that streams bring. Up to 64 MiB go in one PUT, more in parts.
 * Overwriting is harmless, since the same key always gets the same bytes.
 */
import { randomUUID } from 'node:crypto'
import {
  DeleteObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  type PutObjectCommandInput,
  S3Client,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import type { ObjectStoreConfig } from '../contract/destination.ts'
import type {
  Batch,
  DestinationCheck,
  DestinationDriver,
  DestinationSpec,
  DriverModule,
  DriverSettings,
} from './driver.ts'
import { DeliveryError } from './driver.ts'
import { checkTargetUrl, egressHttpAgents } from './egress.ts'
import { objectOf } from './object-store-body.ts'
import { objectStoreError } from './object-store-errors.ts'

export const objectStore: DriverModule = { open: openObjectStore, check: checkObjectStore }

// The SDK says at every start that its next releases want a newer Node.js. Which release runs is package.json's choice,
// not the operator's, and the log is for what an operator can act on.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'

const multipartAboveBytes = 64 * 1024 * 1024
const partBytes = 16 * 1024 * 1024

function openObjectStore(spec: DestinationSpec, settings: DriverSettings): DestinationDriver {
  const config = configOf(spec)
  const store = openStore(config, settings)
  return {
    async deliver(batch: Batch, signal: AbortSignal) {
      try {
        const { key, body, contentType, contentEncoding } = await objectOf(batch, spec, config)
        await store.put(
          { Key: key, Body: body, ContentType: contentType, ContentEncoding: contentEncoding },
          signal,
        )
      } catch (error) {
        if (signal.aborted) throw new DeliveryError('transient', 'aborted', 'The attempt was stopped.')
        throw store.deliveryError(error, batch.firstSeq)
      }
    },
    async close() {
      store.close()
    },
  }
}

/** A zero-byte object is written where the first one of now would go, and removed: only that shows the right to write. */
async function checkObjectStore(
  spec: DestinationSpec,
  settings: DriverSettings,
  signal: AbortSignal,
): Promise<DestinationCheck[]> {
  const config = configOf(spec)
  const store = openStore(config, settings)
  const checks: DestinationCheck[] = []
  const failed = (name: string, error: unknown) =>
    checks.push({ name, ok: false, message: store.deliveryError(error, 0).message })
  try {
    await store.head(signal)
    checks.push({ name: 'bucket', ok: true, message: `Bucket "${config.bucket}" is there.` })
  } catch (error) {
    // Looking at a bucket takes another right than writing to it; the write below decides.
    if (!isForbidden(error)) {
      failed('bucket', error)
      store.close()
      return checks
    }
  }
  try {
    const { key } = await objectOf(emptyBatch(Date.now()), spec, config)
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
  return checks
}

interface Store {
  head(signal: AbortSignal): Promise<void>
  put(object: Omit<PutObjectCommandInput, 'Bucket'> & { Body: Buffer }, signal: AbortSignal): Promise<void>
  remove(key: string, signal: AbortSignal): Promise<void>
  deliveryError(error: unknown, firstSeq: number): DeliveryError
  close(): void
}

function openStore(config: ObjectStoreConfig, { egress }: DriverSettings): Store {
  const { bucket, region = 'us-east-1', endpoint = null } = config
  const agents = egressHttpAgents(egress)
  const client = new S3Client({
    region,
    ...(endpoint === null ? {} : { endpoint }),
    forcePathStyle: config.force_path_style ?? endpoint !== null,
    ...credentialsOf(config),
    maxAttempts: 1,
    // Checksums beside the signed hash of the body are unknown to many compatible stores.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      ...agents,
      connectionTimeout: 15_000,
      requestTimeout: 110_000,
      throwOnRequestTimeout: true,
    },
  })
  const options = optionsOf(config)
  return {
    async head(abortSignal) {
      refuseEgress()
      await client.send(new HeadBucketCommand({ Bucket: bucket }), { abortSignal })
    },
    async put(object, abortSignal) {
      refuseEgress()
      const params = { Bucket: bucket, ...options, ...object }
      if (object.Body.length <= multipartAboveBytes)
        await client.send(new PutObjectCommand(params), { abortSignal })
      else await putInParts(client, params, abortSignal)
    },
    async remove(key, abortSignal) {
      await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }), { abortSignal })
    },
    deliveryError: (error, firstSeq) => objectStoreError(error, { bucket, region, firstSeq }),
    close() {
      client.destroy()
      agents.httpAgent.destroy()
      agents.httpsAgent.destroy()
    },
  }

  function refuseEgress(): void {
    const refused = endpoint === null ? null : checkTargetUrl(endpoint, egress)
    if (refused) throw refused
  }
}

/** A failed upload's parts are removed, so that they are not stored and billed for ever. */
async function putInParts(
  client: S3Client,
  params: PutObjectCommandInput,
  signal: AbortSignal,
): Promise<void> {
  const upload = new Upload({ client, params, partSize: partBytes, queueSize: 2, leavePartsOnError: false })
  const stop = () => void upload.abort()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await upload.done()
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

/** Management checked the config against this very schema before it was stored (see `DestinationSpec`). */
function configOf({ config }: DestinationSpec): ObjectStoreConfig {
  return config as ObjectStoreConfig
}

/** Without keys the SDK looks for credentials of the machine itself (environment, profile, instance role). */
function credentialsOf({ access_key, secret_key, session_token }: ObjectStoreConfig) {
  if (!access_key || !secret_key) return {}
  return {
    credentials: {
      accessKeyId: access_key,
      secretAccessKey: secret_key,
      ...(session_token ? { sessionToken: session_token } : {}),
    },
  }
}

function optionsOf({ storage_class, sse, kms_key_id }: ObjectStoreConfig): Partial<PutObjectCommandInput> {
  const options: Partial<Record<'StorageClass' | 'ServerSideEncryption' | 'SSEKMSKeyId', string>> = {}
  if (storage_class) options.StorageClass = storage_class
  if (sse) options.ServerSideEncryption = sse
  if (kms_key_id) options.SSEKMSKeyId = kms_key_id
  // The SDK's types list today's values; a compatible store may have its own.
  return options as Partial<PutObjectCommandInput>
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
  }
}
