/**
 * Worker threads, seen from the thread that starts them. The other end, `ThreadHost`, and
 * the calls between the two are in `thread-calls.ts`; errors are in `thread-error.ts`.
 *
 *   starting ──ready──▶ up ──close: it ends when its calls have────────────────┐
 *      │                 │──terminate, an error that nothing caught, its exit──▶ ended: every call under way has failed
 *      │                 └──abandon──▶ left behind: its calls have failed ─────▶ ended, when its system call returns
 *      └── as from up
 *
 * - A call settles exactly once, whatever happens to the thread. Once the thread has ended or is left behind, every
 *   call rejects at once.
 * - `ready` and `ended` settle once; `ended` never rejects.
 * - A sign of life is a counter in shared memory, which the thread's event loop increments every second without a
 *   message. Silence and deadlines are counted in ticks of this side, not by a clock: time in which the whole process
 *   was stopped does not count.
 * - A thread that is silent for too long is terminated, or left behind when it can be inside SQLite: an SQLite call
 *   that fails while its thread is being terminated aborts the process (better-sqlite3 12). Threads that block their
 *   event loop (a scan, a parser) set no limit.
 * - A thread keeps the process alive until it is ready, during calls to it, and while it is being ended. With
 *   `holdsProcess` it does so as long as it runs.
 */
import { type ResourceLimits, type Transferable, Worker } from 'node:worker_threads'
import { StorageUnavailableError } from './error-code.ts'
import { Semaphore, type SemaphoreOptions } from './semaphore.ts'
import {
  type Args,
  beatEveryMs,
  type Caller,
  type CallOptions,
  Calls,
  type Handlers,
  type HostMessage,
  type Method,
  type Result,
  type StarterMessage,
  type ThreadStart,
} from './thread-calls.ts'
import type { ErrorClasses } from './thread-error.ts'

/** A terminated thread ends only when its native calls have returned. */
const terminateWithinTicks = 30

export interface ThreadOptions<Host> {
  name: string
  /** From `threadEntry`. */
  entry: URL
  data?: unknown
  /** The parts of `data` that are transferred instead of copied. */
  transfer?: readonly Transferable[]
  limits?: ResourceLimits
  /** The functions of the starter that the thread can call. */
  host?: Handlers<Host>
  /** Error classes that can cross, in addition to those of every thread. */
  errors?: ErrorClasses
  /** Ticks without a beat after which the thread is ended. Without it there is no limit. */
  maxSilentTicks?: number
  /** The same limit until the thread is ready. Defaults to `maxSilentTicks`. */
  maxStartTicks?: number
  /** How a silent thread is ended. */
  whenSilent?: 'terminate' | 'abandon'
  tickMs?: number
  /**
   * The thread keeps the process alive as long as it runs, because it has work from `tell`, which has no result to wait
   * for.
   */
  holdsProcess?: boolean
  /** `calls` is the number of calls that failed because of it. */
  onAbandoned?(calls: number): void
  /**
   * Creates the error for calls that the end of the thread interrupts. `cause` is undefined when the thread ended
   * without an error or is left behind.
   */
  interrupted?(reason: string, cause: Error | undefined): Error
}

export interface ThreadEnd {
  error: Error
  /** The thread was terminated but still runs: nothing that it owns can be given to another thread. */
  isStuck: boolean
}

/**
 * The URL of a thread's entry file. `file` is relative to the module that starts the thread and has no extension:
 * TypeScript in a checkout, JavaScript in a package. The bundler finds the entries by the calls of this function
 * (vendor/bundle-program.mjs).
 */
export function threadEntry(base: string, file: string): URL {
  return new URL(`${file}.${base.endsWith('.ts') ? 'ts' : 'js'}`, base)
}

export class Thread<Remote, Host = object> implements Caller<Remote> {
  /** Rejects when the thread ends before it is ready. */
  readonly ready: Promise<void>
  readonly ended: Promise<ThreadEnd>
  readonly #options: ThreadOptions<Host>
  readonly #worker: Worker
  readonly #calls: Calls<Remote, Host>
  readonly #beats: Int32Array
  readonly #watch: NodeJS.Timeout
  #seenBeats = 0
  #silentTicks = 0
  #isReady = false
  /** Why it is being ended. */
  #reason: Error | null = null
  #terminatedTicks = 0
  #interruption: Error | null = null
  #isEnded = false
  #onReady = { resolve: () => {}, reject: (_: Error) => {} }
  #onEnd: (end: ThreadEnd) => void = () => {}

  constructor(options: ThreadOptions<Host>) {
    const { name, entry, data, transfer = [], limits, host, errors, tickMs = beatEveryMs } = options
    this.#options = options
    const beats = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
    this.#beats = new Int32Array(beats)
    this.ready = new Promise((resolve, reject) => {
      this.#onReady = { resolve, reject }
    })
    // Prevents an unhandled rejection: not every starter awaits `ready`, and `ended` reports the same end.
    this.ready.catch(() => {})
    this.ended = new Promise((resolve) => {
      this.#onEnd = resolve
    })
    this.#worker = new Worker(entry, {
      name,
      workerData: { name, data, beats } satisfies ThreadStart,
      transferList: [...transfer],
      ...(limits === undefined ? {} : { resourceLimits: limits }),
    })
    this.#calls = new Calls(name, (message, list) => this.#worker.postMessage(message, list), errors)
    if (host !== undefined) this.#calls.serve(host)
    this.#worker.on('message', (message: HostMessage) => this.#receive(message))
    this.#worker.once('error', (error: unknown) => {
      this.#reason ??=
        error instanceof Error ? error : new Error(`the ${name} thread failed: ${String(error)}`)
    })
    this.#worker.once('exit', (code) => {
      this.#end(
        this.#reason ?? new Error(`the ${name} thread ended with code ${code}`),
        this.#reason ?? undefined,
      )
    })
    this.#watch = setInterval(() => this.#tick(), tickMs)
    this.#watch.unref()
  }

  /** True while calls can succeed. */
  get isUsable(): boolean {
    return this.#interruption === null && this.#reason === null
  }

  /** True when the thread was abandoned and has not ended yet. */
  get isLeftBehind(): boolean {
    return this.#interruption !== null && !this.#isEnded
  }

  /** The number of ticks since its last sign of life. */
  get silentTicks(): number {
    return this.#silentTicks
  }

  async call<M extends Method<Remote>>(
    method: M,
    args: Args<Remote, M>,
    options: CallOptions = {},
  ): Promise<Result<Remote, M>> {
    if (this.#interruption !== null) throw this.#interruption
    if (this.#silentTicks >= (options.maxSilentTicks ?? Number.POSITIVE_INFINITY)) throw this.#silent()
    const result = this.#calls.call(method, args, options)
    this.#worker.ref()
    try {
      return await result
    } finally {
      if (this.#isReady && this.isUsable) this.#unrefIdle()
    }
  }

  tell<M extends Method<Remote>>(method: M, args: Args<Remote, M>, transfer?: readonly Transferable[]): void {
    this.#calls.tell(method, args, transfer)
  }

  /** Asks the thread to end after its open calls, and resolves when it has ended. */
  async close(): Promise<void> {
    this.#worker.ref()
    this.#askToClose()
    await this.ended
  }

  /** Resolves when the thread has ended, or when it cannot be ended. */
  async terminate(reason: string): Promise<void> {
    if (this.#isEnded) return
    this.#reason ??= new Error(reason)
    this.#interrupt(`the ${this.#options.name} thread has ended: ${this.#reason.message}`, this.#reason)
    this.#terminatedTicks += 1
    this.#worker.ref()
    void this.#worker.terminate()
    await this.ended
  }

  /** Asks the thread to end without waiting. It ends when its system call returns. */
  abandon(reason: string): void {
    this.#options.onAbandoned?.(this.#calls.size)
    this.#interrupt(reason, undefined)
    this.#worker.unref()
    this.#askToClose()
  }

  #askToClose(): void {
    this.#worker.postMessage(['close'] satisfies StarterMessage)
  }

  #receive(message: HostMessage): void {
    if (message[0] === 'ready') this.#isUp()
    else this.#calls.receive(message)
  }

  #isUp(): void {
    this.#isReady = true
    this.#silentTicks = 0
    this.#unrefIdle()
    this.#onReady.resolve()
  }

  #unrefIdle(): void {
    if (this.#calls.size === 0 && this.#options.holdsProcess !== true) this.#worker.unref()
  }

  #tick(): void {
    const beats = Atomics.load(this.#beats, 0)
    this.#silentTicks = beats === this.#seenBeats ? this.#silentTicks + 1 : 0
    this.#seenBeats = beats
    if (this.#terminatedTicks > 0) {
      this.#terminatedTicks += 1
      if (this.#terminatedTicks > terminateWithinTicks) {
        const error = new Error(`${this.#reason?.message}, and it cannot be terminated`)
        this.#end(error, error, true)
      }
      return
    }
    const { maxSilentTicks, maxStartTicks = maxSilentTicks, whenSilent = 'terminate', name } = this.#options
    const most = (this.#isReady ? maxSilentTicks : maxStartTicks) ?? Number.POSITIVE_INFINITY
    if (this.#silentTicks < most || !this.isUsable) {
      this.#failLate()
      return
    }
    const reason = `the ${name} thread does not respond: no sign of life for ${this.#silentTicks} s`
    if (whenSilent === 'abandon') this.abandon(reason)
    else void this.terminate(reason)
  }

  #failLate(): void {
    let hung = false
    this.#calls.fail((call) => {
      if (this.#isReady) call.ticks += 1
      if (this.#silentTicks >= (call.maxSilentTicks ?? Number.POSITIVE_INFINITY)) return this.#silent()
      if (call.ticks < (call.maxTicks ?? Number.POSITIVE_INFINITY)) return null
      hung ||= call.endsThread ?? false
      return this.#interruptedBy(`a call of the ${this.#options.name} thread takes too long`, undefined)
    })
    if (hung) void this.terminate(`the ${this.#options.name} thread did not respond`)
  }

  #silent(): Error {
    return this.#interruptedBy(`the ${this.#options.name} thread gives no sign of life`, undefined)
  }

  #interruptedBy(reason: string, cause: Error | undefined): Error {
    return this.#options.interrupted?.(reason, cause) ?? new StorageUnavailableError(reason, cause)
  }

  #interrupt(reason: string, cause: Error | undefined): void {
    const interruption = this.#interruption ?? this.#interruptedBy(reason, cause)
    this.#interruption = interruption
    this.#calls.fail(() => interruption)
  }

  #end(error: Error, cause: Error | undefined, isStuck = false): void {
    if (this.#isEnded) return
    this.#isEnded = true
    clearInterval(this.#watch)
    this.#interrupt(`the ${this.#options.name} thread has ended`, cause)
    this.#onReady.reject(error)
    this.#onEnd({ error, isStuck })
  }
}

export interface ThreadPoolOptions {
  most?: number
  /** The limit per thread. */
  callsAtOnce?: number
  /** How long an idle thread is kept. */
  idleMs: number
  /** How an idle thread is ended. */
  end?: 'terminate' | 'close'
}

interface Member<Remote, Host> {
  thread: Thread<Remote, Host>
  running: number
  idle: NodeJS.Timeout | undefined
}

/**
 * Threads that start on demand and end when idle. A thread that dies or is left behind fails only its own work; the next
 * work starts another thread. With one thread and unlimited calls, this is a single thread on demand.
 */
export class ThreadPool<Remote, Host = object> {
  readonly #start: () => Thread<Remote, Host>
  readonly #options: Required<ThreadPoolOptions>
  readonly #places: Semaphore
  readonly #members = new Set<Member<Remote, Host>>()
  #isClosed = false

  constructor(start: () => Thread<Remote, Host>, options: ThreadPoolOptions) {
    this.#start = start
    this.#options = { most: 1, callsAtOnce: 1, end: 'terminate', ...options }
    this.#places = new Semaphore(this.#options.most * this.#options.callsAtOnce)
  }

  /** Runs `work` on a thread with a free slot, waiting for one if necessary. */
  run<T>(work: (thread: Thread<Remote, Host>) => Promise<T>, options?: SemaphoreOptions): Promise<T> {
    return this.#places.run(() => this.#run(work), options)
  }

  /** See Semaphore.waiting. */
  waiting(turn: NonNullable<SemaphoreOptions['turn']>): number {
    return this.#places.waiting(turn)
  }

  /** The number of abandoned threads that have not ended. */
  get leftBehind(): number {
    return [...this.#members].filter(({ thread }) => thread.isLeftBehind).length
  }

  /** Rejects waiting work. Resolves when every thread has ended, except abandoned ones. */
  async close(): Promise<void> {
    this.#isClosed = true
    const usable = [...this.#members].filter(({ thread }) => thread.isUsable)
    await Promise.all(usable.map((member) => this.#end(member)))
  }

  async #run<T>(work: (thread: Thread<Remote, Host>) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new StorageUnavailableError('the service is stopping')
    const member = this.#withPlace() ?? this.#open()
    clearTimeout(member.idle)
    member.running += 1
    try {
      return await work(member.thread)
    } finally {
      member.running -= 1
      if (member.running === 0 && member.thread.isUsable && !this.#isClosed)
        member.idle = setTimeout(() => void this.#end(member), this.#options.idleMs).unref()
    }
  }

  #withPlace(): Member<Remote, Host> | undefined {
    return [...this.#members].find(
      ({ thread, running }) => thread.isUsable && running < this.#options.callsAtOnce,
    )
  }

  #open(): Member<Remote, Host> {
    const member: Member<Remote, Host> = { thread: this.#start(), running: 0, idle: undefined }
    this.#members.add(member)
    void member.thread.ended.then(() => {
      clearTimeout(member.idle)
      this.#members.delete(member)
    })
    return member
  }

  async #end(member: Member<Remote, Host>): Promise<void> {
    clearTimeout(member.idle)
    if (this.#options.end === 'terminate') return await member.thread.terminate('it is not needed any more')
    // Removed first, so that it gets no new work.
    this.#members.delete(member)
    await member.thread.close()
  }
}
