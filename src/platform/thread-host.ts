/**
 * The worker's end of a thread: its start data, calls in both directions, and its beat. A thread's entry opens what it
 * needs and then calls `serve`. Calls that arrive earlier wait until then, and `ready` is posted once.
 */
import assert from 'node:assert'
import { parentPort, type Transferable, workerData } from 'node:worker_threads'
import {
  type Args,
  type Caller,
  type CallOptions,
  Calls,
  type Handlers,
  type Method,
  type OnFailure,
  type Result,
} from './thread-calls.ts'
import type { ErrorClasses } from './thread-error.ts'
import { beatEveryMs, type HostMessage, type StarterMessage, type ThreadStart } from './threads.ts'

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
