/**
 * The engine on uWebSockets. hyper-express serves every path except the hot one, which is registered on the binding
 * itself (measured: 58–62 k requests/s, against 32–34 k through a route of hyper-express). This is the only file that
 * imports hyper-express, and it is itself imported only when this engine is chosen: the import loads the native
 * binding.
 *
 * Behavior of hyper-express 6.17 that this code works around:
 * - it listens on 0.0.0.0 and closes on SIGTERM by itself: a host is always passed, and `auto_close` is off;
 * - its 413 has an empty body and its own readers allocate the announced length: no limit is set there, and
 *   `UwsExchange` reads and counts;
 * - unknown paths, wrong methods and HEAD get wrong responses: each has its own route here;
 * - an error that a handler throws would be printed and sent raw: the error handler responds instead.
 */
import type { Server } from 'hyper-express'
import hyperExpress from 'hyper-express'
import type { BodyReceiver } from '../../../ingest/body-source.ts'
import type { Handler, HttpEngine, Listener, ListenerOptions, ServedPath } from '../engine.ts'
import { BodyCollector, type Exchange, type RequestHead } from '../exchange.ts'
import { ListenError } from '../listen.ts'
import { watchReading } from '../read-watch.ts'
import { type HttpResponse, hasLength, statusLine } from '../response.ts'
import type { ResponseStream } from '../response-stream.ts'
import type { RouteRequest, RouteResponse, UwsApp, UwsHandler, UwsRequest, UwsResponse } from './binding.ts'

export function createEngine(): HttpEngine {
  return { name: 'uws', createListener: (options) => new UwsListener(options) }
}

/** An opaque handle. Closing it twice ends the process. */
type ListenSocket = Awaited<ReturnType<Server['listen']>>

class UwsListener implements Listener {
  readonly #options: ListenerOptions
  readonly #server: Server
  #socket: ListenSocket | null = null
  #port: number

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#server = buildServer(options)
    this.#port = options.address.port
  }

  get port(): number {
    return this.#port
  }

  async listen(): Promise<void> {
    if (this.#socket !== null) return
    const { name, address } = this.#options
    try {
      this.#socket = await this.#server.listen(this.#port, address.host)
    } catch {
      throw new ListenError(name, address, 'the system does not allow it')
    }
    this.#port = this.#server.port
  }

  stop(): void {
    if (this.#socket !== null) this.#server.close(this.#socket)
    this.#socket = null
  }

  close(): void {
    this.stop()
    this.#server.uws_instance.close()
  }
}

function buildServer(options: ListenerOptions): Server {
  const { begin, failed } = options
  const server = new hyperExpress.Server({
    auto_close: false,
    max_body_length: Number.MAX_SAFE_INTEGER,
    max_body_buffer: 64 * 1024,
  })
  const exchangeOf = (request: RouteRequest, response: RouteResponse) => {
    const exchange = new UwsExchange(response.raw, request.method === 'HEAD', begin())
    // hyper-express has begun to read already. At its `max_body_buffer` it pauses the response even if that is over,
    // which ends the process. Its reader is therefore replaced.
    exchange.dropBody()
    return exchange
  }
  const routed = (handler: Handler) => (request: RouteRequest, response: RouteResponse) => {
    handler(new RoutedHead(request), exchangeOf(request, response))
  }
  for (const path of options.paths) {
    if (path.isHot) mountDirectly(server.uws_instance, path, begin)
    else mount(server, path, routed)
  }
  server.set_not_found_handler(routed(options.notFound))
  server.set_error_handler((request: RouteRequest, response: RouteResponse, error: unknown) => {
    exchangeOf(request, response).send(failed(error), false)
  })
  return server
}

const verbs = {
  GET: 'get',
  HEAD: 'head',
  POST: 'post',
  PUT: 'put',
  PATCH: 'patch',
  DELETE: 'delete',
  OPTIONS: 'options',
} as const

/** The binding has another name for one of them. */
const directVerbs = { ...verbs, DELETE: 'del' } as const

function isVerb(method: string): method is keyof typeof verbs {
  return Object.hasOwn(verbs, method)
}

/** The path as both libraries write it. */
function patternOf({ path }: ServedPath): string {
  return path.replace(/\{(\w+)\}/g, ':$1')
}

function mount(
  server: Server,
  path: ServedPath,
  routed: (handler: Handler) => (request: RouteRequest, response: RouteResponse) => void,
): void {
  const pattern = patternOf(path)
  for (const [method, handler] of path.methods) {
    if (isVerb(method)) server[verbs[method]](pattern, routed(handler))
  }
  server.any(pattern, routed(path.rest))
}

function mountDirectly(app: UwsApp, path: ServedPath, begin: ListenerOptions['begin']): void {
  const pattern = patternOf(path)
  const names = [...path.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!)
  const direct =
    (method: string, handler: Handler): UwsHandler =>
    (res, req) =>
      handler(new DirectHead(req, method, names), new UwsExchange(res, method === 'HEAD', begin()))
  for (const [method, handler] of path.methods) {
    if (isVerb(method)) app[directVerbs[method]](pattern, direct(method, handler))
  }
  app.any(pattern, direct('', path.rest))
}

class RoutedHead implements RequestHead {
  readonly #request: RouteRequest

  constructor(request: RouteRequest) {
    this.#request = request
  }

  get method(): string {
    return this.#request.method
  }

  get query(): string {
    return this.#request.path_query ?? ''
  }

  param(name: string): string {
    return this.#request.path_parameters[name] ?? ''
  }

  eachHeader(take: (name: string, value: string) => void): void {
    this.#request.raw.forEach(take)
  }
}

class DirectHead implements RequestHead {
  readonly #request: UwsRequest
  readonly #names: readonly string[]
  readonly method: string

  constructor(request: UwsRequest, method: string, names: readonly string[]) {
    this.#request = request
    this.method = method
    this.#names = names
  }

  get query(): string {
    return this.#request.getQuery() ?? ''
  }

  param(name: string): string {
    const index = this.#names.indexOf(name)
    return index < 0 ? '' : this.#request.getParameter(index)
  }

  eachHeader(take: (name: string, value: string) => void): void {
    this.#request.forEach(take)
  }
}

/**
 * One request's response and body, directly on uWebSockets. Every path uses it, including those that hyper-express
 * routes: the readers of hyper-express allocate the announced length, its `on('data')` never starts to flow on Node
 * 20, and its `send` waits for a body that no code reads.
 *
 * Rules of the binding that are kept here: `onAborted` is registered before anything else (a handler that returns
 * without it kills the process). Once the exchange is over, nothing touches the response. Writes are corked. The
 * memory given to `onData` is only valid inside the call. Text is sent as Buffers, because newer bindings write
 * strings as Latin-1.
 */
class UwsExchange implements Exchange {
  readonly #res: UwsResponse
  readonly #isHead: boolean
  readonly #onOver: () => void
  #isOver = false
  #isAborted = false
  #whenAborted: (() => void) | null = null
  #onGone: () => void = () => {}
  #collector: BodyCollector | null = null

  /**
   * `isHead`: every response is sent without its body. `onOver` is called once, when the response is handed over or
   * the client has disconnected.
   */
  constructor(res: UwsResponse, isHead: boolean, onOver: () => void) {
    this.#res = res
    this.#isHead = isHead
    this.#onOver = onOver
    res.onAborted(() => {
      this.#isAborted = true
      this.#whenAborted?.()
      this.#onGone()
      this.#over()
    })
  }

  /** Reads and drops the body until a handler takes it. The minimum rate of a body still applies. */
  dropBody(): void {
    this.#res.onData(() => {})
  }

  get isAborted(): boolean {
    return this.#isAborted
  }

  onGone(listener: () => void): void {
    this.#onGone = listener
  }

  peer(): Uint8Array {
    return new Uint8Array(this.#res.getRemoteAddress())
  }

  receive(receiver: BodyReceiver): void {
    if (this.#isOver) {
      receiver.gone()
      return
    }
    const collector = new BodyCollector(receiver)
    this.#collector = collector
    this.#res.onData((chunk, isLast) => {
      if (this.#isOver) return
      if (!collector.take(Buffer.from(chunk), isLast)) this.#res.close()
    })
  }

  send(response: HttpResponse, closeConnection: boolean): void {
    if (this.#isOver) return
    // The request was rejected by its head alone. (Each registered handler costs a request 0.2 µs, so accepted
    // requests have only one.)
    if (this.#collector === null) this.dropBody()
    const isLarge = response.body !== null && response.body.byteLength > unwatchedBytes
    if (isLarge && !this.#isHead && !closeConnection) {
      this.sendTracked(response, () => {})
      return
    }
    const res = this.#res
    res.cork(() => {
      writeHead(res, response)
      if (this.#isHead) endHead(res, response, closeConnection)
      else if (response.body !== null) res.end(response.body, closeConnection)
      else if (hasLength(response) || closeConnection) res.endWithoutBody(0, closeConnection)
      // No Content-Length on 204 and 304. The call has no argument: `undefined` would be written as
      // 9223372036854775808.
      else res.endWithoutBody()
    })
    this.#over()
  }

  /**
   * An orderly close would still execute the requests that were already read. Bytes written here accumulate in a
   * buffer that is dropped when the connection closes, unless a piece is too large for it. Therefore the response is
   * one piece, padded with spaces.
   */
  sendAndCut(response: HttpResponse): void {
    if (this.#isOver) return
    const res = this.#res
    const body = (response.body ?? Buffer.alloc(0)).toString('latin1').padEnd(beyondCorkBytes)
    const fields = response.headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    const head = `${statusLine(response.status)}\r\n${fields}Connection: close\r\nContent-Length: ${body.length + 2}\r\n`
    // The newline that ends the status line becomes the end of the body: it is white space, like the padding.
    res.cork(() => res.writeStatus(`${head}\r\n${body}`))
    res.close()
  }

  sendTracked(response: HttpResponse, onSent: (wasSent: boolean) => void): void {
    if (this.#isOver) {
      onSent(false)
      return
    }
    const res = this.#res
    const body = response.body ?? Buffer.alloc(0)
    let stopWatching = () => {}
    const complete = () => {
      stopWatching()
      onSent(true)
      this.#over()
    }
    this.#whenAborted = () => {
      stopWatching()
      onSent(false)
    }
    res.cork(() => {
      writeHead(res, response)
      const start = res.getWriteOffset()
      const [, isDone] = res.tryEnd(body, body.length)
      if (isDone) return complete()
      res.onWritable((offset) => {
        const [isTaken, isComplete] = res.tryEnd(body.subarray(offset - start), body.length)
        if (isComplete) complete()
        return isTaken
      })
      // Closing the response calls the abort handler.
      stopWatching = watchReading(
        () => res.getWriteOffset(),
        () => res.close(),
      )
    })
  }

  /** The binding itself disconnects a client that reads nothing. */
  stream(response: HttpResponse): ResponseStream {
    const res = this.#res
    let settle: ((isOpen: boolean) => void) | null = null
    this.#whenAborted = () => settle?.(false)
    if (!this.#isOver) res.cork(() => writeHead(res, response))
    return {
      write: (piece) => {
        if (this.#isOver) return Promise.resolve(false)
        let isTaken = false
        res.cork(() => {
          isTaken = res.write(piece)
        })
        if (isTaken) return Promise.resolve(true)
        return new Promise((resolve) => {
          settle = resolve
          res.onWritable(() => {
            settle = null
            resolve(true)
            return true
          })
        })
      },
      end: () => {
        if (this.#isOver) return
        // No close is requested: the binding would write `Connection: close` where the next chunk begins, which no
        // client can read.
        res.cork(() => res.end(new Uint8Array(0)))
        this.#over()
      },
    }
  }

  #over(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#collector?.abandon()
    this.#onOver()
  }
}

/** The system takes a response up to this size at once if the client reads its connection. */
const unwatchedBytes = 64 * 1024

/** More than the binding buffers before it writes to the socket. */
const beyondCorkBytes = 17 * 1024

function writeHead(res: UwsResponse, response: HttpResponse): void {
  if (response.head !== undefined) {
    // The binding appends a newline to any status, so this is one call instead of one per header.
    res.writeStatus(response.head)
    return
  }
  res.writeStatus(statusLine(response.status))
  for (const [name, value] of response.headers) res.writeHeader(name, value)
}

/**
 * Ends the response to a HEAD: the head that GET would have, including its length. After the binding's own
 * `endWithoutBody(length)` it waits for that many bytes and then drops the next request of the connection (seen with
 * uWebSockets.js 20.30). The length is therefore written as a header, unless the connection is closed anyway.
 */
function endHead(res: UwsResponse, { status, body }: HttpResponse, closeConnection: boolean): void {
  const length = body?.byteLength ?? 0
  if (closeConnection) res.endWithoutBody(length, true)
  else {
    if (hasLength({ status })) res.writeHeader('Content-Length', String(length))
    res.endWithoutBody()
  }
}
