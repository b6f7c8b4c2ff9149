/**
 * The main thread's side of the replica thread. A thread that fails is started again after a pause, and its lag grows
 * meanwhile. A thread that finds another writer in the bucket ends the process: see `ReplacedError`.
 *
 *   started ──▶ joining ──▶ ok ◀──▶ failing (the bucket is away: requests are repeated)
 *      ▲           │ another writer, or an unfit store: onRefused
 *      └── pause ◀─┴── an error of the disk, or of the program
 */
import { resourceLimits } from '../contract/resource-limits.ts'
import type { SegmentsSpec } from '../log/segments/protocol.ts'
import { backoffMs } from '../platform/backoff.ts'
import { endsWithin } from '../platform/deadline.ts'
import { type LogSettings, openLog } from '../platform/log.ts'
import { Thread, threadEntry } from '../platform/threads.ts'
import { Waits } from '../platform/waits.ts'
import type { ReplicaTarget } from './bucket.ts'
import { type BucketCounters, newBucketCounters } from './bucket-counters.ts'
import type { ReplicaStatus } from './replicator.ts'
import type { OnStored } from './replicator-parts.ts'
import type { RefusedEvent } from './run-replica.ts'

export interface ReplicaThreadData {
  target: ReplicaTarget
  intervalMs: number
  heartbeatMs: number | null
  /** Requests wait for the replica: it is woken by each commit. */
  isSync: boolean
  /** The data directory. */
  root: string
  metadataFile: string
  buffer: SegmentsSpec
  /** The sealing key. */
  key: Uint8Array
  log: LogSettings
}

export interface ReplicaCalls {
  status(): ReplicaView
  /** Stores what was written without waiting for the interval. */
  wake(): void
  /** Stores everything of this moment, unless that takes longer. Nothing is stored after it. */
  finish(withinMs: number): void
}

export interface ReplicaReports {
  /** The newest slot is one of this directory. */
  joined(): void
  stored: OnStored
  refused(event: RefusedEvent, message: string): void
}

/** `joining`: the newest slot is not known yet, or the thread is being started. */
export interface ReplicaView extends Omit<ReplicaStatus, 'state'> {
  state: ReplicaStatus['state'] | 'joining'
  use: BucketCounters
  /** Requests of a day, at the rate of the last hour. */
  requestsPerDay: BucketCounters['requests']
}

export interface Replica {
  /** Resolves when the bucket has answered that this directory is its writer. */
  readonly joined: Promise<void>
  status(): Promise<ReplicaView>
  /** Everything that is durable now is stored without waiting for the interval. */
  wake(): void
  /** Stores what the daemon wrote last. Never rejects. */
  close(): Promise<void>
}

export interface ReplicaEvents {
  onStored: OnStored
  /** Called once, from `joining` or later. The process must end: another writer has the log, or the store is unfit. */
  onRefused(event: RefusedEvent, message: string): void
}

const statusWithinTicks = 5
const finishWithinMs = 10_000
const firstPauseMs = 1_000
const longestPauseMs = 60_000

export function openReplica(data: ReplicaThreadData, events: ReplicaEvents): Replica {
  return new ReplicaProxy(data, events)
}

class ReplicaProxy implements Replica {
  readonly joined: Promise<void>
  readonly #data: ReplicaThreadData
  readonly #events: ReplicaEvents
  readonly #waits = new Waits()
  readonly #running: Promise<void>
  #onJoined = () => {}
  #thread: Thread<ReplicaCalls, ReplicaReports> | null = null
  #isClosing = false
  #last: ReplicaView = {
    state: 'joining',
    slot: 0,
    headSeq: 0,
    generation: 0,
    // Before the bucket has answered, the lag is counted from the start.
    storedThroughMs: Date.now(),
    snapshotMs: null,
    stored: null,
    error: null,
    use: newBucketCounters(),
    requestsPerDay: newBucketCounters().requests,
  }

  constructor(data: ReplicaThreadData, events: ReplicaEvents) {
    this.#data = data
    this.#events = events
    this.joined = new Promise((resolve) => {
      this.#onJoined = resolve
    })
    this.#running = this.#run()
  }

  async status(): Promise<ReplicaView> {
    const thread = this.#thread
    if (thread === null) return this.#last
    try {
      const now = await thread.call('status', [], { maxTicks: statusWithinTicks })
      this.#last = { ...now, storedThroughMs: Math.max(now.storedThroughMs, this.#last.storedThroughMs) }
    } catch {
      // It has ended or is busy: what was known is shown, and its age with it.
    }
    return this.#last
  }

  wake(): void {
    this.#thread?.tell('wake', [])
  }

  async close(): Promise<void> {
    this.#isClosing = true
    this.#waits.end()
    const thread = this.#thread
    if (thread !== null) {
      const finished = thread.call('finish', [finishWithinMs]).catch(() => {})
      await endsWithin(finishWithinMs + 1_000, finished)
      await endsWithin(1_000, thread.close())
    }
    await endsWithin(1_000, this.#running)
  }

  async #run(): Promise<void> {
    const log = openLog(this.#data.log, 'replica')
    for (let failures = 0; !this.#isClosing; ) {
      const thread = new Thread<ReplicaCalls, ReplicaReports>({
        name: 'replica',
        entry: threadEntry(import.meta.url, '../daemon/threads/replica-thread'),
        data: this.#data,
        host: {
          joined: () => this.#onJoined(),
          stored: (seq, moments) => this.#events.onStored(seq, moments),
          refused: (event, message) => this.#events.onRefused(event, message),
        },
        holdsProcess: true,
        limits: { maxYoungGenerationSizeMb: resourceLimits.replicaYoungHeapMiB },
      })
      this.#thread = thread
      const { error } = await thread.ended
      this.#thread = null
      this.#last = { ...this.#last, state: 'joining' }
      if (this.#isClosing) return
      failures += 1
      log.error({ err: error }, 'replica.thread_failed')
      await this.#waits.wait(backoffMs(failures, firstPauseMs, longestPauseMs))
    }
  }
}
