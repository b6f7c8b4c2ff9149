/**
 * The server in an ingest thread: its listener, ingest with a copy of the directory, and the requests that it forwards
 * to main.
 *
 *   sockets ─ ingest ─ appender ──frames──▶ writer thread
 *      │         └── directory, which asks main and is notified of each change before management responds
 *      └──── everything else ──▶ main
 *
 * The process aborts if a thread ends with open sockets (uv_loop_close), so they are always closed first.
 */
import assert from 'node:assert'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { addMismatches, type Mismatches } from '../../contract/schema-words.ts'
import type { HookRefusal } from '../../contract/source-words.ts'
import { createQuota } from '../../ingest/admission.ts'
import { type BodyParsers, openBodyParsers } from '../../ingest/body-parsers.ts'
import { createClientIp } from '../../ingest/client-ip.ts'
import { createClusterQuota } from '../../ingest/cluster-quota.ts'
import {
  type Authenticate,
  createAuthenticate,
  openDirectory,
} from '../../ingest/directory/directory-cache.ts'
import { createSharedGeo } from '../../ingest/geo.ts'
import { createIngest, type Ingest } from '../../ingest/ingest.ts'
import { IngestObserved } from '../../ingest/observed.ts'
import { ParkingCalls } from '../../ingest/parked/queue.ts'
import { createBodyMemory, SharedCounters } from '../../ingest/shared-counters.ts'
import type { UsageObserver } from '../../ingest/usage.ts'
import type { Appender } from '../../log/buffer.ts'
import type { Directory, DirectorySource } from '../../metadata/directory-source.ts'
import { type Logger, openLog } from '../../platform/log.ts'
import { Semaphore } from '../../platform/semaphore.ts'
import type { Caller, Handlers } from '../../platform/thread-calls.ts'
import type { Listener } from '../http/engine.ts'
import { countTraffic } from '../http/exchange.ts'
import { hookPaths } from '../http/hook-routes.ts'
import { ingestPath } from '../http/ingest-routes.ts'
import { errorResponse, type HttpResponse } from '../http/response.ts'
import { createEngine } from '../http/uws/engine.ts'
import { Forwarding } from './forwarding.ts'
import type {
  IngestCalls,
  IngestReports,
  IngestThreadData,
  MismatchCount,
  Refresh,
  RejectedCount,
  SendHow,
  SharedAddress,
} from './protocol.ts'

/** The last use of a key is stored to the minute. */
const keysUsedEveryMs = 2_500

interface Opened {
  directory: Directory
  authenticate: Authenticate
  ingest: Ingest
}

export class IngestServer implements Handlers<IngestCalls> {
  readonly #main: Caller<IngestReports>
  readonly #data: IngestThreadData
  readonly #appender: Appender
  readonly #log: Logger
  readonly #traffic = countTraffic()
  readonly #forwarding: Forwarding
  readonly #geo: ReturnType<typeof createSharedGeo>
  readonly #clientIp: ReturnType<typeof createClientIp>
  readonly #parsers: BodyParsers
  #opened: Opened | null = null
  #listener: Listener | null = null
  #isClosing = false

  constructor(main: Caller<IngestReports>, data: IngestThreadData, appender: Appender) {
    this.#main = main
    this.#data = data
    this.#appender = appender
    this.#log = openLog(data.log, `ingest-${data.index}`)
    this.#forwarding = new Forwarding(main)
    this.#geo = createSharedGeo(data.geo)
    this.#clientIp = createClientIp(data.trustedProxies)
    this.#parsers = openBodyParsers(data.maxBodyBytes * resourceLimits.parserHeapPerBodyByte, data.parsers)
  }

  async open(): Promise<void> {
    const data = this.#data
    const main = this.#main
    const counters = new SharedCounters(data.counters)
    const directory = await openDirectory(sourceOf(main), {
      onPipeDeleted: (pipeId) => counters.forget(pipeId),
    })
    const authenticate = createAuthenticate(directory)
    const ingest = createIngest({
      directory,
      authenticate,
      appender: this.#appender,
      geo: this.#geo,
      clientIp: this.#clientIp,
      quota: data.asksForQuota
        ? createClusterQuota(counters, (...asked) => main.call('quota', asked))
        : createQuota({}, 0, counters),
      observed: new IngestObserved({ slot: data.index, memory: data.observed }),
      usage: new RejectedCounts(main),
      parking: new ParkingCalls({
        park: (requests) => main.call('park', [requests]),
        unpark: (parkedIds) => main.call('unpark', [parkedIds]),
      }),
      bodyMemory: createBodyMemory(data.maxInFlightBytes, counters),
      decoders: new Semaphore(data.decoders),
      parsers: this.#parsers,
      maxBodyBytes: data.maxBodyBytes,
      maxRecords: data.maxRecords,
      maxKeys: data.maxKeys,
      now: Date.now,
    })
    this.#opened = { directory, authenticate, ingest }
    setInterval(() => {
      const apiKeyIds = directory.takeUsedKeys()
      if (apiKeyIds.length > 0) main.tell('keysUsed', [apiKeyIds])
    }, keysUsedEveryMs)
  }

  async listen({ name, address, paths }: SharedAddress): Promise<void> {
    const { authenticate, ingest } = this.#requireOpened()
    const { begin, isStopping } = this.#traffic
    const log = this.#log
    this.#listener ??= createEngine().createListener({
      name,
      address,
      paths: [
        ...this.#forwarding.paths(paths, { authenticate, log, isStopping }),
        ingestPath({ ingest, log, isStopping }),
        ...hookPaths({ ingest, log, isStopping }),
      ],
      notFound: this.#forwarding.notFound,
      failed: (error) => errorResponse(error, log, 'server'),
      begin,
    })
    await this.#listener.listen()
  }

  async stopListening(): Promise<void> {
    await this.#listener?.stop()
  }

  async refresh(changed: Refresh): Promise<void> {
    const { directory } = this.#requireOpened()
    if ('pipeId' in changed) await directory.refreshPipe(changed.pipeId)
    else await directory.refreshKey(changed.apiKeyId)
  }

  trust(cidrs: readonly string[]): void {
    this.#clientIp.trust(cidrs)
  }

  drain(): Promise<void> {
    return this.#appender.drain()
  }

  idle(): Promise<void> {
    return this.#traffic.idle()
  }

  loadGeo(bytes: SharedArrayBuffer): void {
    this.#geo.load(bytes)
  }

  stopping(): void {
    this.#traffic.stop()
  }

  respond(id: number, how: SendHow, response: HttpResponse): void {
    this.#forwarding.respond(id, how, response)
  }

  stream(id: number, response: HttpResponse): void {
    this.#forwarding.stream(id, response)
  }

  piece(id: number, bytes: Uint8Array): void {
    this.#forwarding.piece(id, bytes)
  }

  streamEnd(id: number): void {
    this.#forwarding.streamEnd(id)
  }

  /**
   * Main waits for the mark before it ends the process. Sockets are only gone one turn of the event loop after they
   * were closed.
   */
  closeSockets(): void {
    if (this.#isClosing) return
    this.#isClosing = true
    this.#listener?.close()
    const closed = new Int32Array(this.#data.closed)
    const mark = () => {
      Atomics.store(closed, this.#data.index, 1)
      Atomics.notify(closed, this.#data.index)
      this.#main.tell('closed', [])
    }
    this.#parsers.close().catch(() => {})
    setTimeout(() => setImmediate(mark), 1)
  }

  #requireOpened(): Opened {
    assert(this.#opened !== null, 'a thread is opened before anything else is asked of it')
    return this.#opened
  }
}

/** The directory's source in main. Its errors arrive with their class. */
export function sourceOf(main: Caller<IngestReports>): DirectorySource {
  return {
    allPipes: () => main.call('allPipes', []),
    pipe: (pipeId) => main.call('pipe', [pipeId]),
    allKeys: () => main.call('allKeys', []),
    key: (hash) => main.call('key', [hash]),
    keyById: (apiKeyId) => main.call('keyById', [apiKeyId]),
  }
}

/**
 * Counts rejected requests of an ingest thread for usage; the writer reports accepted ones to main. The first rejection
 * in a turn of the event loop is reported at once, before its response. Further ones are reported together at the end
 * of the turn.
 */
class RejectedCounts implements UsageObserver {
  readonly #main: Caller<IngestReports>
  readonly #waiting = new Map<string, RejectedCount>()
  readonly #mismatches = new Map<string, MismatchCount>()
  #isScheduled = false

  constructor(main: Caller<IngestReports>) {
    this.#main = main
  }

  accepted(): void {}

  rejected(pipeId: string, atMs: number, hook: HookRefusal | null = null): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => this.#reportWaiting())
      this.#main.tell('rejected', [[{ pipeId, atMs, requests: 1, hook }]])
      return
    }
    const key = hook === null ? pipeId : `${pipeId} ${hook}`
    const count = this.#waiting.get(key)
    if (count === undefined) this.#waiting.set(key, { pipeId, atMs, requests: 1, hook })
    else count.requests++
  }

  mismatched(pipeId: string, atMs: number, added: Mismatches): void {
    if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => this.#reportWaiting())
      this.#main.tell('mismatched', [[{ pipeId, atMs, mismatches: added }]])
      return
    }
    const count = this.#mismatches.get(pipeId)
    if (count === undefined) this.#mismatches.set(pipeId, { pipeId, atMs, mismatches: { ...added } })
    else addMismatches(count.mismatches, added)
  }

  #reportWaiting(): void {
    this.#isScheduled = false
    if (this.#mismatches.size > 0) {
      this.#main.tell('mismatched', [[...this.#mismatches.values()]])
      this.#mismatches.clear()
    }
    if (this.#waiting.size === 0) return
    this.#main.tell('rejected', [[...this.#waiting.values()]])
    this.#waiting.clear()
  }
}
