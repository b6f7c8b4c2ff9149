/**
 * The client of one S3 store, for destinations and for the replica. The SDK's own retries are off, because the caller
 * retries. Bodies are Buffers, never streams: they can be signed as a whole, and many stores do not support the chunked
 * signing of streams.
 */
import type http from 'node:http'
import type https from 'node:https'
import { type PutObjectCommandInput, S3Client } from '@aws-sdk/client-s3'
import { boundResponses, endUnanswered, type ResponseLimit } from './bounded-responses.ts'

// The SDK warns at every start that its next releases require a newer Node.js. The operator cannot act on that: package.json
// decides which release runs.
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'

export interface StoreAccount {
  region: string
  /** Null: AWS. */
  endpoint: string | null
  forcePathStyle: boolean
  /** Without the first two, the SDK searches for credentials of the machine (environment, profile, instance role). */
  accessKey: string | null
  secretKey: string | null
  sessionToken: string | null
  sse: string | null
  kmsKeyId: string | null
  storageClass?: string | null
}

export interface ClientOptions {
  /** From the start of a request to the headers of its response. */
  requestTimeoutMs: number
  limitOf?: ResponseLimit
  /** The hash of a body is left out of the signature over HTTPS, which protects the body itself. */
  leavesBodyUnsigned?: boolean
  /** False: a large body is sent without waiting for `100 Continue`, which costs a round trip. */
  expectsContinue?: boolean
}

export interface StoreClient {
  client: S3Client
  close(): void
}

export function openS3Client(
  account: StoreAccount,
  agents: { httpAgent: http.Agent; httpsAgent: https.Agent },
  { requestTimeoutMs, limitOf, leavesBodyUnsigned, expectsContinue = true }: ClientOptions,
): StoreClient {
  endUnanswered(agents.httpAgent)
  endUnanswered(agents.httpsAgent)
  const { region, endpoint, forcePathStyle } = account
  const client = new S3Client({
    region,
    ...(endpoint === null ? {} : { endpoint }),
    forcePathStyle,
    ...credentialsOf(account),
    maxAttempts: 1,
    // Many compatible stores do not support checksums in addition to the signed hash of the body.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    ...(expectsContinue ? {} : { expectContinueHeader: false }),
    requestHandler: {
      ...agents,
      connectionTimeout: 15_000,
      requestTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
    },
  })
  boundResponses(client, limitOf)
  if (leavesBodyUnsigned) leaveBodiesUnsigned(client)
  return {
    client,
    close() {
      client.destroy()
      agents.httpAgent.destroy()
      agents.httpsAgent.destroy()
    },
  }
}

function credentialsOf({ accessKey, secretKey, sessionToken }: StoreAccount) {
  if (!accessKey || !secretKey) return {}
  return {
    credentials: {
      accessKeyId: accessKey,
      secretAccessKey: secretKey,
      ...(sessionToken ? { sessionToken } : {}),
    },
  }
}

interface Request {
  protocol: string
  headers: Record<string, string>
}

/** The signer uses the header instead of hashing the body. */
function leaveBodiesUnsigned(client: S3Client): void {
  client.middlewareStack.add(
    (next) => (args) => {
      const { protocol, headers } = args.request as Request
      if (protocol === 'https:') headers['x-amz-content-sha256'] = 'UNSIGNED-PAYLOAD'
      return next(args)
    },
    { name: 'leaveBodiesUnsigned', step: 'build' },
  )
}

/** The parameters of every object that is stored. */
export function storageOptions({
  storageClass,
  sse,
  kmsKeyId,
}: StoreAccount): Partial<PutObjectCommandInput> {
  const options: Partial<Record<'StorageClass' | 'ServerSideEncryption' | 'SSEKMSKeyId', string>> = {}
  if (storageClass) options.StorageClass = storageClass
  if (sse) options.ServerSideEncryption = sse
  if (kmsKeyId) options.SSEKMSKeyId = kmsKeyId
  // The SDK's types list known values; a compatible store can have others.
  return options as Partial<PutObjectCommandInput>
}
