/** One ingest thread as main sees it: commands that it acknowledges, questions that it asks, requests that it forwards. */
import assert from 'node:assert'
import type { Worker } from 'node:worker_threads'
import type { AskQuota } from '../../ingest/cluster-quota.ts'
import type { UsageCounter } from '../../ingest/usage.ts'
import type { DirectorySource } from '../../metadata/directory-source.ts'
import { sentError } from '../../platform/thread-error.ts'
import type { ListenerOptions } from '../http/engine.ts'
import { ForwardedExchange, forwardedHead } from './forwarded-exchange.ts'
import type {
  Command,
  ForwardedHead,
  FromIngestThread,
  Question,
  RejectedCount,
  ToIngestThread,
} from './protocol.ts'

export interface IngestThreadDeps {
  source: DirectorySource
  /** In a cluster; null: limits are in shared memory alone. */
  askQuota: AskQuota | null
  usage: Pick<UsageCounter, 'rejected'>
  onKeysUsed(apiKeyIds: readonly string[]): void
  onFatal(error: Error): void
  /** The thread is gone. */
  onEnd(): void
}

interface Waiting {
  resolve(): void
  reject(error: Error): void
}

export class IngestThread {
  /** Rejects when it cannot start. */
  readonly ready: Promise<void>
  readonly #worker: Worker
  readonly #deps: IngestThreadDeps
  readonly #commands = new Map<number, Waiting>()
  readonly #exchanges = new Map<number, ForwardedExchange>()
  readonly #ended: Promise<void>
  #served: ListenerOptions | null = null
  #lastId = 0
  #heardAt = performance.now()
  #isClosing = false
  #isReady = false
  #failure: Error | null = null
  #onReady: Waiting = { resolve: () => {}, reject: () => {} }

  constructor(worker: Worker, deps: IngestThreadDeps) {
    this.#worker = worker
    this.#deps = deps
    this.ready = new Promise((resolve, reject) => {
      this.#onReady = { resolve, reject }
    })
    // Several may fail at once, and only the first is waited for.
    this.ready.catch(() => {})
    this.#ended = new Promise((resolve) => {
      worker.once('exit', (code) => {
        deps.onEnd()
        this.#fail(new Error(`an ingest thread ended with code ${code}`))
        resolve()
      })
    })
    worker.on('message', (message: FromIngestThread) => this.#receive(message))
    worker.on('error', (error) => this.#fail(error))
  }

  post(message: ToIngestThread, transfer: ArrayBuffer[] = []): void {
    this.#worker.postMessage(message, transfer)
  }

  command(command: Command): Promise<void> {
    if (this.#failure !== null) return Promise.reject(this.#failure)
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      this.#commands.set(id, { resolve, reject })
      this.post({ kind: 'command', id, command })
    })
  }

  /** Sets the listeners' options for the requests that the thread forwards from now on. */
  serve(options: ListenerOptions): void {
    this.#served = options
  }

  silentMs(): number {
    return this.#isClosing ? 0 : performance.now() - this.#heardAt
  }

  /** It closes its sockets. */
  close(): void {
    if (this.#isClosing) return
    this.#isClosing = true
    this.post({ kind: 'close' })
  }

  /** Resolves when the thread is gone. After `close`. */
  async end(): Promise<void> {
    await this.#ended
  }

  #receive(message: FromIngestThread): void {
    this.#heardAt = performance.now()
    switch (message.kind) {
      case 'ready':
        this.#isReady = true
        this.#onReady.resolve()
        break
      case 'done':
        this.#done(message.id, message.error)
        break
      case 'ask':
        void this.#answer(message.id, message.question)
        break
      case 'request':
        this.#serve(message.id, message.path, message.head)
        break
      case 'body':
        this.#exchanges.get(message.id)?.received(message.body)
        break
      case 'gone':
        this.#exchanges.get(message.id)?.gone()
        break
      case 'sent':
        this.#exchanges.get(message.id)?.sent(message.wasSent)
        break
      case 'taken':
        this.#exchanges.get(message.id)?.taken()
        break
      case 'rejected':
        this.#countRejected(message.counts)
        break
      case 'keys_used':
        this.#deps.onKeysUsed(message.apiKeyIds)
        break
      case 'failed':
        this.#fail(new Error(message.stack))
        break
      case 'closed':
        void this.#worker.terminate()
    }
  }

  #countRejected(counts: readonly RejectedCount[]): void {
    for (const { pipeId, atMs, requests } of counts)
      for (let i = 0; i < requests; i++) this.#deps.usage.rejected(pipeId, atMs)
  }

  #done(id: number, error: string | null): void {
    const waiting = this.#commands.get(id)
    this.#commands.delete(id)
    if (error === null) waiting?.resolve()
    else waiting?.reject(new Error(error))
  }

  async #answer(id: number, question: Question): Promise<void> {
    try {
      this.post({ kind: 'answer', id, value: await this.#ask(question) })
    } catch (error) {
      this.post({ kind: 'no_answer', id, error: sentError(error) })
    }
  }

  #ask(question: Question): Promise<unknown> {
    const { source, askQuota } = this.#deps
    if (question.method !== 'quota') return source[question.method](question.id)
    assert(askQuota !== null, 'a thread asks for quotas in a cluster alone')
    return askQuota(question.pipeId, question.limits, question.amount)
  }

  #serve(id: number, path: number, head: ForwardedHead): void {
    const served = this.#served
    assert(served !== null, 'a thread that listens was told what is served')
    const end = served.begin()
    const exchange = new ForwardedExchange(
      id,
      head,
      (message, transfer) => this.post(message, transfer),
      () => {
        this.#exchanges.delete(id)
        end()
      },
    )
    this.#exchanges.set(id, exchange)
    const found = served.paths[path]
    const handler = found === undefined ? served.notFound : (found.methods.get(head.method) ?? found.rest)
    handler(forwardedHead(head, found?.path ?? ''), exchange)
  }

  #fail(error: Error): void {
    if (this.#failure !== null) return
    this.#failure = error
    for (const { reject } of this.#commands.values()) reject(error)
    this.#commands.clear()
    for (const exchange of [...this.#exchanges.values()]) exchange.gone()
    if (!this.#isReady) this.#onReady.reject(error)
    else if (!this.#isClosing) this.#deps.onFatal(error)
  }
}
