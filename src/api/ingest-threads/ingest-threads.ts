/**
 * The ingest threads, as main uses them if `ingest.workers` is above 1. They listen on the addresses that serve
 * ingest, and main listens on none of those.
 *
 *   clients ──▶ thread 1…N  (one address, SO_REUSEPORT: the system spreads the connections)
 *                 │ ingest ──frames──▶ writer          │ appended counts, once per commit
 *                 │ other requests ──▶ main ◀──────────┘
 *
 * Rules for all of them together
 * - Limits, quotas and the memory for bodies are shared: shared-counters.ts.
 * - Each thread sees a change before management responds: it subscribes to `Changes` and waits for every
 *   acknowledgement.
 * - The writer keeps the order within a pipe and the Idempotency-Keys.
 * - Only main watches descriptors and the address: it tells the threads when to listen and when to stop.
 * - A thread that fails ends the process. The process never ends while a thread has sockets, because Node.js would
 *   abort it. Main therefore closes all of them first, even in the handler of its own exit.
 */
import type { AskQuota } from '../../ingest/cluster-quota.ts'
import type { MismatchParking } from '../../ingest/parked/queue.ts'
import type { UsageObserver } from '../../ingest/usage.ts'
import type { AppenderPort } from '../../log/buffer.ts'
import type { Change } from '../../metadata/changes.ts'
import type { DirectorySource } from '../../metadata/directory-source.ts'
import type { HttpEngine, Listener, ListenerOptions } from '../http/engine.ts'
import { ListenError, requireFreeAddress } from '../http/listen.ts'
import { IngestThread } from './ingest-thread.ts'
import type { IngestThreadData, SharedAddress } from './protocol.ts'

/** How long the exit of the process waits for threads that do not close their sockets. */
const closeWithinMs = 2_000

export interface IngestThreadsDeps {
  count: number
  data: Omit<IngestThreadData, 'index' | 'appender' | 'closed' | 'asksForQuota'>
  shareAppender(): AppenderPort
  source: DirectorySource
  /** In a cluster; null: limits are in shared memory only. */
  askQuota: AskQuota | null
  parking: MismatchParking
  /** Returns the counts of the thread with this index, which is also the index of its appender. */
  usageOf(index: number): Pick<UsageObserver, 'rejected' | 'mismatched'>
  /** Called with the keys that requests of a thread used. */
  onKeysUsed(apiKeyIds: readonly string[]): void
  onFatal(error: Error): void
}

export class IngestThreads {
  readonly #threads: readonly IngestThread[]
  readonly #closed: Int32Array
  readonly #onExit = () => this.#closeNow()

  constructor(threads: readonly IngestThread[], closed: Int32Array) {
    this.#threads = threads
    this.#closed = closed
    process.on('exit', this.#onExit)
  }

  /** Its listeners run in the threads. */
  get engine(): HttpEngine {
    return { name: 'uws', createListener: (options) => new SharedListener(this.#threads, options) }
  }

  async refresh(change: Change): Promise<void> {
    const changed = 'pipeId' in change ? { pipeId: change.pipeId } : { apiKeyId: change.apiKeyId }
    await Promise.all(this.#threads.map((thread) => thread.remote.call('refresh', [changed])))
  }

  async trust(cidrs: readonly string[]): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.remote.call('trust', [cidrs])))
  }

  loadGeo(bytes: SharedArrayBuffer): void {
    for (const thread of this.#threads) thread.remote.tell('loadGeo', [bytes])
  }

  /** From now on connections are closed after their response. */
  stopping(): void {
    for (const thread of this.#threads) thread.remote.tell('stopping', [])
  }

  /** Resolves when everything appended so far is settled. Later requests are rejected. */
  async drain(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.remote.call('drain', [])))
  }

  /** Resolves when no thread has a request in progress. */
  async idle(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.remote.call('idle', [])))
  }

  /** Returns the time since the last heartbeat of the thread that has been silent longest. */
  silentMs(): number {
    return Math.max(...this.#threads.map((thread) => thread.silentMs()))
  }

  async close(): Promise<void> {
    for (const thread of this.#threads) thread.close()
    await Promise.all(this.#threads.map((thread) => thread.end()))
    process.off('exit', this.#onExit)
  }

  /** Synchronous, because the event loop no longer runs. The wait for a thread that hangs is limited. */
  #closeNow(): void {
    for (const thread of this.#threads) thread.close()
    const deadline = performance.now() + closeWithinMs
    for (const index of this.#threads.keys()) {
      const leftMs = deadline - performance.now()
      if (leftMs > 0) Atomics.wait(this.#closed, index, 0, leftMs)
    }
  }
}

/** Resolves when each thread has loaded its directory. Nothing listens yet. */
export async function openIngestThreads(deps: IngestThreadsDeps): Promise<IngestThreads> {
  const closed = new Int32Array(new SharedArrayBuffer(deps.count * 4))
  const threads = Array.from({ length: deps.count }, (_, index) => {
    const data: IngestThreadData = {
      ...deps.data,
      index,
      appender: deps.shareAppender(),
      closed: closed.buffer,
      asksForQuota: deps.askQuota !== null,
    }
    const onEnd = () => Atomics.store(closed, index, 1)
    return new IngestThread(data, { ...deps, usage: deps.usageOf(index), onEnd })
  })
  const opened = new IngestThreads(threads, closed)
  try {
    await Promise.all(threads.map((thread) => thread.ready))
  } catch (error) {
    await opened.close()
    throw error
  }
  return opened
}

/** One address on which every ingest thread listens. */
class SharedListener implements Listener {
  readonly #threads: readonly IngestThread[]
  readonly #options: ListenerOptions
  #port: number
  #isListening = false

  constructor(threads: readonly IngestThread[], options: ListenerOptions) {
    this.#threads = threads
    this.#options = options
    this.#port = options.address.port
    for (const thread of threads) thread.serve(options)
  }

  get port(): number {
    return this.#port
  }

  async listen(): Promise<void> {
    if (this.#isListening) return
    const { name, address, paths } = this.#options
    // Main chooses the port, because uWebSockets does not share a port that the system chose.
    const port = this.#port === 0 ? await requireFreeAddress(name, address) : this.#port
    const shared: SharedAddress = {
      name,
      address: { host: address.host, port },
      paths: paths.map(({ path, methods, keyed = [] }) => ({
        path,
        methods: [...methods.keys()],
        keyed: [...keyed],
      })),
    }
    try {
      await Promise.all(this.#threads.map((thread) => thread.remote.call('listen', [shared])))
    } catch {
      throw new ListenError(name, address, 'the system does not allow it')
    }
    this.#port = port
    this.#isListening = true
  }

  async stop(): Promise<void> {
    this.#isListening = false
    await Promise.all(this.#threads.map((thread) => thread.remote.call('stopListening', [])))
  }

  close(): void {
    for (const thread of this.#threads) thread.close()
  }
}
