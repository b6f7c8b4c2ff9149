/**
 * Where transforms run: apart from delivery, so that no expression of a tenant's holds up a lane that has none, in a thread that
 * all lanes share, and one for those that were slow.
 *
 *   run ─▶ shared thread ─▶ results
 *             └── the same record for 1 s, or out of memory ─▶ the thread is ended, its jobs begin again:
 *                   the job at fault in the other thread, the others in a new one
 *                   the same record ends a thread again ─▶ it has failed (`transform_timeout`, `transform_memory`)
 *                   more than 3 such records in a job    ─▶ ExceededError: the batch is sent in parts
 *
 * Time is counted in looks at the board, not on a clock: a machine that slept has looked no more often.
 */
import { Worker } from 'node:worker_threads'
import type { Transform } from '../contract/transform.ts'
import {
  boardWords,
  ExceededError,
  type FromTransformThread,
  type GivenUp,
  type ToTransformThread,
  type TransformedBody,
} from './thread-protocol.ts'

const lookEveryMs = 250
const looksToBeEnded = 4
/** Until its code is loaded it has no board to look at. */
const looksWhileStarting = 120
const oldHeapMiB = 256
const youngHeapMiB = 8
const idleMs = 60_000
const endsToFail = 2
const mostFailed = 3
/** Deaths of the thread that a job may see: more are no fault of its own, and it is tried again later. */
const mostRestarts = 20

interface Job {
  id: number
  destinationId: string
  transform: Transform
  bodies: readonly Uint8Array[]
  /** How often a thread ended at each of its records. */
  ends: Map<string, number>
  givenUp: GivenUp[]
  restarts: number
  resolve(results: TransformedBody[]): void
  reject(error: Error): void
}

export class TransformThreads {
  readonly #shared = new TransformThread((jobs, blamed, why) => this.#ended(jobs, blamed, why))
  readonly #apart = new TransformThread((jobs, blamed, why) => this.#ended(jobs, blamed, why))
  /** Lanes that were slow, with the transform that was: another one begins in the shared thread. */
  readonly #slow = new Map<string, string>()
  #lastJob = 0

  /** Of each body, what the transform makes of it. Rejects with ExceededError, and when `signal` is aborted. */
  async run(
    destinationId: string,
    transform: Transform,
    bodies: readonly Uint8Array[],
    signal: AbortSignal,
  ): Promise<TransformedBody[]> {
    signal.throwIfAborted()
    // Wraps around before it would be no Int32.
    this.#lastJob = (this.#lastJob % 0x7fff_fffe) + 1
    const id = this.#lastJob
    let abort = () => {}
    try {
      return await new Promise((resolve, reject) => {
        abort = () => {
          this.#shared.cancel(id)
          this.#apart.cancel(id)
          reject(signal.reason)
        }
        signal.addEventListener('abort', abort, { once: true })
        const begun = { ends: new Map(), givenUp: [], restarts: 0 }
        this.#start({ id, destinationId, transform, bodies, ...begun, resolve, reject })
      })
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#shared.close(), this.#apart.close()])
  }

  #start(job: Job): void {
    const isSlow = this.#slow.get(job.destinationId) === JSON.stringify(job.transform)
    const thread = isSlow ? this.#apart : this.#shared
    thread.start(job, () => this.#slow.set(job.destinationId, JSON.stringify(job.transform)))
  }

  #ended(jobs: Job[], blamed: Blamed | null, why: Why): void {
    for (const job of jobs) {
      job.restarts += 1
      if (job.id === blamed?.job) {
        this.#slow.set(job.destinationId, JSON.stringify(job.transform))
        if (!mayGoOn(job, blamed, why)) {
          job.reject(
            new ExceededError('Several of its records take too long or too much memory.', blamed.message),
          )
          continue
        }
      }
      if (job.restarts > mostRestarts)
        job.reject(new Error('the thread that applies transforms ends again and again'))
      else this.#start(job)
    }
  }
}

type Why = 'time' | 'memory' | 'other'
interface Blamed {
  job: number
  message: number
  record: number
  step: number
}

/** A record at which a thread has ended twice is given up. False: too many of them. */
function mayGoOn(job: Job, { message, record, step }: Blamed, why: Why): boolean {
  const place = `${message}:${record}`
  const ends = (job.ends.get(place) ?? 0) + 1
  job.ends.set(place, ends)
  if (ends < endsToFail) return true
  const what =
    why === 'memory'
      ? { code: 'transform_memory', message: 'The transform takes too much memory for it.' }
      : { code: 'transform_timeout', message: 'The transform takes longer than a second for it.' }
  job.givenUp.push({ messageAt: message, place: record, step, ...what })
  return job.givenUp.length <= mostFailed
}

/** One of the two: started with its first job, ended when it is idle. */
class TransformThread {
  readonly #onEnd: (jobs: Job[], blamed: Blamed | null, why: Why) => void
  readonly #jobs = new Map<number, { job: Job; onSlow: () => void }>()
  #worker: Worker | null = null
  #board = newBoard()
  #watch: NodeJS.Timeout | null = null
  #idle: NodeJS.Timeout | null = null

  constructor(onEnd: (jobs: Job[], blamed: Blamed | null, why: Why) => void) {
    this.#onEnd = onEnd
  }

  start(job: Job, onSlow: () => void): void {
    this.#jobs.set(job.id, { job, onSlow })
    if (this.#idle !== null) clearTimeout(this.#idle)
    const { id, transform, bodies, givenUp } = job
    this.#worker ??= this.#open()
    this.#post({
      kind: 'run',
      job: id,
      transform,
      bodies: bodies.map((body) => Uint8Array.from(body)),
      givenUp,
    })
    this.#watch ??= this.#look()
  }

  /** What is cancelled within a record may hang there, and nobody would look any more. */
  cancel(id: number): void {
    if (this.#jobs.delete(id)) this.#post({ kind: 'cancel', job: id })
    if (this.#jobs.size === 0 && Atomics.load(this.#board, boardWords.job) === id) void this.close()
    else this.#rest()
  }

  async close(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    this.#jobs.clear()
    this.#stopTimers()
    await worker?.terminate()
  }

  #open(): Worker {
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
    this.#board = newBoard()
    const worker = new Worker(new URL(`./transform-thread.${extension}`, import.meta.url), {
      name: 'transform',
      resourceLimits: { maxOldGenerationSizeMb: oldHeapMiB, maxYoungGenerationSizeMb: youngHeapMiB },
      workerData: this.#board.buffer,
    })
    worker.unref()
    worker.on('message', (message: FromTransformThread) => this.#receive(message))
    worker.once('error', (error: unknown) => {
      const isMemory = error instanceof Error && 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY'
      this.#ended(worker, isMemory ? 'memory' : 'other')
    })
    worker.once('exit', () => this.#ended(worker, 'other'))
    return worker
  }

  #receive(message: FromTransformThread): void {
    const found = this.#jobs.get(message.job)
    if (found === undefined) return
    this.#jobs.delete(message.job)
    this.#rest()
    const { job, onSlow } = found
    if (message.kind === 'done') {
      if (message.isSlow) onSlow()
      job.resolve(message.results)
    } else if (message.kind === 'exceeded') {
      if (message.what === 'time') onSlow()
      const what =
        message.what === 'time' ? 'takes too long for it' : 'makes more than four times as much of it'
      job.reject(new ExceededError(`The transform ${what}.`, message.messageAt))
    } else job.reject(new Error(`the transform does not compile: ${message.message}`))
  }

  #look(): NodeJS.Timeout {
    let seen = -1
    let looks = 0
    const timer = setInterval(() => {
      const steps = Atomics.load(this.#board, boardWords.steps)
      const isBusy = Atomics.load(this.#board, boardWords.job) !== 0
      looks = steps === seen ? looks + 1 : 0
      seen = steps
      const worker = this.#worker
      if (worker !== null && looks >= (isBusy ? looksToBeEnded : looksWhileStarting)) {
        looks = 0
        this.#ended(worker, 'time')
      }
    }, lookEveryMs)
    timer.unref()
    return timer
  }

  #ended(worker: Worker, why: Why): void {
    if (this.#worker !== worker) return
    this.#worker = null
    void worker.terminate()
    const at = (word: number) => Atomics.load(this.#board, word)
    const blamed = {
      job: at(boardWords.job),
      message: at(boardWords.message),
      record: at(boardWords.record),
      step: at(boardWords.step),
    }
    const jobs = [...this.#jobs.values()].map((one) => one.job)
    this.#jobs.clear()
    this.#stopTimers()
    this.#onEnd(jobs, blamed.job === 0 ? null : blamed, why)
  }

  #rest(): void {
    if (this.#jobs.size > 0 || this.#worker === null) return
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

  #post(message: ToTransformThread): void {
    this.#worker?.postMessage(message)
  }
}

function newBoard(): Int32Array<SharedArrayBuffer> {
  return new Int32Array(new SharedArrayBuffer(boardWords.count * Int32Array.BYTES_PER_ELEMENT))
}
