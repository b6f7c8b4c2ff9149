/**
 * Typed calls over a message port, in both directions. Each end of the port has one `Calls`.
 *
 *   call ──['call', id, method, args]──▶ handler ──['value', id, value] or ['error', id, error]──▶ settles
 *   tell ──['tell', method, args]──▶ handler                   (nothing comes back, and nothing is allocated for it)
 *
 * - Messages arrive in the order in which they were posted. Calls that came before `serve` wait for it.
 * - A call settles once: with its result, with the error that its handler threw, by its deadline, or because the
 *   other side ended. Results of settled calls are ignored.
 */
import assert from 'node:assert'
import { type MessagePort, parentPort, type Transferable, workerData } from 'node:worker_threads'
import { type ErrorClasses, ErrorCodec, type SentError } from './thread-error.ts'

export type Method<T> = keyof T & string
export type Args<T, M extends keyof T> = T[M] extends (...args: infer A) => unknown ? A : never
export type Result<T, M extends keyof T> = T[M] extends (...args: never[]) => infer R ? Awaited<R> : never
/** The functions that serve the calls from the other side. */
export type Handlers<T> = {
  [M in keyof T]: (
    ...args: Args<T, M>
  ) => Result<T, M> | Transferred<Result<T, M>> | Promise<Result<T, M> | Transferred<Result<T, M>>>
}

/** A result whose memory is transferred instead of copied. */
export class Transferred<Value> {
  readonly value: Value
  readonly buffers: readonly ArrayBuffer[]

  constructor(value: Value, buffers: readonly ArrayBuffer[]) {
    this.value = value
    this.buffers = buffers
  }
}

export interface CallOptions {
  transfer?: readonly Transferable[]
  /** After this number of ticks, counted from when the thread is ready, the call fails and its result is ignored. */
  maxTicks?: number
  /** Missing the deadline ends the whole thread, because the call itself blocks it. */
  endsThread?: boolean
  /** The call fails when the thread has given no sign of life for this number of ticks. */
  maxSilentTicks?: number
}

export type CallMessage =
  | ['call', id: number, method: string, args: readonly unknown[]]
  | ['tell', method: string, args: readonly unknown[]]
  | ['value', id: number, value: unknown]
  | ['error', id: number, error: SentError]

export interface OpenCall extends CallOptions {
  ticks: number
  resolve(value: unknown): void
  reject(error: Error): void
}

/** One end of a connection between two threads, as its users see it. */
export interface Caller<Remote> {
  call<M extends Method<Remote>>(
    method: M,
    args: Args<Remote, M>,
    options?: CallOptions,
  ): Promise<Result<Remote, M>>
  tell<M extends Method<Remote>>(method: M, args: Args<Remote, M>, transfer?: readonly Transferable[]): void
}

/** A handler has thrown. For the log: the caller receives the error as well. */
type OnFailure = (error: unknown, method: string) => void

export class Calls<Remote, Local> implements Caller<Remote> {
  readonly #post: (message: CallMessage, transfer: readonly Transferable[]) => void
  readonly #errors: ErrorCodec
  readonly #open = new Map<number, OpenCall>()
  #early: CallMessage[] = []
  #handlers: Handlers<Local> | null = null
  #onFailure: OnFailure = () => {}
  #lastId = 0

  /** `name` is the other side's name in errors. */
  constructor(
    name: string,
    post: (message: CallMessage, transfer: readonly Transferable[]) => void,
    errors?: ErrorClasses,
  ) {
    this.#post = post
    this.#errors = new ErrorCodec(name, errors)
  }

  get size(): number {
    return this.#open.size
  }

  call<M extends Method<Remote>>(
    method: M,
    args: Args<Remote, M>,
    options: CallOptions = {},
  ): Promise<Result<Remote, M>> {
    this.#lastId += 1
    const id = this.#lastId
    return new Promise((resolve, reject) => {
      this.#post(['call', id, method, args], options.transfer ?? [])
      this.#open.set(id, {
        ...options,
        // The first tick comes after less than a full interval and is not counted.
        ticks: -1,
        resolve: (value) => resolve(value as Result<Remote, M>),
        reject,
      })
    })
  }

  tell<M extends Method<Remote>>(
    method: M,
    args: Args<Remote, M>,
    transfer: readonly Transferable[] = [],
  ): void {
    this.#post(['tell', method, args], transfer)
  }

  serve(handlers: Handlers<Local>, onFailure: OnFailure = () => {}): void {
    this.#handlers = handlers
    this.#onFailure = onFailure
    for (const message of this.#early.splice(0)) this.receive(message)
  }

  receive(message: CallMessage): void {
    if (message[0] === 'value') this.#take(message[1])?.resolve(message[2])
    else if (message[0] === 'error') this.#take(message[1])?.reject(this.#errors.decode(message[2]))
    else if (this.#handlers === null) this.#early.push(message)
    else if (message[0] === 'call') void this.#respond(message[1], message[2], message[3])
    else this.#run(message[1], message[2])
  }

  /** Rejects every open call for which `error` returns an error. */
  fail(error: (call: OpenCall) => Error | null): void {
    for (const [id, call] of this.#open) {
      const reason = error(call)
      if (reason === null) continue
      this.#open.delete(id)
      call.reject(reason)
    }
  }

  async #respond(id: number, method: string, args: readonly unknown[]): Promise<void> {
    try {
      const result = await this.#run(method, args)
      if (result instanceof Transferred) this.#post(['value', id, result.value], result.buffers)
      else this.#post(['value', id, result], [])
    } catch (error) {
      this.#onFailure(error, method)
      this.#post(['error', id, this.#errors.encode(error)], [])
    }
  }

  /** Runs synchronously and without a promise: an error thrown by the handler of a `tell` is an uncaught error. */
  #run(method: string, args: readonly unknown[]): unknown {
    const handlers = this.#handlers as Record<string, (...args: readonly unknown[]) => unknown>
    return Reflect.apply(handlers[method]!, handlers, args)
  }

  #take(id: number): OpenCall | undefined {
    const call = this.#open.get(id)
    this.#open.delete(id)
    return call
  }
}

/** Connects two threads neither of which started the other. */
export function callsOver<Remote, Local>(name: string, port: MessagePort): Calls<Remote, Local> {
  const calls = new Calls<Remote, Local>(name, (message, transfer) => port.postMessage(message, transfer))
  port.on('message', (message: CallMessage) => calls.receive(message))
  return calls
}

/** How often a thread gives a sign of life, and how often its starter checks for one. */
export const beatEveryMs = 1_000

/** Messages of a thread to its starter, and in the other direction. */
export type HostMessage = CallMessage | ['ready']
export type StarterMessage = CallMessage | ['close']

/** The `workerData` of a thread. */
export interface ThreadStart {
  name: string
  data: unknown
  /** One Int32: the number of beats of its event loop. */
  beats: SharedArrayBuffer
}

/**
 * The worker's end of a thread: its start data, calls in both directions, and its beat. A thread's entry opens what it
 * needs and then calls `serve`. Calls that arrive earlier wait until then, and `ready` is posted once.
 */
export interface ServeOptions {
  onFailure?: OnFailure
  /** Called when the starter asks the thread to end. It must close whatever keeps the thread alive. */
  onClose?(): Promise<void> | void
}

export class ThreadHost<Data, Remote, Host = object> implements Caller<Host> {
  readonly data: Data
  readonly #port: NonNullable<typeof parentPort>
  readonly #calls: Calls<Host, Remote>
  readonly #beats: Int32Array
  readonly #beating: NodeJS.Timeout
  #onClose: NonNullable<ServeOptions['onClose']> = () => {}
  #isCloseAsked = false
  #isServing = false

  /** Create it once per thread, before anything else is opened. */
  constructor({ errors }: { errors?: ErrorClasses } = {}) {
    assert(parentPort !== null, 'runs as a thread')
    this.#port = parentPort
    const { data, beats } = workerData as ThreadStart
    this.data = data as Data
    this.#beats = new Int32Array(beats)
    this.#calls = new Calls('main', (message, transfer) => this.#post(message, transfer), errors)
    this.beat()
    this.#beating = setInterval(() => this.beat(), beatEveryMs)
    this.#beating.unref()
    this.#port.on('message', (message: StarterMessage) => this.#receive(message))
  }

  /** Starts to serve calls and reports that the thread is ready. */
  serve(handlers: Handlers<Remote>, { onFailure, onClose }: ServeOptions = {}): void {
    this.#isServing = true
    this.#onClose = onClose ?? (() => {})
    this.#calls.serve(handlers, onFailure)
    this.#post(['ready'])
    if (this.#isCloseAsked) void this.#close()
  }

  /** Gives a sign of life from within work that blocks the event loop. */
  beat(): void {
    Atomics.add(this.#beats, 0, 1)
  }

  call<M extends Method<Host>>(
    method: M,
    args: Args<Host, M>,
    options?: CallOptions,
  ): Promise<Result<Host, M>> {
    return this.#calls.call(method, args, options)
  }

  tell<M extends Method<Host>>(method: M, args: Args<Host, M>, transfer?: readonly Transferable[]): void {
    this.#calls.tell(method, args, transfer)
  }

  #post(message: HostMessage, transfer: readonly Transferable[] = []): void {
    this.#port.postMessage(message, transfer)
  }

  #receive(message: StarterMessage): void {
    if (message[0] !== 'close') this.#calls.receive(message)
    else if (this.#isServing) void this.#close()
    else this.#isCloseAsked = true
  }

  async #close(): Promise<void> {
    clearInterval(this.#beating)
    await this.#onClose()
    this.#port.close()
  }
}
