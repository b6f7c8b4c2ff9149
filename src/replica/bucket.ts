/**
 * The bucket of the replica: few operations on objects below one prefix. Names are relative to the prefix, and consist of
 * ASCII letters, digits and `/.-_`, so that every store lists them in the same order.
 *
 * Nothing here retries a failed request, except where the store has certainly done nothing: a clock that it corrected,
 * and a creation that conflicted with another one. The caller waits and repeats. A creation whose outcome is unknown can
 * still take effect later, so it is only ever repeated with the same bytes; when the repeat finds an object (`exists`),
 * the caller reads it back and compares.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type _Object,
  DeleteObjectCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { resourceLimits } from '../contract/resource-limits.ts'
import { egressHttpAgents } from '../destinations/egress.ts'
import { untilStopped } from '../destinations/guards.ts'
import { describeStoreError } from '../destinations/object-store/errors.ts'
import { putInParts } from '../destinations/object-store/multipart.ts'
import {
  openS3Client,
  type StoreAccount,
  type StoreClient,
  storageOptions,
} from '../destinations/object-store/s3-client.ts'
import { backoffMs } from '../platform/backoff.ts'
import { type BucketCounters, newBucketCounters, type RequestKind } from './bucket-counters.ts'
import { BucketError, bucketErrorOf } from './bucket-error.ts'
import { PartSource, partBytes } from './part-source.ts'

export { parseReplicaUrl } from '../settings/replica-settings.ts'
export { BucketError }

export interface ReplicaTarget extends StoreAccount {
  bucket: string
  /** Empty, or with a slash at its end. */
  prefix: string
}

export interface Bucket {
  /**
   * Creates the object unless one has this name (`If-None-Match: *`). After an unknown outcome (timeout, connection lost,
   * 5xx, cancelled) it throws BucketError with `unknown: true`: the caller reads the object back.
   */
  create(name: string, body: Uint8Array, signal?: AbortSignal): Promise<'created' | 'exists'>
  /** Null: there is none. At most maxBytes; throws BucketError (permanent, `object_too_large`) beyond it. */
  get(name: string, maxBytes: number, signal?: AbortSignal): Promise<Buffer | null>
  /**
   * Streams a large object from a byte offset. Null: there is none. Nothing is read past its end. A transient BucketError
   * while reading: call it again with the number of bytes received so far.
   */
  stream(name: string, from: number, signal?: AbortSignal): Promise<AsyncIterable<Buffer> | null>
  /**
   * Uploads a large object in parts, of which one is in memory (8 MiB). The object is invisible until it is complete.
   * Replaces an object of this name. Closes `chunks` after an error.
   */
  upload(name: string, chunks: AsyncIterable<Buffer>, signal?: AbortSignal): Promise<{ bytes: number }>
  /** The objects whose names begin with `prefix`, in order, after the name `after`. */
  list(prefix: string, after?: string): AsyncIterable<ListedObject>
  /** Succeeds also when there is no such object. */
  remove(name: string): Promise<void>
  close(): void
}

export interface ListedObject {
  name: string
  bytes: number
  modifiedMs: number
}

/** From the start of a request to the headers of its response; and of one read of a body. */
const requestTimeoutMs = 60_000
const conflictsRetried = 5
/** A page of 1,000 names of 1,024 bytes. */
const listResponseBytes = 2 * 1024 * 1024

/** The endpoint is the operator's, so no address of the network is denied. */
const anyAddress = { allow: [], deny: [], private: 'allow' as const }

export function openBucket(target: ReplicaTarget, counters: BucketCounters = newBucketCounters()): Bucket {
  const store = openS3Client(target, egressHttpAgents(anyAddress), {
    requestTimeoutMs,
    limitOf: (command, status) => {
      if (command === 'GetObjectCommand' && status < 300) return Number.POSITIVE_INFINITY
      return command === 'ListObjectsV2Command' ? listResponseBytes : resourceLimits.storeResponseBytes
    },
    // Everything is sealed. The hash of 4 MiB takes 2.3 of the 12.3 ms of CPU of such a request.
    leavesBodyUnsigned: true,
    expectsContinue: false,
  })
  return new S3Bucket(target, store, counters)
}

class S3Bucket implements Bucket {
  readonly #target: ReplicaTarget
  readonly #store: StoreClient
  readonly #client: S3Client
  readonly #counters: BucketCounters

  constructor(target: ReplicaTarget, store: StoreClient, counters: BucketCounters) {
    this.#target = target
    this.#store = store
    this.#client = store.client
    this.#counters = counters
  }

  async create(name: string, body: Uint8Array, signal?: AbortSignal): Promise<'created' | 'exists'> {
    for (let conflicts = 1; ; conflicts += 1) {
      try {
        await this.#put(name, body, { IfNoneMatch: '*' }, signal)
        return 'created'
      } catch (error) {
        const { status } = describeStoreError((error as BucketError).cause)
        if (status === 412) return 'exists'
        if (status === 501) throw noConditionalWrites(error)
        if (status !== 409 || conflicts > conflictsRetried || signal?.aborted) throw error
        // ConditionalRequestConflict: another request for this name was in progress. This one stored nothing.
        await delay(backoffMs(conflicts, 20, 500) * (0.5 + Math.random()))
      }
    }
  }

  async get(name: string, maxBytes: number, signal?: AbortSignal): Promise<Buffer | null> {
    const found = await this.#open(name, 0, signal)
    if (found === null) return null
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of found) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes > maxBytes)
        throw new BucketError('permanent', 'object_too_large', `${name}: larger than ${maxBytes} bytes.`)
    }
    return Buffer.concat(chunks)
  }

  stream(name: string, from: number, signal?: AbortSignal): Promise<AsyncIterable<Buffer> | null> {
    return this.#open(name, from, signal)
  }

  async upload(
    name: string,
    chunks: AsyncIterable<Buffer>,
    signal?: AbortSignal,
  ): Promise<{ bytes: number }> {
    const source = new PartSource(chunks)
    const parts = source.parts()
    const { value: first = Buffer.alloc(0) } = await parts.next()
    if (first.length < partBytes) {
      await this.#put(name, first, {}, signal)
      return { bytes: first.length }
    }
    let bytes = 0
    const bodies = this.#countedParts(first, parts, (length) => {
      bytes += length
    })
    try {
      await this.#send('put', { isWrite: true, signal }, (abortSignal) =>
        putInParts(this.#client, this.#object(name), { bodies, concurrency: 1 }, abortSignal),
      )
    } catch (error) {
      throw source.error ?? error
    } finally {
      await parts.return(undefined)
    }
    return { bytes }
  }

  async *list(prefix: string, after?: string): AsyncGenerator<ListedObject> {
    const { prefix: root } = this.#target
    let last = after ?? null
    let from: Partial<ListObjectsV2CommandInput> =
      after === undefined ? {} : { StartAfter: `${root}${after}` }
    for (;;) {
      const { Contents = [], IsTruncated, NextContinuationToken } = await this.#page(prefix, from)
      for (const object of this.#listed(Contents)) {
        if (last !== null && object.name <= last) throw unordered()
        last = object.name
        yield object
      }
      if (IsTruncated !== true || NextContinuationToken === undefined) return
      from = { ContinuationToken: NextContinuationToken }
    }
  }

  *#listed(contents: readonly _Object[]): Generator<ListedObject> {
    const { prefix: root } = this.#target
    for (const { Key = '', Size = 0, LastModified } of contents) {
      if (!Key.startsWith(root)) throw unordered()
      // Some tools create an empty object for a folder.
      if (Key === root) continue
      yield { name: Key.slice(root.length), bytes: Size, modifiedMs: LastModified?.getTime() ?? 0 }
    }
  }

  #page(prefix: string, from: Partial<ListObjectsV2CommandInput>): Promise<ListObjectsV2CommandOutput> {
    const { bucket, prefix: root } = this.#target
    const command = new ListObjectsV2Command({ Bucket: bucket, Prefix: `${root}${prefix}`, ...from })
    return this.#send('list', { isWrite: false }, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    )
  }

  async remove(name: string): Promise<void> {
    const command = new DeleteObjectCommand(this.#key(name))
    await this.#send('remove', { isWrite: true }, (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    )
  }

  close(): void {
    this.#store.close()
  }

  async #put(
    name: string,
    body: Uint8Array,
    condition: { IfNoneMatch?: '*' },
    signal: AbortSignal | undefined,
  ): Promise<void> {
    await this.#send('put', { isWrite: true, signal }, (abortSignal) => {
      this.#counters.sentBytes += body.length
      const command = new PutObjectCommand({ ...this.#object(name), ...condition, Body: body })
      return this.#client.send(command, { abortSignal })
    })
  }

  async #open(name: string, from: number, signal?: AbortSignal): Promise<AsyncGenerator<Buffer> | null> {
    const range = from === 0 ? {} : { Range: `bytes=${from}-` }
    try {
      const { Body, ContentRange } = await this.#send('get', { isWrite: false, signal }, (abortSignal) =>
        this.#client.send(new GetObjectCommand({ ...this.#key(name), ...range }), { abortSignal }),
      )
      // A store without ranges sends the object from its start.
      const skipped = from > 0 && ContentRange === undefined ? from : 0
      return this.#read(Body as AsyncIterable<Buffer> & { destroy(error: Error): void }, skipped, signal)
    } catch (error) {
      const { code, status } = describeStoreError((error as BucketError).cause)
      if (code === 'NoSuchKey') return null
      if (status === 416) return nothing()
      throw error
    }
  }

  async *#read(
    body: AsyncIterable<Buffer> & { destroy(error: Error): void },
    skipped: number,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Buffer> {
    const iterator = body[Symbol.asyncIterator]()
    let left = skipped
    try {
      for (;;) {
        const timer = setTimeout(() => body.destroy(timedOut()), requestTimeoutMs)
        const { done, value } = await iterator.next().finally(() => clearTimeout(timer))
        if (done) return
        this.#counters.receivedBytes += value.length
        const wanted = value.subarray(Math.min(left, value.length))
        left -= value.length - wanted.length
        if (wanted.length > 0) yield wanted
      }
    } catch (error) {
      throw this.#failed(error, { isWrite: false, signal })
    } finally {
      await iterator.return?.()
    }
  }

  async *#countedParts(
    first: Buffer,
    others: AsyncGenerator<Buffer>,
    count: (bytes: number) => void,
  ): AsyncGenerator<Buffer> {
    for (let part = first; ; ) {
      this.#counters.requests.put += 1
      this.#counters.sentBytes += part.length
      count(part.length)
      yield part
      const { done, value } = await others.next()
      if (done) break
      part = value
    }
    // The completion of the upload.
    this.#counters.requests.put += 1
  }

  async #send<T>(
    kind: RequestKind,
    {
      isWrite,
      signal = new AbortController().signal,
    }: { isWrite: boolean; signal?: AbortSignal | undefined },
    request: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    for (let isRepeated = false; ; isRepeated = true) {
      this.#counters.requests[kind] += 1
      try {
        return await untilStopped(request(signal), signal)
      } catch (error) {
        // The SDK has taken over the store's clock, and the store has done nothing.
        if (!isRepeated && describeStoreError(error).code === 'RequestTimeTooSkewed') continue
        throw this.#failed(error, { isWrite, signal })
      }
    }
  }

  #failed(error: unknown, request: { isWrite: boolean; signal: AbortSignal | undefined }): BucketError {
    const { bucket, region } = this.#target
    this.#counters.failedRequests += 1
    return bucketErrorOf(error, { bucket, region, ...request })
  }

  #key(name: string): { Bucket: string; Key: string } {
    return { Bucket: this.#target.bucket, Key: `${this.#target.prefix}${name}` }
  }

  #object(name: string) {
    return { ...storageOptions(this.#target), ...this.#key(name) }
  }
}

async function* nothing(): AsyncGenerator<Buffer> {}

function timedOut(): Error {
  return Object.assign(new Error('no data was received in time'), { code: 'ETIMEDOUT' })
}

function unordered(): BucketError {
  const message = 'The object store does not list names in order, so it cannot hold a replica.'
  return new BucketError('permanent', 'unordered_listing', message)
}

function noConditionalWrites(cause: unknown): BucketError {
  const message =
    'The object store does not support conditional creation (If-None-Match: *), so two machines could write the same replica.'
  return new BucketError('permanent', 'no_conditional_writes', message, { cause })
}

/**
 * Checks that the store can hold a replica: two creations of one name, a read, a listing and a removal, below `probe/`.
 * Throws BucketError; permanent with the code `no_conditional_writes` when the second creation succeeds.
 */
export async function probeBucket(bucket: Bucket): Promise<void> {
  const name = `probe/${randomUUID()}`
  const body = Buffer.from(name)
  if ((await bucket.create(name, body)) !== 'created') throw noConditionalWrites(undefined)
  try {
    if ((await bucket.create(name, Buffer.from('another'))) !== 'exists') throw noConditionalWrites(undefined)
    const stored = await bucket.get(name, 1_000)
    if (!stored?.equals(body)) throw inconsistent('read')
    const listed: string[] = []
    for await (const object of bucket.list(name)) listed.push(object.name)
    if (listed.join() !== name) throw inconsistent('listed')
  } finally {
    await bucket.remove(name)
  }
  if ((await bucket.get(name, 1_000)) !== null) throw inconsistent('removed')
}

function inconsistent(what: string): BucketError {
  const message = `An object could not be ${what} right after it was created: the object store is not strongly consistent.`
  return new BucketError('permanent', 'not_consistent', message)
}
