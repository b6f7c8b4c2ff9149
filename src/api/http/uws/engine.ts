/**
 * The engine on uWebSockets. hyper-express serves every path except the hot one, which is registered on the binding
 * itself (measured: 58–62 k requests/s, against 32–34 k through a route of hyper-express). This is the only file that
 * imports hyper-express, and it is itself imported only when this engine is chosen: the import loads the native
 * binding.
 *
 * Behavior of hyper-express 6.17 that this code works around:
 * - it listens on 0.0.0.0 and closes on SIGTERM by itself: a host is always passed, and `auto_close` is off;
 * - its 413 has an empty body and its own readers allocate the announced length: no limit is set there, and
 *   `exchange.ts` reads and counts;
 * - unknown paths, wrong methods and HEAD get wrong responses: each has its own route here;
 * - an error that a handler throws would be printed and sent raw: the error handler responds instead.
 */
import hyperExpress, { type Server } from 'hyper-express'
import type { Handler, HttpEngine, Listener, ListenerOptions, ServedPath } from '../engine.ts'
import type { RequestHead } from '../exchange.ts'
import { ListenError } from '../listen.ts'
import type { RouteRequest, RouteResponse, UwsApp, UwsHandler, UwsRequest } from './binding.ts'
import { UwsExchange } from './exchange.ts'

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
    return this.#request.path_query
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
