/**
 * Objects of an S3 store as sources: `s3://bucket/key`, and `s3://bucket/prefix/` for all objects below it, in the order
 * of their keys. Credentials and region come from the SDK's default chain (environment, profile, role), never from
 * arguments.
 *
 * Every read requires the ETag of the first one, so that an object that is replaced while it is read is an error and
 * not a mixture. A read that breaks off continues at the next byte.
 */
import { setTimeout } from 'node:timers/promises'
import { GetObjectCommand, HeadObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3'
import { backoffMs } from '../../../platform/backoff.ts'
import { commandFailure, exitCodes, Failure, notFoundFailure, usageFailure } from '../../client/failure.ts'
import { digest } from './digest.ts'
import type { StoredSource } from './source.ts'

// The SDK warns that its next releases require a newer Node.js. The user cannot act on that.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'

const longestWaitMs = 15_000

export interface S3Options {
  /** Null: AWS, or the endpoint of the environment or the profile. */
  endpoint: string | null
  env: NodeJS.ProcessEnv
  signal: AbortSignal
  /** How long a broken read is retried. */
  patienceMs: number
  onWait: (reason: string, waitMs: number) => void
}

/** Reading again can help. */
class StoreUnreachable extends Failure {}

interface S3Address {
  bucket: string
  key: string
}

interface Found extends S3Address {
  size: number
  etag: string
}

export function isS3Address(address: string): boolean {
  return address.startsWith('s3://')
}

/** The objects of an address. Throws Failure if there is none. */
export async function openS3(address: string, options: S3Options): Promise<StoredSource[]> {
  const { bucket, key } = parseAddress(address)
  const client = openClient(options)
  const found =
    key === '' || key.endsWith('/')
      ? await list(client, { bucket, key }, options)
      : [await head(client, { bucket, key }, options)]
  if (found.length > 0) return found.map((one) => sourceOf(client, one, options))
  throw notFoundFailure(`${address}: there is no object below it`, 'check the address; a prefix ends with /')
}

function parseAddress(address: string): S3Address {
  const [, bucket, key = ''] = /^s3:\/\/([^/?#@:\s]+)(?:\/(.*))?$/s.exec(address) ?? []
  if (bucket !== undefined) return { bucket, key }
  throw usageFailure(
    `${address.slice(0, 20)}… is not s3://BUCKET/KEY`,
    'credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from AWS_PROFILE; another store from --endpoint',
  )
}

function openClient({ endpoint, env }: S3Options): S3Client {
  const region = env.AWS_REGION ?? env.AWS_DEFAULT_REGION
  return new S3Client({
    ...(endpoint === null ? {} : { endpoint, forcePathStyle: true, region: region ?? 'us-east-1' }),
    // Many compatible stores have no checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: 15_000, requestTimeout: 110_000, throwOnRequestTimeout: true },
  })
}

async function list(client: S3Client, { bucket, key }: S3Address, { signal }: S3Options): Promise<Found[]> {
  const found: Found[] = []
  let token: string | undefined
  do {
    const page = await client
      .send(new ListObjectsV2Command({ Bucket: bucket, Prefix: key, ContinuationToken: token }), {
        abortSignal: signal,
      })
      .catch((error: unknown) => {
        throw failureOf(error, `s3://${bucket}/${key}`, signal)
      })
    for (const { Key = '', Size = 0, ETag = '' } of page.Contents ?? []) {
      // Some tools create an empty object for a folder.
      if (Size > 0 || !Key.endsWith('/')) found.push({ bucket, key: Key, size: Size, etag: ETag })
    }
    token = page.IsTruncated === true ? page.NextContinuationToken : undefined
  } while (token !== undefined)
  // Stores list in the order of UTF-8 bytes. Not all compatible ones do.
  return found.sort((a, b) => Buffer.compare(Buffer.from(a.key), Buffer.from(b.key)))
}

async function head(client: S3Client, { bucket, key }: S3Address, { signal }: S3Options): Promise<Found> {
  const { ContentLength = 0, ETag = '' } = await client
    .send(new HeadObjectCommand({ Bucket: bucket, Key: key }), { abortSignal: signal })
    .catch((error: unknown) => {
      throw failureOf(error, `s3://${bucket}/${key}`, signal)
    })
  return { bucket, key, size: ContentLength, etag: ETag }
}

function sourceOf(client: S3Client, object: Found, options: S3Options): StoredSource {
  const { bucket, key, size, etag } = object
  const name = `s3://${bucket}/${key}`
  const version = `${size} ${etag}`
  return {
    name,
    identity: digest([options.endpoint ?? '', name]),
    version,
    size,
    canGrow: false,
    fingerprint: () => version,
    read: (start) => chunksOf(client, object, { start, end: size }, options),
    slice: async (start, end) => {
      const chunks: Buffer[] = []
      for await (const chunk of chunksOf(client, object, { start, end }, options)) chunks.push(chunk)
      return Buffer.concat(chunks)
    },
    close: () => {},
  }
}

/** The bytes from `start` to `end`, without it. */
async function* chunksOf(
  client: S3Client,
  { bucket, key, etag }: Found,
  { start, end }: { start: number; end: number },
  { signal, patienceMs, onWait }: S3Options,
): AsyncGenerator<Buffer> {
  const name = `s3://${bucket}/${key}`
  let at = start
  let failures = 0
  let deadline = Date.now() + patienceMs
  while (at < end) {
    try {
      const range = `bytes=${at}-${end - 1}`
      const { Body } = await client.send(
        new GetObjectCommand({
          Bucket: bucket,
          Key: key,
          Range: range,
          ...(etag === '' ? {} : { IfMatch: etag }),
        }),
        { abortSignal: signal },
      )
      for await (const chunk of Body as AsyncIterable<Buffer>) {
        const wanted = chunk.subarray(0, end - at)
        at += wanted.length
        failures = 0
        deadline = Date.now() + patienceMs
        yield wanted
      }
      if (at < end) throw Object.assign(new Error('the connection was cut'), { code: 'ECONNRESET' })
    } catch (error) {
      const failure = failureOf(error, name, signal)
      failures += 1
      const waitMs = backoffMs(failures, 500, longestWaitMs)
      if (!(failure instanceof StoreUnreachable) || Date.now() + waitMs > deadline) throw failure
      onWait(failure.message, waitMs)
      await setTimeout(waitMs, undefined, { signal })
    }
  }
}

const again =
  'check the connection to the store, then run the same command again: it continues where it stopped'

/** Never contains more of the SDK's message than its name, because that can contain the access key. */
function failureOf(error: unknown, name: string, signal: AbortSignal): Failure {
  if (error instanceof Failure) return error
  if (signal.aborted) throw signal.reason
  const { code, status } = factsOf(error)
  if (/credential/i.test(code)) {
    const hint = 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE'
    return new Failure(
      exitCodes.auth,
      `${name}: there are no credentials of the store (${code})`,
      hint,
      error,
    )
  }
  if (status === 404)
    return notFoundFailure(`${name}: there is no such object or bucket (${code})`, 'check the address')
  if (status === 401 || status === 403) {
    const hint = 'check the credentials: the key needs s3:GetObject, and s3:ListBucket for a prefix'
    return new Failure(exitCodes.auth, `${name}: the store denies access (${code})`, hint, error)
  }
  if (status === 412) {
    return commandFailure(
      `${name} was replaced while it was read`,
      'run the same command again: the new object is sent from its start',
      error,
    )
  }
  if (status === 301 || status === 400) {
    return commandFailure(
      `${name}: the store rejects the request (${code})`,
      'set AWS_REGION to the region of the bucket',
      error,
    )
  }
  if (/region/i.test(error instanceof Error ? error.message : '') && status === 0) {
    return usageFailure(`${name}: no region is set`, 'set AWS_REGION, or the region of the profile', error)
  }
  return new StoreUnreachable(exitCodes.failed, `${name}: the store cannot be read (${code})`, again, error)
}

function factsOf(error: unknown): { code: string; status: number } {
  const { name, code, $metadata } = Object(error) as {
    name?: unknown
    code?: unknown
    $metadata?: { httpStatusCode?: number }
  }
  const status = $metadata?.httpStatusCode ?? 0
  return { code: String(typeof code === 'string' ? code : (name ?? `HTTP ${status}`)), status }
}
