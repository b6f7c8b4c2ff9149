/**
 * Delivery as seen from the main thread: runs one delivery worker, restarts it when it dies, and forwards every call to
 * it.
 *
 *   starting ──ready──▶ up ──dies──▶ waiting (none at first, then longer each time) ──▶ starting: lanes continue from their rows
 *                        │             └── its files failed, or it dies repeatedly and no lane is the cause ──▶ onFatal
 *                        └── close ──▶ closed
 *
 * Two workers never run at the same time, because a lane's state has one owner. While there is no worker, metadata can
 * change; the next worker reads it. A pull that waits when the worker dies returns empty. Views show the stored lanes.
 * Any other call rejects with DeliveryUnavailableError, because its outcome is unknown.
 */
import type { DriverSettings } from '../destinations/driver.ts'
import type { BufferReader } from '../log/buffer.ts'
import type { BufferSpec } from '../log/buffer-spec.ts'
import type { Metadata, MetadataSpec } from '../metadata/store.ts'
import { endsWithin } from '../platform/deadline.ts'
import { DeliveryUnavailableError } from '../platform/error-code.ts'
import { type Logger, type LogSettings, openLog } from '../platform/log.ts'
import { Waits } from '../platform/waits.ts'
import type {
  Delivery,
  DeliveryMetrics,
  LaneTrouble,
  PullRequest,
  PullResult,
  Rereads,
  TroubleQuery,
} from './delivery.ts'
import { type DeliveryReplica, DeliveryWorker, type WorkerEnd } from './delivery-worker.ts'
import { allBlocked, StoredLanes } from './stored-lanes.ts'
import { WorkerDeaths } from './worker-deaths.ts'

export interface DeliveryOptions {
  /** The spec of a buffer that is already open for writing. */
  buffer: BufferSpec
  metadata: MetadataSpec
  /** Opens a separate reader for the main thread. */
  openReader(log: Logger): Promise<BufferReader>
  /** The main thread's own metadata, for lane views while no worker responds. */
  stored: Pick<Metadata, 'laneSource' | 'laneStore' | 'parkedStore'>
  sealingKey: Buffer
  /** The id of this node; null or undefined outside a cluster. */
  nodeId?: string | null
  driverSettings: DriverSettings
  /** The memory limit of all batches under way together. */
  maxInFlightBytes: number
  /** `parked.max_bytes`. */
  maxParkedBytes: number
  log: LogSettings
  /** Treats every destination as blocked: `serve --safe`. */
  isSafe?: boolean
  /** Null or undefined: there is no replica. */
  replica?: DeliveryReplica | null
  /** A lane waits until its range is in the replica. */
  onReplicaAwaited?(): void
  /** Delivery has changed the metadata of this pipe: every copy of it must be read again. */
  onPipeChanged?(pipeId: string): void
  /** Delivery cannot continue: the process must end. */
  onFatal(error: Error): void
}

export interface DeliveryHandle extends Delivery {
  /** The number of restarts of the worker. */
  readonly workerRestarts: number
  /** Time since delivery's last sign of life; 0 while a restart is pending. */
  silentMs(): number
  /**
   * Starts no new attempts. Attempts under way can finish within `graceMs` (default 10 s); then they are aborted, which
   * does not count as an attempt. Resolves when all lane state is saved and the worker has ended. Rejects when the
   * worker died instead.
   */
  close(graceMs?: number): Promise<void>
}

/** The delivery worker of this process. */
export interface LocalDelivery extends DeliveryHandle, Rereads {
  /** Everything that was durable before this moment (`sharedMs`) is in the replica. */
  replicated(beforeMs: number): void
}

const defaultGraceMs = 10_000
const noMetrics: DeliveryMetrics = { inFlightBytes: 0, workerRestarts: 0, lanes: [], attempts: [] }
/** The time limit for collecting metrics. A scrape's own limit is often a few seconds. */
const measureWithinMs = 1_000
/** The time beyond the grace for aborting, saving and closing: the limit in delivery-thread.ts plus one second. */
const closeMarginMs = 11_000
const catchUpEveryMs = 1_000
/** How long a call waits for a worker that is being started. */
const startWaitMs = 5_000

/** Resolves when all lanes are loaded. Rejects when the worker cannot start. */
export async function openDelivery(options: DeliveryOptions): Promise<LocalDelivery> {
  const supervisor = new Supervisor(options)
  await supervisor.open()
  return supervisor
}

class Supervisor implements LocalDelivery {
  readonly #options: DeliveryOptions
  readonly #log: ReturnType<typeof openLog>
  readonly #deaths = new WorkerDeaths()
  readonly #stored: StoredLanes
  #worker: DeliveryWorker
  #isUp = false
  #restart: NodeJS.Timeout | null = null
  /** Pipes that changed while a worker was starting, which can have read them before the change. */
  readonly #changed = new Set<string>()
  /** Called when a worker is ready, or when there will be none. */
  readonly #untilUp = new Waits()
  /** Null before the first metrics. */
  #lastMetrics: DeliveryMetrics | null = null
  #measuring: Promise<void> | null = null
  #restarts = 0
  #endsPulls = false
  #isClosing = false
  #failure: Error | null = null

  constructor(options: DeliveryOptions) {
    this.#options = options
    this.#log = openLog(options.log, 'main')
    const { openReader, isSafe, stored } = options
    this.#stored = new StoredLanes({
      source: isSafe ? allBlocked(stored.laneSource) : stored.laneSource,
      store: stored.laneStore,
      parked: stored.parkedStore,
      openReader: () => openReader(this.#log),
    })
    this.#worker = this.#startWorker()
  }

  async open(): Promise<void> {
    await this.#worker.ready
    this.#isUp = true
    void this.#worker.ended.then((end) => this.#died(end))
  }

  readonly lanes = this.#read('lanes')
  readonly lanesSince = this.#read('lanesSince')
  readonly backlogs = this.#read('backlogs')
  readonly blockingMessage = this.#read('blockingMessage')
  readonly skip = this.#forward('skip')
  readonly retryNow = this.#forward('retryNow')
  readonly rewind = this.#forward('rewind')
  readonly test = this.#forward('test')
  readonly infer = this.#forward('infer')
  readonly tryTransform = this.#forward('tryTransform')
  readonly forget = this.#forward('forget')
  readonly acknowledge = this.#forward('acknowledge')
  readonly pulled = this.#forward('pulled')
  readonly abandoned = this.#forward('abandoned')
  readonly countUsage = this.#forward('countUsage')
  readonly reread = this.#forward('reread')

  /** Returns the previous metrics when no worker responds in time, for example because a lane waits for the buffer. */
  async metrics(): Promise<DeliveryMetrics> {
    this.#requireOpen()
    if (this.#isUp) {
      this.#measuring ??= this.#measure().finally(() => {
        this.#measuring = null
      })
      if (this.#lastMetrics === null) await this.#measuring
      else await endsWithin(measureWithinMs, this.#measuring)
    }
    return { ...(this.#lastMetrics ?? noMetrics), workerRestarts: this.#restarts }
  }

  async #measure(): Promise<void> {
    const asked = this.#worker.call('metrics', [], { isRead: true })
    const found = (await asked.catch(unlessInterrupted)) as DeliveryMetrics | undefined
    if (found !== undefined) this.#lastMetrics = found
  }

  async troubles(query: TroubleQuery): Promise<LaneTrouble[] | null> {
    this.#requireOpen()
    if (!this.#isUp) return null
    const found = this.#worker.call('troubles', [query], { isRead: true })
    return ((await found.catch(unlessInterrupted)) ?? null) as LaneTrouble[] | null
  }

  readonly replicated = (beforeMs: number): void => {
    if (this.#options.replica?.isSync === true && this.#isUp) this.#worker.replicated(beforeMs)
  }

  get workerRestarts(): number {
    return this.#restarts
  }

  silentMs(): number {
    return this.#restart === null && !this.#isClosing ? this.#worker.silentMs : 0
  }

  async refresh(pipeId: string): Promise<void> {
    this.#requireOpen()
    if (!this.#isUp) {
      this.#changed.add(pipeId)
      return
    }
    await this.#worker.call('refresh', [pipeId]).catch(unlessInterrupted)
  }

  /** A new worker reads the parked records at its start. */
  async parkedChanged(destinationId: string): Promise<void> {
    this.#requireOpen()
    if (this.#isUp) await this.#worker.call('parkedChanged', [destinationId]).catch(unlessInterrupted)
  }

  /** A worker's death ends a waiting pull without a message; a message handed over before is redelivered. */
  async pull(destinationId: string, request: PullRequest): Promise<PullResult> {
    this.#requireOpen()
    const startedAt = performance.now()
    if (!(await this.#upWithin(request.waitMs))) return { kind: 'empty' }
    const waitMs = Math.max(0, request.waitMs - Math.ceil(performance.now() - startedAt))
    const pulled = this.#worker.call('pull', [destinationId, { ...request, waitMs }])
    return ((await pulled.catch(unlessInterrupted)) ?? { kind: 'empty' }) as PullResult
  }

  async endPulls(): Promise<void> {
    this.#requireOpen()
    this.#endsPulls = true
    if (this.#isUp) await this.#worker.call('endPulls', []).catch(unlessInterrupted)
    else this.#announceUp()
  }

  async close(graceMs = defaultGraceMs): Promise<void> {
    if (this.#isClosing) {
      await this.#worker.ended
      return
    }
    this.#isClosing = true
    if (this.#restart !== null) clearTimeout(this.#restart)
    this.#announceUp()
    if (!this.#isUp) {
      // The lanes' changes are saved, and a worker that is still starting has done nothing.
      if (this.#failure !== null || this.#restart !== null) return
      this.#worker.terminate('the delivery thread was stopped while it started')
      await this.#worker.ended
      return
    }
    const worker = this.#worker
    const timeout = setTimeout(
      () => worker.terminate('the delivery thread did not stop'),
      graceMs + closeMarginMs,
    )
    try {
      await worker.call('close', [graceMs])
    } finally {
      await worker.ended
      clearTimeout(timeout)
    }
  }

  #startWorker(): DeliveryWorker {
    const {
      buffer,
      metadata,
      sealingKey,
      nodeId = null,
      driverSettings,
      maxInFlightBytes,
      maxParkedBytes,
      log,
      isSafe = false,
      replica = null,
    } = this.#options
    const worker = new DeliveryWorker({
      buffer,
      metadata,
      sealingKey: Uint8Array.from(sealingKey),
      nodeId,
      driverSettings,
      maxInFlightBytes,
      maxParkedBytes,
      log,
      suspects: this.#deaths.suspects,
      quarantined: this.#deaths.quarantined,
      isSafe,
      endsPulls: this.#endsPulls,
      replica,
    })
    worker.onColumnsAdded = (pipeId) => this.#options.onPipeChanged?.(pipeId)
    worker.onReplicaAwaited = () => this.#options.onReplicaAwaited?.()
    worker.onFinished = (destinationId) => this.#deaths.finished(destinationId)
    worker.onDeliveredApart = (destinationId) => {
      if (!this.#deaths.delivered(destinationId)) return
      worker.release(destinationId)
      this.#log.info({ destination_id: destinationId }, 'lane.quarantine_ended')
    }
    return worker
  }

  #died(end: WorkerEnd): void {
    this.#isUp = false
    if (this.#isClosing) return
    const { error, blamed, underWay, isStorageFailure, isStuck } = end
    const verdict = this.#deaths.died(end)
    const fields = {
      blamed: blamed ?? undefined,
      under_way: underWay.length,
      quarantined: verdict.quarantined,
    }
    this.#log.error({ err: error, ...fields, restart_ms: verdict.restartAfterMs }, 'delivery.worker_died')
    for (const id of verdict.quarantined) this.#log.warn({ destination_id: id }, 'lane.quarantined')
    if (isStorageFailure || isStuck || verdict.isHopeless) {
      this.#fail(error)
      return
    }
    this.#restart = setTimeout(() => void this.#startAgain(), verdict.restartAfterMs)
  }

  async #startAgain(): Promise<void> {
    this.#restart = null
    // The new worker has read all metadata, including these changes.
    this.#changed.clear()
    const worker = this.#startWorker()
    this.#worker = worker
    const isReady = await worker.ready.then(
      () => true,
      () => false,
    )
    if (isReady && !this.#isClosing) {
      this.#isUp = true
      this.#restarts += 1
      this.#log.info('delivery.worker_restarted')
      for (const pipeId of this.#changed) void this.#catchUp(pipeId, worker)
      this.#changed.clear()
      this.#announceUp()
    }
    this.#died(await worker.ended)
  }

  /**
   * No caller waits for this any more. It is repeated until it succeeds or the next worker reads the metadata at its
   * start.
   */
  async #catchUp(pipeId: string, worker: DeliveryWorker): Promise<void> {
    while (this.#worker === worker && this.#isUp && !this.#isClosing) {
      try {
        await this.refresh(pipeId)
        return
      } catch (error) {
        this.#log.warn({ pipe_id: pipeId, err: error }, 'lanes.refresh_delayed')
        await new Promise((resolve) => setTimeout(resolve, catchUpEveryMs))
      }
    }
  }

  #fail(error: Error): void {
    if (this.#failure !== null || this.#isClosing) return
    this.#failure = error
    this.#announceUp()
    this.#options.onFatal(error)
  }

  /** Forwards a method to the lane service in the worker. */
  #forward<Method extends keyof (Delivery & Rereads)>(method: Method): (Delivery & Rereads)[Method] {
    const run = async (...args: unknown[]) => {
      this.#requireOpen()
      if (!(await this.#upWithin(startWaitMs))) {
        throw new DeliveryUnavailableError('the delivery thread is being restarted')
      }
      return await this.#worker.call(method, args)
    }
    return run as (Delivery & Rereads)[Method]
  }

  /** Forwards a read. Uses the stored lanes while no worker responds. */
  #read<Method extends 'lanes' | 'lanesSince' | 'backlogs' | 'blockingMessage'>(
    method: Method,
  ): Delivery[Method] {
    const run = async (...args: unknown[]) => {
      this.#requireOpen()
      if (this.#isUp) {
        try {
          return await this.#worker.call(method, args, { isRead: true })
        } catch (error) {
          unlessInterrupted(error)
        }
      }
      return await Reflect.apply(this.#stored[method], this.#stored, args)
    }
    return run as Delivery[Method]
  }

  #requireOpen(): void {
    if (this.#failure !== null) throw this.#failure
    if (this.#isClosing && !this.#isUp) throw new Error('delivery is closed')
  }

  /** Returns false when no worker is ready within the time, or none will be. */
  async #upWithin(ms: number): Promise<boolean> {
    if (this.#isUp || ms <= 0 || this.#isClosing) return this.#isUp
    await this.#untilUp.wait(ms)
    return this.#isUp
  }

  #announceUp(): void {
    this.#untilUp.end()
  }
}

/** Ignores the error of a call that the worker's death interrupted: the call was done, or had nothing to do. */
function unlessInterrupted(error: unknown): undefined {
  if (!(error instanceof DeliveryUnavailableError)) throw error
}
