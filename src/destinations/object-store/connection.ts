/** The store of one destination. Up to 64 MiB are sent in one PUT, larger objects in parts. */
import {
  DeleteObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  type PutObjectCommandInput,
} from '@aws-sdk/client-s3'
import { DeliveryError, type DriverSettings, type ObjectStoreSpec } from '../driver.ts'
import { checkTargetUrl, egressHttpAgents } from '../egress.ts'
import { ReadLimit } from '../guards.ts'
import { objectStoreError } from './errors.ts'
import { cut, putInParts } from './multipart.ts'
import { openS3Client, type StoreAccount, storageOptions } from './s3-client.ts'

type ObjectStoreConfig = ObjectStoreSpec['config']

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
  const account = accountOf(config)
  const s3 = openS3Client(account, egressHttpAgents(egress, reads), { requestTimeoutMs: 110_000 })
  const { client } = s3
  const options = storageOptions(account)
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
      else {
        const { Body, ...rest } = params
        await putInParts(client, rest, { bodies: cut(Body, partBytes), concurrency: 2 }, abortSignal)
      }
    },
    async remove(key, abortSignal) {
      await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }), { abortSignal })
    },
    deliveryError: (error, firstSeq) => reads.error ?? objectStoreError(error, { bucket, region, firstSeq }),
    close: () => s3.close(),
  }

  function requireAllowed(): void {
    if (!hasKeys(config) && !mayUseMachineCredentials(config, settings)) throw noCredentials(config)
    const denied = endpoint === null ? null : checkTargetUrl(endpoint, egress)
    if (denied) throw denied
  }
}

function accountOf(config: ObjectStoreConfig): StoreAccount {
  return {
    region: config.region,
    endpoint: config.endpoint,
    forcePathStyle: config.force_path_style,
    accessKey: config.access_key,
    secretKey: config.secret_key,
    sessionToken: config.session_token,
    sse: config.sse,
    kmsKeyId: config.kms_key_id,
    storageClass: config.storage_class,
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
