/**
 * Serves the requests of other nodes. Arguments are validated by schemas, everything is bounded and no request can end
 * the process, because requests can also come from other clients of the NATS account.
 */
import type { Static, TSchema } from 'typebox'
import { fits } from '../contract/validate.ts'
import { messageOf, StorageUnavailableError } from '../platform/error-code.ts'
import type { NodeRequestsOptions } from './node-requests.ts'
import {
  decode,
  type ErrorReason,
  encode,
  limits,
  type NodeResponse,
  nodeSubject,
  parsed,
  replySubject,
  responsePieces,
  silenceMs,
  sliceOf,
  type ToCaller,
  type ToServer,
  toServer,
  version,
  workingEveryMs,
} from './protocol.ts'

export interface Served extends Partial<NodeResponse> {
  /** Called once with whether the caller has acknowledged the complete response. */
  onReceived?(wasReceived: boolean): void
}

export interface ServeContext {
  /** The node that sent the request. */
  from: string
  waitMs: number
  /** The caller no longer waits. */
  readonly isCancelled: boolean
}

/** Throws RefusedRequestError only before it has done anything. Any other error means that it was started. */
export type ServedMethod = (args: readonly unknown[], context: ServeContext) => Promise<Served>

/** A method with validated arguments. Additional arguments of a newer version are ignored; missing ones are null. */
export function served<const S extends readonly TSchema[]>(
  schemas: S,
  run: (args: { [At in keyof S]: Static<S[At]> }, context: ServeContext) => Promise<Served>,
): ServedMethod {
  return async (given, context) => {
    const args = schemas.map((_, at) => given[at] ?? null)
    if (!schemas.every((schema, at) => fits(schema, args[at])))
      throw new RefusedRequestError('bad_request', 'the arguments are not those of this method')
    // Every argument matches its schema.
    return await run(args as { [At in keyof S]: Static<S[At]> }, context)
  }
}

/** The method rejected the request before doing anything. */
export class RefusedRequestError extends Error {
  readonly reason: ErrorReason
  constructor(reason: ErrorReason, message: string) {
    super(message)
    this.name = 'RefusedRequestError'
    this.reason = reason
  }
}

interface Open {
  readonly id: number
  readonly from: string
  isCancelled: boolean
  confirm: ((isWanted: boolean) => void) | null
  /** Receives the acknowledgements of the response that is being sent. */
  onAck: ((part: number) => void) | null
}

const longestWaitMs = 60_000
const logBadMessageEveryMs = 60_000

export class NodeServer {
  readonly #options: NodeRequestsOptions
  readonly #methods = new Map<string, ServedMethod>()
  readonly #open = new Map<string, Open>()
  readonly #unsubscribe: () => void
  #bytes = 0
  #complainedAt = Number.NEGATIVE_INFINITY

  constructor(options: NodeRequestsOptions) {
    this.#options = options
    const { nats, cluster, nodeId } = options
    const subscription = nats.subscribe(nodeSubject({ cluster, nodeId }), {
      callback: (error, message) => {
        if (error === null) this.#receive(message.data)
      },
    })
    this.#unsubscribe = () => subscription.unsubscribe()
  }

  serve(methods: Readonly<Record<string, ServedMethod>>): void {
    for (const [name, method] of Object.entries(methods)) this.#methods.set(name, method)
  }

  /** The number of requests being served. */
  get underWay(): number {
    return this.#open.size
  }

  close(): void {
    this.#unsubscribe()
    for (const open of this.#open.values()) cancel(open)
  }

  #receive(data: Uint8Array): void {
    const decoded = decode(data)
    const said = decoded && toServer(decoded)
    if (decoded === null || said === null) {
      this.#logBadMessage({ bytes: data.byteLength }, 'is no message of a node')
      return
    }
    const key = `${said.from} ${said.id}`
    const open = this.#open.get(key)
    switch (said.kind) {
      case 'request':
        if (open === undefined) this.#request(key, said, decoded.head.v, decoded.body)
        break
      case 'go':
        open?.confirm?.(true)
        break
      case 'ack':
        open?.onAck?.(said.part)
        break
      case 'cancel':
        if (open !== undefined) cancel(open)
    }
  }

  #request(
    key: string,
    said: Extract<ToServer, { kind: 'request' }>,
    spoken: unknown,
    body: Uint8Array,
  ): void {
    const { id, from, method } = said
    const reply: Reply = (head, bytes) => this.#reply(from, id, head, bytes)
    const refuse = (reason: ErrorReason, message: string) => reply({ kind: 'error', reason, message })
    const run = this.#methods.get(method)
    if (spoken !== version) {
      refuse('unknown_version', 'this node runs another version of pipectl: its cluster is too far apart')
      return
    }
    if (run === undefined) {
      refuse('unknown_method', `this node runs a version of pipectl that does not know ${method}`)
      return
    }
    if (this.#open.size >= limits.requests) {
      refuse('busy', `this node serves ${limits.requests} requests`)
      return
    }
    const args =
      body.byteLength > limits.requestBytes ? undefined : parsed(Buffer.from(body).toString('utf8'))
    if (!Array.isArray(args)) {
      refuse('bad_request', 'the arguments are no list')
      return
    }
    const open: Open = { id, from, isCancelled: false, confirm: null, onAck: null }
    this.#open.set(key, open)
    void this.#serve(open, said, { run, args }, reply).finally(() => this.#open.delete(key))
  }

  async #serve(
    open: Open,
    { waitMs, confirm, from, method }: Extract<ToServer, { kind: 'request' }>,
    { run, args }: { run: ServedMethod; args: readonly unknown[] },
    reply: Reply,
  ): Promise<void> {
    if (confirm && !(await isWanted(open, reply))) return
    const beats = beat(Math.min(waitMs, longestWaitMs), () => reply({ kind: 'working' }))
    let served: Served | null = null
    let wasReceived = false
    try {
      const context = {
        from,
        waitMs: Math.min(waitMs, longestWaitMs),
        get isCancelled() {
          return open.isCancelled
        },
      }
      served = await run(args, context)
      beats.end()
      if (!open.isCancelled) wasReceived = await this.#send(open, served, reply)
    } catch (error) {
      reply(errorHead(error))
      if (!(error instanceof RefusedRequestError) && !(error instanceof StorageUnavailableError))
        this.#options.log.error({ err: error, method, node_id: from }, 'cluster.request_failed')
    } finally {
      beats.end()
      served?.onReceived?.(wasReceived)
    }
  }

  /** Returns false when the caller did not acknowledge the complete response, where that matters. */
  async #send(open: Open, { value, bytes = null, onReceived }: Served, reply: Reply): Promise<boolean> {
    const pieces = responsePieces({ value: value ?? null, bytes })
    const length = pieces.reduce((sum, piece) => sum + piece.byteLength, 0)
    if (length > limits.answerBytes || this.#bytes + length > limits.bytesUnderWay) {
      reply({ kind: 'error', reason: 'busy', message: 'this node sends too much already' })
      return false
    }
    const partBytes = Math.min(
      limits.partBytes,
      Math.floor((this.#options.nats.info?.max_payload ?? 1e6) / 2),
    )
    const parts = Math.ceil(length / partBytes)
    const wantsAck = onReceived !== undefined || parts > 1
    const acks = new Acks(open)
    this.#bytes += length
    try {
      for (let part = 0; part < parts; part++) {
        // Without this limit, NATS would buffer the whole response for a slow or missing caller.
        if (!(await acks.upTo(part - limits.partsAhead))) return false
        const from = part * partBytes
        const slice = sliceOf(pieces, from, Math.min(partBytes, length - from))
        reply({ kind: 'part', part, parts, bytes: length, wantsAck }, slice)
      }
      return !wantsAck || (await acks.upTo(parts - 1))
    } finally {
      this.#bytes -= length
    }
  }

  #reply(to: string, id: number, head: ToCaller, body?: Uint8Array): void {
    const { nats, cluster } = this.#options
    try {
      nats.publish(replySubject({ cluster, nodeId: to }, id), encode(head, body))
    } catch {
      // The connection is closed. The caller gets no response and treats the outcome as unknown.
    }
  }

  #logBadMessage(fields: object, what: string): void {
    const nowMs = performance.now()
    if (nowMs - this.#complainedAt < logBadMessageEveryMs) return
    this.#complainedAt = nowMs
    this.#options.log.warn({ ...fields, reason: what }, 'cluster.bad_message')
  }
}

type Reply = (head: ToCaller, body?: Uint8Array) => void

function cancel(open: Open): void {
  open.isCancelled = true
  open.confirm?.(false)
  open.onAck?.(-1)
}

/** Asks whether the caller of a command still waits for it. */
async function isWanted(open: Open, reply: Reply): Promise<boolean> {
  const isWanted = await new Promise<boolean>((resolve) => {
    const timer = setTimeout(() => resolve(false), silenceMs)
    open.confirm = (isSo) => {
      clearTimeout(timer)
      resolve(isSo)
    }
    reply({ kind: 'ready' })
  })
  open.confirm = null
  return isWanted && !open.isCancelled
}

function beat(afterMs: number, tell: () => void): { end(): void } {
  let timer = setTimeout(() => {
    tell()
    timer = setInterval(tell, workingEveryMs)
  }, afterMs + workingEveryMs)
  return { end: () => clearTimeout(timer) }
}

function errorHead(error: unknown): ToCaller {
  const text = messageOf(error)
  const message = text.slice(0, limits.messageCharacters)
  if (error instanceof RefusedRequestError) return { kind: 'error', reason: error.reason, message }
  return {
    kind: 'error',
    reason: error instanceof StorageUnavailableError ? 'unavailable' : 'failed',
    message,
  }
}

/** Tracks the acknowledged parts of a response. */
class Acks {
  readonly #open: Open
  #part = -1
  #tell: () => void = () => {}

  constructor(open: Open) {
    this.#open = open
    open.onAck = (part) => {
      this.#part = Math.max(this.#part, part)
      this.#tell()
    }
  }

  /** Returns false when the acknowledgement does not arrive, or the response is no longer wanted. */
  async upTo(part: number): Promise<boolean> {
    while (this.#part < part && !this.#open.isCancelled) {
      const hasMoved = await new Promise<boolean>((resolve) => {
        const timer = setTimeout(() => resolve(false), silenceMs)
        this.#tell = () => {
          clearTimeout(timer)
          resolve(true)
        }
      })
      this.#tell = () => {}
      if (!hasMoved) return false
    }
    return !this.#open.isCancelled
  }
}
