/** One ingest thread as main sees it. Main calls it, responds to its calls and serves the requests that it forwards. */
import assert from 'node:assert'
import type { AskQuota } from '../../ingest/cluster-quota.ts'
import type { MismatchParking } from '../../ingest/parked/queue.ts'
import type { UsageObserver } from '../../ingest/usage.ts'
import type { DirectorySource } from '../../metadata/directory-source.ts'
import { beatEveryMs, type Caller, type Handlers } from '../../platform/thread-calls.ts'
import { Thread, threadEntry } from '../../platform/threads.ts'
import type { ListenerOptions } from '../http/engine.ts'
import { ForwardedExchange, forwardedHead } from './forwarded-exchange.ts'
import type {
  ForwardedHead,
  IngestCalls,
  IngestReports,
  IngestThreadData,
  RejectedCount,
} from './protocol.ts'

export interface IngestThreadDeps {
  source: DirectorySource
  /** In a cluster; null: limits are in shared memory only. */
  askQuota: AskQuota | null
  parking: MismatchParking
  usage: Pick<UsageObserver, 'rejected' | 'mismatched'>
  onKeysUsed(apiKeyIds: readonly string[]): void
  onFatal(error: Error): void
  /** Called when the thread has ended. */
  onEnd(): void
}

export class IngestThread {
  /** Rejects if the thread cannot start. */
  readonly ready: Promise<void>
  readonly remote: Caller<IngestCalls>
  readonly #thread: Thread<IngestCalls, IngestReports>
  readonly #deps: IngestThreadDeps
  readonly #exchanges = new Map<number, ForwardedExchange>()
  readonly #ended: Promise<void>
  #served: ListenerOptions | null = null
  #isClosing = false
  #isReady = false
  #failure: Error | null = null

  constructor(data: IngestThreadData, deps: IngestThreadDeps) {
    this.#deps = deps
    this.#thread = new Thread({
      name: `ingest-${data.index}`,
      entry: threadEntry(import.meta.url, '../../daemon/threads/ingest-thread'),
      data,
      transfer: [data.appender],
      host: this.#handlers(),
      holdsProcess: true,
      interrupted: (reason, cause) => this.#failure ?? cause ?? new Error(reason),
    })
    this.remote = this.#thread
    this.#ended = this.#thread.ended.then(({ error }) => {
      deps.onEnd()
      this.#fail(error)
    })
    this.ready = this.#thread.call('open', []).then(() => {
      this.#isReady = true
    })
    // Several threads can fail at once, and only the first failure is awaited.
    this.ready.catch(() => {})
  }

  /** Sets the listeners' options for requests that the thread forwards from now on. */
  serve(options: ListenerOptions): void {
    this.#served = options
  }

  silentMs(): number {
    return this.#isClosing ? 0 : this.#thread.silentTicks * beatEveryMs
  }

  /** Tells the thread to close its sockets. */
  close(): void {
    if (this.#isClosing) return
    this.#isClosing = true
    this.remote.tell('closeSockets', [])
  }

  /** Resolves when the thread has ended. Call it after `close`. */
  async end(): Promise<void> {
    await this.#ended
  }

  #handlers(): Handlers<IngestReports> {
    const { source, askQuota, parking, onKeysUsed } = this.#deps
    return {
      allPipes: () => source.allPipes(),
      pipe: (pipeId) => source.pipe(pipeId),
      allKeys: () => source.allKeys(),
      key: (hash) => source.key(hash),
      keyById: (apiKeyId) => source.keyById(apiKeyId),
      quota(...asked) {
        assert(askQuota !== null, 'a thread asks for quotas in a cluster only')
        return askQuota(...asked)
      },
      park: (requests) => parking.park(requests),
      unpark: (parkedIds) => parking.unpark(parkedIds),
      request: (id, path, head) => this.#serve(id, path, head),
      body: (id, body) => this.#exchanges.get(id)?.received(body),
      gone: (id) => this.#exchanges.get(id)?.gone(),
      sent: (id, wasSent) => this.#exchanges.get(id)?.sent(wasSent),
      taken: (id) => this.#exchanges.get(id)?.taken(),
      rejected: (counts) => this.#countRejected(counts),
      mismatched: (counts) => {
        for (const { pipeId, atMs, mismatches } of counts)
          this.#deps.usage.mismatched(pipeId, atMs, mismatches)
      },
      keysUsed: (apiKeyIds) => onKeysUsed(apiKeyIds),
      failed: (stack) => this.#fail(new Error(stack)),
      closed: () => void this.#thread.terminate('the thread has closed its sockets'),
    }
  }

  #countRejected(counts: readonly RejectedCount[]): void {
    for (const { pipeId, atMs, requests, hook } of counts)
      for (let i = 0; i < requests; i++) this.#deps.usage.rejected(pipeId, atMs, hook)
  }

  #serve(id: number, path: number, head: ForwardedHead): void {
    const served = this.#served
    assert(served !== null, 'a thread that listens was told what is served')
    const end = served.begin()
    const exchange = new ForwardedExchange(id, head, this.remote, () => {
      this.#exchanges.delete(id)
      end()
    })
    this.#exchanges.set(id, exchange)
    const found = served.paths[path]
    const handler = found === undefined ? served.notFound : (found.methods.get(head.method) ?? found.rest)
    handler(forwardedHead(head, found?.path ?? ''), exchange)
  }

  #fail(error: Error): void {
    if (this.#failure !== null) return
    this.#failure = error
    for (const exchange of [...this.#exchanges.values()]) exchange.gone()
    if (this.#isReady && !this.#isClosing) this.#deps.onFatal(error)
  }
}
