/**
 * Requests of this node to other nodes: numbered, over one connection, each with its own time limit. protocol.ts
 * describes the messages.
 *
 *   asked ──ready──▶ confirmed ──part…──▶ responded
 *     │                 │
 *     └──────┬──────────┘──▶ refused (nothing was done) │ silent (outcome unknown) │ failed
 *            └─ the node does not listen, or no connection ──▶ unreachable (nothing was done)
 *
 * A serving node reports every second that it is working, so silence means that it died, was stopped, or is
 * disconnected.
 */
import type { Logger } from '../platform/log.ts'
import type { NatsConnection } from './nats/connect.ts'
import {
  decode,
  type ErrorReason,
  encode,
  limits,
  type NodeResponse,
  nodeSubject,
  replySubject,
  responseOf,
  silenceMs,
  type ToCaller,
  type ToServer,
  toCaller,
} from './protocol.ts'

/** For `unreachable` and the reasons listed in protocol.ts nothing was done. For `silent` the outcome is unknown. */
export type RequestFailure = ErrorReason | 'unreachable' | 'silent'

export class NodeRequestError extends Error {
  readonly reason: RequestFailure
  constructor(reason: RequestFailure, message: string) {
    super(message)
    this.name = 'NodeRequestError'
    this.reason = reason
  }
  /** The request can be repeated, there or at another node. */
  get isUndone(): boolean {
    return this.reason !== 'silent' && this.reason !== 'failed' && this.reason !== 'unavailable'
  }
}

export interface RequestOptions {
  /** How long the method itself can wait. */
  waitMs?: number
  /** A command: it starts only while this node still waits for it. */
  confirm?: boolean
  /** A shorter limit for silence. */
  silenceMs?: number
  signal?: AbortSignal
}

interface Pending {
  readonly to: string
  readonly method: string
  readonly silenceMs: number
  untilMs: number
  parts: Uint8Array<ArrayBuffer> | null
  nextPart: number
  at: number
  resolve(response: NodeResponse): void
  reject(error: NodeRequestError): void
  detach(): void
}

const lookEveryMs = 200

export interface NodeRequestsOptions {
  nats: NatsConnection
  cluster: string
  nodeId: string
  log: Logger
}

export class NodeRequests {
  readonly #options: NodeRequestsOptions
  readonly #pending = new Map<number, Pending>()
  readonly #watch: NodeJS.Timeout
  readonly #unsubscribe: () => void
  #bytes = 0
  #lastId = 0
  #isConnected = true
  #isClosed = false

  constructor(options: NodeRequestsOptions) {
    this.#options = options
    const { nats, cluster, nodeId } = options
    const subscription = nats.subscribe(replySubject({ cluster, nodeId }, '*'), {
      callback: (error, message) => {
        if (error !== null) return
        const id = Number(message.subject.slice(message.subject.lastIndexOf('.') + 1))
        if (message.headers?.code === 503) this.#fail(id, 'unreachable', 'the node is not there')
        else this.#receive(id, message.data)
      },
    })
    this.#unsubscribe = () => subscription.unsubscribe()
    void this.#followConnection()
    this.#watch = setInterval(() => this.#look(), lookEveryMs)
    this.#watch.unref()
  }

  get nodeId(): string {
    return this.#options.nodeId
  }

  /** The number of requests without a response. */
  get underWay(): number {
    return this.#pending.size
  }

  /** Rejects only with NodeRequestError. */
  request(
    to: string,
    method: string,
    args: readonly unknown[],
    options: RequestOptions = {},
  ): Promise<NodeResponse> {
    const { waitMs = 0, confirm = false, signal } = options
    const refused = this.#refusal(args)
    if (refused !== null) return Promise.reject(refused)
    this.#lastId += 1
    const id = this.#lastId
    return new Promise((resolve, reject) => {
      const onAbort = () => this.#cancel(id, 'silent', 'the request was given up')
      const patienceMs = options.silenceMs ?? silenceMs
      this.#pending.set(id, {
        to,
        method,
        silenceMs: patienceMs,
        resolve,
        reject,
        untilMs: performance.now() + waitMs + patienceMs,
        parts: null,
        nextPart: 0,
        at: 0,
        detach: () => signal?.removeEventListener('abort', onAbort),
      })
      signal?.addEventListener('abort', onAbort)
      const { nodeId } = this.#options
      const head: ToServer = { kind: 'request', id, from: nodeId, method, waitMs: Math.ceil(waitMs), confirm }
      this.#publish(to, head, Buffer.from(JSON.stringify(args)), id)
    })
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#watch)
    this.#unsubscribe()
    for (const id of [...this.#pending.keys()]) this.#fail(id, 'unreachable', 'this node is stopping')
  }

  #refusal(args: readonly unknown[]): NodeRequestError | null {
    // Without a connection the library would queue the request and send it when it is no longer wanted.
    if (this.#isClosed || !this.#isConnected || this.#options.nats.isClosed())
      return new NodeRequestError('unreachable', 'there is no connection to NATS')
    if (this.#pending.size >= limits.requests)
      return new NodeRequestError('busy', `${limits.requests} requests to other nodes are under way`)
    if (JSON.stringify(args).length > limits.requestBytes)
      return new NodeRequestError('bad_request', 'the request is too large')
    return null
  }

  #publish(to: string, head: ToServer, body?: Uint8Array, id?: number): void {
    const { nats, cluster, nodeId } = this.#options
    const reply = id === undefined ? undefined : replySubject({ cluster, nodeId }, id)
    try {
      nats.publish(
        nodeSubject({ cluster, nodeId: to }),
        encode(head, body),
        reply === undefined ? {} : { reply },
      )
    } catch (error) {
      if (id !== undefined) this.#fail(id, 'unreachable', String(error))
    }
  }

  #receive(id: number, data: Uint8Array): void {
    const decoded = decode(data)
    const said = decoded && toCaller(decoded)
    if (decoded === null || said === null) return
    const pending = this.#pending.get(id)
    if (pending === undefined) return
    pending.untilMs = performance.now() + pending.silenceMs
    switch (said.kind) {
      case 'working':
        break
      case 'ready':
        this.#publish(pending.to, { kind: 'go', id, from: this.nodeId })
        break
      case 'error':
        this.#fail(id, said.reason, said.message)
        break
      case 'part':
        this.#part(id, pending, said, decoded.body)
    }
  }

  #part(id: number, pending: Pending, said: Extract<ToCaller, { kind: 'part' }>, body: Uint8Array): void {
    if (pending.parts === null) {
      if (this.#bytes + said.bytes > limits.bytesUnderWay) {
        this.#cancel(id, 'busy', 'too many large responses are in progress')
        return
      }
      this.#bytes += said.bytes
      pending.parts = new Uint8Array(said.bytes)
    }
    const whole = pending.parts
    if (said.part !== pending.nextPart || pending.at + body.byteLength > whole.byteLength) {
      this.#cancel(id, 'silent', 'a part of the response was lost')
      return
    }
    whole.set(body, pending.at)
    pending.at += body.byteLength
    pending.nextPart += 1
    const isLast = said.part === said.parts - 1
    const response = isLast && pending.at === whole.byteLength ? responseOf(whole) : null
    if (isLast && response === null) {
      this.#cancel(id, 'failed', 'the response cannot be read')
      return
    }
    if (said.wantsAck) this.#publish(pending.to, { kind: 'ack', id, from: this.nodeId, part: said.part })
    if (response !== null) this.#take(id)?.resolve(response)
  }

  #look(): void {
    const nowMs = performance.now()
    for (const [id, { untilMs }] of this.#pending)
      if (untilMs < nowMs) this.#cancel(id, 'silent', 'the node does not respond')
  }

  /** Rejects the request and tells the node that it is cancelled. */
  #cancel(id: number, reason: RequestFailure, message: string): void {
    const pending = this.#pending.get(id)
    if (pending === undefined) return
    this.#publish(pending.to, { kind: 'cancel', id, from: this.nodeId })
    this.#fail(id, reason, message)
  }

  #fail(id: number, reason: RequestFailure, message: string): void {
    const pending = this.#take(id)
    pending?.reject(new NodeRequestError(reason, `${pending.method} at node ${pending.to}: ${message}`))
  }

  #take(id: number): Pending | undefined {
    const pending = this.#pending.get(id)
    if (pending === undefined) return undefined
    this.#pending.delete(id)
    this.#bytes -= pending.parts?.byteLength ?? 0
    pending.detach()
    return pending
  }

  /** A request can have arrived although the connection was lost. */
  async #followConnection(): Promise<void> {
    for await (const { type } of this.#options.nats.status()) {
      if (type === 'disconnect') this.#isConnected = false
      else if (type === 'reconnect') this.#isConnected = true
    }
  }
}
