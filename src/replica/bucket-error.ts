/** Errors of the bucket, with a sentence for operators. */
import type { DeliveryError } from '../destinations/driver.ts'
import { describeStoreError, objectStoreError } from '../destinations/object-store/errors.ts'

export interface BucketErrorFacts {
  /** Whether the request took effect is unknown. */
  unknown?: boolean
  /** The wait that the store asked for. */
  retryAfterMs?: number | undefined
  cause?: unknown
}

export class BucketError extends Error {
  /** `transient`: the same request can succeed later. `permanent`: the operator has to change something. */
  readonly kind: 'transient' | 'permanent'
  /** The store's code, an errno name, or a code of ours: `aborted`, `no_conditional_writes`, `object_too_large`, … */
  readonly code: string
  readonly unknown: boolean
  readonly retryAfterMs: number | null

  constructor(
    kind: 'transient' | 'permanent',
    code: string,
    message: string,
    { unknown = false, retryAfterMs, cause }: BucketErrorFacts = {},
  ) {
    super(message, { cause })
    this.name = 'BucketError'
    this.kind = kind
    this.code = code
    this.unknown = unknown
    this.retryAfterMs = retryAfterMs ?? null
  }
}

const permissions = 's3:PutObject, s3:GetObject, s3:DeleteObject, s3:AbortMultipartUpload and s3:ListBucket'

export interface RequestFacts {
  bucket: string
  region: string
  /** The request changes the bucket. */
  isWrite: boolean
  signal: AbortSignal | undefined
}

export function bucketErrorOf(
  error: unknown,
  { bucket, region, isWrite, signal }: RequestFacts,
): BucketError {
  if (error instanceof BucketError) return error
  if (signal?.aborted)
    return new BucketError('transient', 'aborted', 'The request to the object store was cancelled.', {
      unknown: isWrite,
      cause: error,
    })
  const failure = objectStoreError(error, { bucket, region, firstSeq: 0, permissions })
  return new BucketError(failure.class, failure.code, failure.message, {
    unknown: isWrite && isUnknown(error, failure),
    retryAfterMs: failure.retryAfterMs,
    cause: error,
  })
}

/** Errors that come before the first byte of a request is sent. */
const unsent: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'CredentialsProviderError',
  'egress_denied',
])

/** A proxy can report a failure (5xx) after the store has stored the object, and a response can get lost on its way. */
function isUnknown(error: unknown, failure: DeliveryError): boolean {
  const { status } = describeStoreError(error)
  if (status === undefined) return !unsent.has(failure.code)
  return status >= 500 || status < 300 || status === 408
}
