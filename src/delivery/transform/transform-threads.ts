/**
 * Runs transforms outside the delivery thread, so that no expression delays a lane without a transform. Workspaces
 * share one thread. Slow lanes and workspaces (`slow-lanes.ts`) use other threads, with all jobs of a workspace in the
 * same one.
 *
 *   run ─▶ shared thread ─▶ results
 *             ├── a slow record, or too much time of the thread ─▶ the lane's or the workspace's jobs restart in a thread for slow ones
 *             └── the same record for 0.3 s (1 s in a thread for slow ones), or out of memory ─▶ the thread is ended, its jobs restart:
 *                   those of the workspace at fault (out of memory: of the lane) in a thread for slow ones, the others in a new one
 *                   the same record ends a thread again ─▶ it has failed (`transform_timeout`, `transform_memory`)
 *                   more than 3 such records in a job    ─▶ ExceededError: the batch is sent in parts
 *
 * Time is the thread's processor time where the kernel reports it, because on a busy machine a fast record waits for
 * the processor. It is counted in checks of the board, not by a clock: while the machine slept, there were no checks.
 */
import { availableParallelism } from 'node:os'
import type { Transform } from '../../contract/transform.ts'
import { errorCode } from '../../platform/error-code.ts'
import { processorMs } from '../../platform/processor-time.ts'
import { Thread, threadEntry } from '../../platform/threads.ts'
import { SlowLanes } from './slow-lanes.ts'
import {
  boardWords,
  ExceededError,
  type GivenUp,
  type TransformCalls,
  type TransformedBody,
  type TransformReports,
  type TransformThreadData,
  type Turn,
} from './thread-protocol.ts'

const lookEveryMs = 100
const checksUntilEnded = 10
/**
 * In the shared thread all workspaces wait for this record, so it is soon moved to another thread, where it fails after
 * a second.
 */
const checksUntilMoved = 3
/**
 * The minimum that a check counts: a record that uses no processor time blocks the others too, and gets thirty times as
 * long.
 */
const minActivePart = 1 / 30
/** A thread has no board to check until its code is loaded. */
const checksWhileStarting = 300
const oldHeapMiB = 256
const youngHeapMiB = 8
const idleMs = 60_000
/** Each can have a heap of its own (`oldHeapMiB`). One core is left for the rest of the process. */
const slowThreads = Math.min(4, Math.max(1, availableParallelism() - 1))
/** The cost for the others when a thread ends. */
const endMs = 1_000
const endsToFail = 2
const maxFailed = 3
/** The number of thread deaths that a job tolerates. More are not its own fault, and it is tried again later. */
const maxRestarts = 20

interface Job extends Turn {
  id: number
  transform: Transform
  bodies: readonly Uint8Array[]
  /** The number of ended threads per record of the job. */
  ends: Map<string, number>
  givenUp: GivenUp[]
  restarts: number
  resolve(results: TransformedBody[]): void
  reject(error: Error): void
}

export class TransformThreads {
  readonly #shared = this.#newThread({ looks: checksUntilMoved, isShared: true })
  readonly #apart = Array.from({ length: slowThreads }, () =>
    this.#newThread({ looks: checksUntilEnded, isShared: false }),
  )
  readonly #slow = new SlowLanes()
  #lastJob = 0

  /** Returns the transformed body of each given body. Rejects with ExceededError, and when `signal` is aborted. */
  async run(
    { workspaceId, destinationId }: Turn,
    transform: Transform,
    bodies: readonly Uint8Array[],
    signal: AbortSignal,
  ): Promise<TransformedBody[]> {
    signal.throwIfAborted()
    // Wraps around within the range of an Int32.
    this.#lastJob = (this.#lastJob % 0x7fff_fffe) + 1
    const id = this.#lastJob
    let abort = () => {}
    try {
      return await new Promise((resolve, reject) => {
        abort = () => {
          for (const thread of this.#threads) thread.cancel(id)
          reject(signal.reason)
        }
        signal.addEventListener('abort', abort, { once: true })
        const begun = { ends: new Map(), givenUp: [], restarts: 0 }
        this.#start({ id, workspaceId, destinationId, transform, bodies, ...begun, resolve, reject })
      })
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /** The destination was deleted, or another process delivers to it. */
  laneGone(lane: Turn, isLastOfWorkspace: boolean): void {
    this.#slow.laneGone(lane)
    if (isLastOfWorkspace) this.#slow.workspaceGone(lane.workspaceId)
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.close()))
  }

  get #threads(): TransformThread[] {
    return [this.#shared, ...this.#apart]
  }

  #newThread(kind: ThreadKind): TransformThread {
    return new TransformThread(
      kind,
      (job, what) => this.#wasSlow(job, what),
      (jobs, blamed, why) => this.#ended(jobs, blamed, why),
    )
  }

  #start(job: Job): void {
    const thread = this.#slow.has(job) ? this.#slowThread(job.workspaceId) : this.#shared
    thread.start(job)
  }

  /** The thread with jobs of this workspace, otherwise the one with the fewest workspaces. */
  #slowThread(workspaceId: string): TransformThread {
    const own = this.#apart.find((thread) => thread.workspaces.has(workspaceId))
    if (own !== undefined) return own
    return this.#apart.reduce((least, one) => (one.workspaces.size < least.workspaces.size ? one : least))
  }

  #wasSlow(job: Turn, what: 'lane' | 'workspace'): void {
    if (what === 'lane') this.#slow.addLane(job)
    else this.#slow.addWorkspace(job.workspaceId)
    for (const moved of this.#shared.take((one) => this.#slow.has(one))) this.#start(moved)
  }

  #ended(jobs: Job[], blamed: Blamed | null, why: Why): void {
    const atFault = jobs.find(({ id }) => id === blamed?.job)
    if (atFault !== undefined) {
      // The workspace's other lanes can have the same expression or records, and each would cost the others as much.
      if (why === 'time' && !this.#slow.has(atFault)) this.#slow.addWorkspace(atFault.workspaceId)
      else this.#slow.addLane(atFault)
    }
    for (const job of jobs) {
      job.restarts += 1
      if (job === atFault && blamed !== null && !canContinue(job, blamed, why)) {
        job.reject(new ExceededError('records', blamed.message))
      } else if (job.restarts > maxRestarts)
        job.reject(new Error('the thread that applies transforms ends again and again'))
      else this.#start(job)
    }
  }
}

interface ThreadKind {
  /** The number of checks at the same record after which the thread is ended. */
  looks: number
  /** Shared by the workspaces that are not slow. */
  isShared: boolean
}

type Why = 'time' | 'memory' | 'other'
interface Blamed {
  job: number
  message: number
  record: number
  step: number
}

/** Fails a record that has ended two threads. Returns false when there are too many of them. */
function canContinue(job: Job, { message, record, step }: Blamed, why: Why): boolean {
  const place = `${message}:${record}`
  const ends = (job.ends.get(place) ?? 0) + 1
  job.ends.set(place, ends)
  if (ends < endsToFail) return true
  const what =
    why === 'memory'
      ? { code: 'transform_memory', message: 'The transform takes too much memory for the record.' }
      : { code: 'transform_timeout', message: 'The transform takes longer than a second for the record.' }
  job.givenUp.push({ messageAt: message, place: record, step, ...what })
  return job.givenUp.length <= maxFailed
}

type StartedThread = Thread<TransformCalls, TransformReports>

/** One thread: started with its first job, ended when idle. */
class TransformThread {
  readonly #kind: ThreadKind
  readonly #onSlow: (job: Job, what: 'lane' | 'workspace') => void
  readonly #onEnd: (jobs: Job[], blamed: Blamed | null, why: Why) => void
  readonly #jobs = new Map<number, Job>()
  /** By workspace with jobs here: the time that its records have cost by ending this thread. */
  readonly workspaces = new Map<string, { jobs: number; costMs: number }>()
  #thread: StartedThread | null = null
  #board = newBoard()
  #watch: NodeJS.Timeout | null = null
  #idle: NodeJS.Timeout | null = null

  constructor(
    kind: ThreadKind,
    onSlow: (job: Job, what: 'lane' | 'workspace') => void,
    onEnd: (jobs: Job[], blamed: Blamed | null, why: Why) => void,
  ) {
    this.#kind = kind
    this.#onSlow = onSlow
    this.#onEnd = onEnd
  }

  start(job: Job): void {
    const workspace = this.workspaces.get(job.workspaceId) ?? { jobs: 0, costMs: 0 }
    workspace.jobs += 1
    this.workspaces.set(job.workspaceId, workspace)
    this.#jobs.set(job.id, job)
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#send(job, workspace.costMs)
    this.#watch ??= this.#look()
  }

  /** Removes these jobs, to restart them elsewhere. */
  take(isTaken: (job: Job) => boolean): Job[] {
    const taken = [...this.#jobs.values()].filter(isTaken)
    for (const { id } of taken) this.cancel(id)
    return taken
  }

  /** A cancelled job can hang in a record, so the thread must still be checked. */
  cancel(id: number): void {
    if (this.#remove(id) !== undefined) this.#thread?.tell('cancel', [id])
    if (this.#jobs.size === 0 && Atomics.load(this.#board, boardWords.job) === id) void this.close()
    else this.#rest()
  }

  async close(): Promise<void> {
    const thread = this.#thread
    this.#thread = null
    this.#jobs.clear()
    this.workspaces.clear()
    this.#stopTimers()
    await thread?.terminate('it is not needed any more')
  }

  #remove(id: number): Job | undefined {
    const job = this.#jobs.get(id)
    if (job === undefined) return undefined
    this.#jobs.delete(id)
    const workspace = this.workspaces.get(job.workspaceId)
    if (workspace !== undefined) {
      workspace.jobs -= 1
      if (workspace.jobs === 0) this.workspaces.delete(job.workspaceId)
    }
    return job
  }

  #send(job: Job, headStartMs: number): void {
    const { id, workspaceId, destinationId, transform, givenUp } = job
    const bodies = job.bodies.map((body) => Uint8Array.from(body))
    const transfer = bodies.map(({ buffer }) => buffer)
    this.#thread ??= this.#open()
    const thread = this.#thread
    const sent = { id, workspaceId, destinationId, transform, bodies, givenUp, headStartMs }
    // Jobs of a thread that ends are restarted: see #ended.
    const isCurrent = () => thread === this.#thread && thread.isUsable && this.#jobs.has(id)
    thread.call('run', [sent], { transfer }).then(
      (results) => {
        if (isCurrent() && results !== null) this.#settled(job).resolve(results)
      },
      (error: Error) => {
        if (!isCurrent()) return
        this.#settled(job)
        if (error instanceof ExceededError && error.what === 'time') this.#onSlow(job, 'lane')
        job.reject(error)
      },
    )
  }

  #settled(job: Job): Job {
    this.#remove(job.id)
    this.#rest()
    return job
  }

  #open(): StartedThread {
    this.#board = newBoard()
    const { isShared } = this.#kind
    const thread: StartedThread = new Thread({
      name: 'transform',
      entry: threadEntry(import.meta.url, './transform-thread'),
      limits: { maxOldGenerationSizeMb: oldHeapMiB, maxYoungGenerationSizeMb: youngHeapMiB },
      data: { board: this.#board.buffer, isShared } satisfies TransformThreadData,
      errors: { ExceededError },
      host: {
        slow: (id, what) => {
          const job = this.#jobs.get(id)
          if (job !== undefined) this.#onSlow(job, what)
        },
      },
    })
    void thread.ended.then(({ error }) =>
      this.#ended(thread, errorCode(error) === 'ERR_WORKER_OUT_OF_MEMORY' ? 'memory' : 'other'),
    )
    return thread
  }

  #look(): NodeJS.Timeout {
    let seen = { steps: -1, isBusy: false, usedMs: null as number | null }
    let looks = 0
    const timer = setInterval(() => {
      const steps = Atomics.load(this.#board, boardWords.steps)
      const isBusy = Atomics.load(this.#board, boardWords.job) !== 0
      const usedMs = isBusy ? processorMs(Atomics.load(this.#board, boardWords.thread)) : null
      const isSame = steps === seen.steps && isBusy === seen.isBusy
      looks = isSame ? looks + (isBusy ? activePart(seen.usedMs, usedMs) : 1) : 0
      seen = { steps, isBusy, usedMs }
      const thread = this.#thread
      // A thread that ends by itself reports the reason.
      if (!thread?.isUsable || looks < (isBusy ? this.#kind.looks : checksWhileStarting)) return
      looks = 0
      this.#ended(thread, 'time')
    }, lookEveryMs)
    timer.unref()
    return timer
  }

  #ended(thread: StartedThread, why: Why): void {
    if (this.#thread !== thread) return
    this.#thread = null
    void thread.terminate('a record has held it up')
    const at = (word: number) => Atomics.load(this.#board, word)
    const blamed = {
      job: at(boardWords.job),
      message: at(boardWords.message),
      record: at(boardWords.record),
      step: at(boardWords.step),
    }
    const cost = this.workspaces.get(this.#jobs.get(blamed.job)?.workspaceId ?? '')
    if (cost !== undefined) cost.costMs += endMs
    // A workspace that has cost more starts after the others. Within a workspace, the last lane added has the first
    // turn.
    const costOf = ({ workspaceId }: Job) => this.workspaces.get(workspaceId)?.costMs ?? 0
    const isBlamed = ({ id }: Job) => Number(id === blamed.job)
    const jobs = [...this.#jobs.values()].sort(
      (one, other) => costOf(one) - costOf(other) || isBlamed(other) - isBlamed(one),
    )
    // The cost counts until the workspace has no jobs here.
    for (const workspace of this.workspaces.values()) workspace.jobs = 0
    this.#jobs.clear()
    this.#stopTimers()
    this.#onEnd(jobs, blamed.job === 0 ? null : blamed, why)
    for (const [workspaceId, { jobs: left }] of this.workspaces)
      if (left === 0) this.workspaces.delete(workspaceId)
  }

  #rest(): void {
    if (this.#jobs.size > 0 || this.#thread === null) return
    this.#stopTimers()
    this.#idle = setTimeout(() => void this.close(), idleMs)
    this.#idle.unref()
  }

  #stopTimers(): void {
    if (this.#watch !== null) clearInterval(this.#watch)
    if (this.#idle !== null) clearTimeout(this.#idle)
    this.#watch = null
    this.#idle = null
  }
}

/** The part of the interval in which the thread was working, by its processor time. */
function activePart(beforeMs: number | null, nowMs: number | null): number {
  if (beforeMs === null || nowMs === null) return 1
  return Math.max(minActivePart, Math.min(1, (nowMs - beforeMs) / lookEveryMs))
}

function newBoard(): Int32Array<SharedArrayBuffer> {
  return new Int32Array(new SharedArrayBuffer(boardWords.count * Int32Array.BYTES_PER_ELEMENT))
}
