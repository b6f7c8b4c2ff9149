/**
 * The client of one store. The SDK's own retries are off, because the lane retries. Bodies are Buffers, never streams: they can
 * be signed as a whole, and many stores do not support the chunked signing of streams. Up to 64 MiB are sent in one PUT, larger
 * objects in parts.
 */
import {
  DeleteObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  type PutObjectCommandInput,
  S3Client,
} from '@aws-sdk/client-s3'
import { DeliveryError, type DriverSettings, type ObjectStoreSpec } from '../driver.ts'
import { checkTargetUrl, egressHttpAgents } from '../egress.ts'
import { ReadLimit } from '../guards.ts'
import { boundResponses, endUnanswered } from './bounded-responses.ts'
import { objectStoreError } from './errors.ts'
import { putInParts } from './multipart.ts'

type ObjectStoreConfig = ObjectStoreSpec['config']

// The SDK warns at every start that its next releases require a newer Node.js. The operator cannot act on that: package.json
// decides which release runs.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'

export interface PartSizes {
  /** Larger objects are sent in parts. */
  aboveBytes: number
  partBytes: number
}
const partSizes: PartSizes = { aboveBytes: 64 * 1024 * 1024, partBytes: 16 * 1024 * 1024 }

export interface Store {
  /** Restarts the count of the bytes that an attempt may read. */
  beginAttempt(): void
  head(signal: AbortSignal): Promise<void>
  put(object: Omit<PutObjectCommandInput, 'Bucket'> & { Body: Buffer }, signal: AbortSignal): Promise<void>
  remove(key: string, signal: AbortSignal): Promise<void>
  deliveryError(error: unknown, firstSeq: number): DeliveryError
  close(): void
}

export function openStore(
  config: ObjectStoreConfig,
  settings: DriverSettings,
  { aboveBytes, partBytes } = partSizes,
): Store {
  const { bucket, region, endpoint } = config
  const { egress } = settings
  const reads = new ReadLimit()
  const agents = egressHttpAgents(egress, reads)
  endUnanswered(agents.httpAgent)
  endUnanswered(agents.httpsAgent)
  const client = new S3Client({
    region,
    ...(endpoint === null ? {} : { endpoint }),
    forcePathStyle: config.force_path_style,
    ...credentialsOf(config),
    maxAttempts: 1,
    // Many compatible stores do not support checksums in addition to the signed hash of the body.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: {
      ...agents,
      connectionTimeout: 15_000,
      requestTimeout: 110_000,
      throwOnRequestTimeout: true,
    },
  })
  boundResponses(client)
  const options = optionsOf(config)
  return {
    beginAttempt: () => reads.begin(),
    async head(abortSignal) {
      requireAllowed()
      await client.send(new HeadBucketCommand({ Bucket: bucket }), { abortSignal })
    },
    async put(object, abortSignal) {
      requireAllowed()
      const params = { Bucket: bucket, ...options, ...object }
      if (object.Body.length <= aboveBytes) await client.send(new PutObjectCommand(params), { abortSignal })
      else await putInParts(client, params, partBytes, abortSignal)
    },
    async remove(key, abortSignal) {
      await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }), { abortSignal })
    },
    deliveryError: (error, firstSeq) => reads.error ?? objectStoreError(error, { bucket, region, firstSeq }),
    close() {
      client.destroy()
      agents.httpAgent.destroy()
      agents.httpsAgent.destroy()
    },
  }

  function requireAllowed(): void {
    if (!hasKeys(config) && !mayUseMachineCredentials(config, settings)) throw noCredentials(config)
    const denied = endpoint === null ? null : checkTargetUrl(endpoint, egress)
    if (denied) throw denied
  }
}

/** Without keys, the SDK searches for credentials of the machine (environment, profile, instance role). */
function credentialsOf(config: ObjectStoreConfig) {
  const { access_key, secret_key, session_token } = config
  if (!hasKeys(config)) return {}
  return {
    credentials: {
      accessKeyId: access_key ?? '',
      secretAccessKey: secret_key ?? '',
      ...(session_token ? { sessionToken: session_token } : {}),
    },
  }
}

function hasKeys({ access_key, secret_key }: ObjectStoreConfig): boolean {
  return Boolean(access_key) && Boolean(secret_key)
}

/**
 * The machine's credentials belong to the operator, and any workspace could use them. They are allowed only for buckets that
 * the operator lists, and never for an endpoint that the workspace chose, which would receive them.
 */
function mayUseMachineCredentials(
  { bucket, endpoint }: ObjectStoreConfig,
  { machineCredentials = [] }: DriverSettings,
): boolean {
  return endpoint === null && machineCredentials.includes(bucket)
}

function noCredentials({ bucket, endpoint }: ObjectStoreConfig): DeliveryError {
  const message =
    endpoint === null
      ? `Set access_key and secret_key. The credentials of this machine are used only for the buckets in the setting object_store.machine_credentials, and "${bucket}" is not one of them.`
      : 'Set access_key and secret_key. The credentials of this machine are never used with an endpoint.'
  return new DeliveryError('permanent', 'no_credentials', message)
}

function optionsOf({ storage_class, sse, kms_key_id }: ObjectStoreConfig): Partial<PutObjectCommandInput> {
  const options: Partial<Record<'StorageClass' | 'ServerSideEncryption' | 'SSEKMSKeyId', string>> = {}
  if (storage_class) options.StorageClass = storage_class
  if (sse) options.ServerSideEncryption = sse
  if (kms_key_id) options.SSEKMSKeyId = kms_key_id
  // The SDK's types list known values; a compatible store can have others.
  return options as Partial<PutObjectCommandInput>
}
