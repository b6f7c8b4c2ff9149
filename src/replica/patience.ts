/** Repeats reads of the bucket: a restore of many gigabytes meets throttling and broken connections. */
import { setTimeout as delay } from 'node:timers/promises'
import { backoffMs } from '../platform/backoff.ts'
import { type Bucket, BucketError } from './bucket.ts'

const firstPauseMs = 200
const longestPauseMs = 10_000

/** Repeats `work` after transient errors, at most `attempts` times in all. Throws BucketError. */
export async function patiently<T>(work: () => Promise<T>, attempts: number): Promise<T> {
  for (let failures = 1; ; failures += 1) {
    try {
      return await work()
    } catch (error) {
      await pauseOrThrow(error, failures, attempts)
    }
  }
}

/** The bytes of an object, from where the connection broke on. Null: there is no such object. Throws BucketError. */
export async function streamPatiently(
  bucket: Bucket,
  name: string,
  attempts: number,
): Promise<AsyncIterable<Buffer> | null> {
  const first = await patiently(() => bucket.stream(name, 0), attempts)
  return first === null ? null : resumed(bucket, name, { first, attempts })
}

async function* resumed(
  bucket: Bucket,
  name: string,
  { first, attempts }: { first: AsyncIterable<Buffer>; attempts: number },
): AsyncGenerator<Buffer> {
  let received = 0
  let failures = 0
  for (let source = first; ; ) {
    try {
      for await (const part of source) {
        received += part.length
        failures = 0
        yield part
      }
      return
    } catch (error) {
      failures += 1
      await pauseOrThrow(error, failures, attempts)
      const next = await patiently(() => bucket.stream(name, received), attempts)
      if (next === null)
        throw new BucketError('permanent', 'not_found', `${name} was removed while it was read.`)
      source = next
    }
  }
}

async function pauseOrThrow(error: unknown, failures: number, attempts: number): Promise<void> {
  if (!(error instanceof BucketError) || error.kind === 'permanent' || failures >= attempts) throw error
  const pause = error.retryAfterMs ?? backoffMs(failures, firstPauseMs, longestPauseMs)
  await delay(Math.min(pause, longestPauseMs) * (0.5 + Math.random() / 2))
}
