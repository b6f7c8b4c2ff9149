/**
 * Converts errors of an S3-compatible store to a DeliveryError. A store does not read objects, so a permanent error applies to
 * every message, unless it is about the object's size. The batch's first message is therefore named without a search.
 */
import { DeliveryError } from '../driver.ts'
import { nestedDeliveryError, networkError } from '../network-error.ts'

export interface StoreFacts {
  bucket: string
  region: string
  firstSeq: number
  /** The permissions that the credentials need. */
  permissions?: string
}

export function objectStoreError(
  error: unknown,
  { bucket, region, firstSeq, permissions = 's3:PutObject' }: StoreFacts,
): DeliveryError {
  const own = nestedDeliveryError(error)
  if (own !== null) return own.class === 'permanent' ? own.with({ failedSeq: firstSeq }) : own
  const { code, status, message, headers, bodyRegion } = describeStoreError(error)
  if (code === 'CredentialsProviderError')
    return permanent(
      code,
      'No credentials were found: set access_key and secret_key, or set up credentials on this machine.',
    )
  if (status === undefined) {
    const failure = networkError(error, 'The object store')
    // The object may still have been stored.
    return isTimeout(error) ? failure.with({ timedOut: 'unknown' }) : failure
  }
  if (passesByItself(status, code))
    return new DeliveryError('transient', code, `The object store responded ${status} ${code}: ${message}`, {
      retryAfterMs: retryAfterMs(headers['retry-after']),
      cause: error,
    })
  const rightRegion = headers['x-amz-bucket-region'] ?? bodyRegion
  if (redirects.has(code) || status === 301 || status === 307 || (rightRegion && rightRegion !== region))
    return permanent(
      code,
      rightRegion
        ? `Bucket "${bucket}" is in region ${rightRegion}, not ${region}: set region to ${rightRegion}.`
        : `Bucket "${bucket}" is not in region ${region} or not at this endpoint: correct region or endpoint.`,
    )
  return permanent(
    code,
    advice[code]?.(bucket, permissions) ?? `The object store responded ${status} ${code}: ${message}`,
  )

  function permanent(code: string, text: string): DeliveryError {
    const fault = ofObject.has(code) ? 'records' : 'destination'
    return new DeliveryError('permanent', code, text, { failedSeq: firstSeq, fault, cause: error })
  }
}

/** Errors about the object itself: another one may be accepted. */
const ofObject: ReadonlySet<string> = new Set([
  'EntityTooLarge',
  'EntityTooSmall',
  'MaxMessageLengthExceeded',
  'http_413',
])

function passesByItself(status: number, code: string): boolean {
  return [408, 425, 429].includes(status) || status >= 500 || status < 300 || waits.has(code)
}

/** 4xx errors that resolve by themselves. */
const waits: ReadonlySet<string> = new Set([
  'SlowDown',
  'RequestTimeout',
  'RequestTimeTooSkewed',
  'OperationAborted',
  'Throttling',
  'ThrottlingException',
  'TooManyRequestsException',
  'ConditionalRequestConflict',
])

const redirects: ReadonlySet<string> = new Set([
  'PermanentRedirect',
  'TemporaryRedirect',
  'AuthorizationHeaderMalformed',
  'IllegalLocationConstraintException',
])

const advice: Record<string, (bucket: string, permissions: string) => string> = {
  NoSuchBucket: (bucket) =>
    `Bucket "${bucket}" does not exist at this endpoint: create it or correct its name.`,
  NotFound: (bucket) => `Bucket "${bucket}" does not exist at this endpoint: create it or correct its name.`,
  SignatureDoesNotMatch: () => 'The signature is wrong: secret_key does not belong to access_key.',
  InvalidAccessKeyId: () => 'The object store does not know this access_key.',
  ExpiredToken: () => 'The credentials have expired: set new ones.',
  InvalidToken: () => 'The session_token is not valid: set a new one.',
  AccessDenied: accessDenied,
  Forbidden: accessDenied,
  InvalidStorageClass: () => 'The object store does not know this storage_class.',
}

function accessDenied(bucket: string, permissions: string): string {
  return `Access denied: allow these credentials ${permissions} in bucket "${bucket}".`
}

export interface DescribedError {
  code: string
  status: number | undefined
  message: string
  headers: Record<string, string>
  bodyRegion: string | undefined
}

/** `status` is undefined when there was no response. The SDK's errors carry the response in `$metadata` and `$response`; nothing else can be relied on. */
export function describeStoreError(error: unknown): DescribedError {
  const status = field(field(error, '$metadata'), 'httpStatusCode')
  const headers = field(field(error, '$response'), 'headers')
  const region = field(error, 'Region')
  const name = field(error, 'name')
  return {
    // For a response without a body (HEAD), the SDK has no error name.
    code:
      typeof name === 'string' && !/^(Unknown|UnknownError|Error)$/.test(name) && !/^[0-9]+$/.test(name)
        ? name
        : `http_${String(status)}`,
    status: typeof status === 'number' ? status : undefined,
    message: error instanceof Error ? error.message : '',
    headers: Object.fromEntries(
      Object.entries(typeof headers === 'object' && headers !== null ? headers : {}).map(([key, value]) => [
        key.toLowerCase(),
        String(value),
      ]),
    ),
    bodyRegion: typeof region === 'string' ? region : undefined,
  }
}

/** True for the SDK's own request timeout. */
function isTimeout(error: unknown): boolean {
  return field(error, 'name') === 'TimeoutError' || field(error, 'code') === 'ETIMEDOUT'
}

function field(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined
}

function retryAfterMs(header: string | undefined): number | undefined {
  return header !== undefined && /^[0-9]{1,10}$/.test(header) ? Number(header) * 1000 : undefined
}
