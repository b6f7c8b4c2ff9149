/** A thread that posts alerts: what receivers send is read here and nowhere else. `poster.ts` starts and ends it. */
import assert from 'node:assert'
import { parentPort, workerData } from 'node:worker_threads'
import type { DriverSettings } from '../../destinations/driver.ts'
import { type Post, postOnce } from '../../destinations/http-endpoint/post.ts'
import type { FromPostThread, ToPostThread } from '../../observe/alerts/poster.ts'

assert(parentPort !== null)
const port = parentPort
const settings = workerData as DriverSettings
/** Nothing is aborted: each has a deadline, and the thread is terminated when the daemon stops. */
const { signal } = new AbortController()

port.on('message', ({ number, post }: ToPostThread) => void run(number, post))

async function run(number: number, post: Post): Promise<void> {
  const outcome = await postOnce(post, settings, signal)
  port.postMessage({ number, outcome } satisfies FromPostThread)
}
