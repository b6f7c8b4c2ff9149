/**
 * The HTTP server: one listener a surface, hyper-express for every route but ingest. The only file that imports it.
 *
 *   management surface   /v1/pipes… /v1/api-keys… /openapi/…           (routes as data, contract's route table)
 *   data surface         /v1/ingest/{pipe_id} (straight on uWebSockets)  /v1/pull/…
 *   both                 /v1/health
 *
 * Traps of hyper-express 6.17 that are coded around here:
 * - it listens on 0.0.0.0 and closes on SIGTERM by itself: a host is always passed, `auto_close` is off;
 * - its 413 has an empty body and its own readers allocate the announced length: no limit is set there, and
 *   `exchange.ts` reads and counts;
 * - unknown paths, wrong methods and HEAD are not answered as they should be: each has its own route here;
 * - what a handler throws would be printed and sent raw: the error handler answers.
 */
import hyperExpress, { type Server } from 'hyper-express'
import { ApiError } from '../contract/errors.ts'
import type { Ingest } from '../ingest/accept.ts'
import type { Authenticate } from '../ingest/bearer.ts'
import type { Logger } from '../log.ts'
import type { ListenAddress } from '../settings.ts'
import { Exchange } from './exchange.ts'
import { mountIngest } from './ingest-routes.ts'
import { ListenError, requireFreeAddress } from './listen.ts'
import { errorAnswer } from './reply.ts'
import type { Route } from './route.ts'
import { type RouteContext, runRoute } from './run-route.ts'
import type { RouteResponse } from './uws.ts'

export interface Surface {
  /** For logs and errors, e.g. the setting's key: `listen`, `data_listen`. */
  name: string
  listen: ListenAddress
  management: boolean
  data: boolean
}

export interface HttpServerOptions {
  surfaces: readonly Surface[]
  /** All of them; the path says which surface a route belongs to. */
  routes: readonly Route[]
  ingest: Ingest
  authenticate: Authenticate
  log: Logger
}

export interface HttpServer {
  /** Where each surface listens, ports filled in, in the order given. */
  addresses: readonly { name: string; host: string; port: number }[]
  /** Requests whose answer is not yet handed over. */
  requestsUnderWay(): number
  /** Closes the listen sockets. Requests under way go on; connections are closed after their answer. */
  stopAccepting(): void
  /** Resolves when no request is under way. */
  idle(): Promise<void>
  /** Closes every connection, answered or not. */
  close(): void
}

/** Throws AddressInUseError, ListenError; nothing listens then. */
export async function openHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const traffic = countTraffic()
  const opened: { server: Server; surface: Surface; port: number }[] = []
  const closeAll = () => {
    for (const { server } of opened) {
      server.close()
      server.uws_instance.close()
    }
  }
  try {
    for (const surface of options.surfaces) await requireFreeAddress(surface.name, surface.listen)
    for (const surface of options.surfaces) {
      const server = buildServer(surface, options, traffic)
      opened.push({ server, surface, port: await listen(server, surface) })
    }
  } catch (error) {
    closeAll()
    throw error
  }
  return {
    addresses: opened.map(({ surface, port }) => ({ name: surface.name, host: surface.listen.host, port })),
    requestsUnderWay: traffic.underWay,
    stopAccepting: () => {
      traffic.stop()
      for (const { server } of opened) server.close()
    },
    idle: traffic.idle,
    close: closeAll,
  }
}

async function listen(server: Server, surface: Surface): Promise<number> {
  try {
    await server.listen(surface.listen.port, surface.listen.host)
  } catch {
    throw new ListenError(surface.name, surface.listen, 'refused by the system')
  }
  return server.port
}

function buildServer(surface: Surface, options: HttpServerOptions, traffic: Traffic): Server {
  const server = new hyperExpress.Server({
    auto_close: false,
    max_body_length: Number.MAX_SAFE_INTEGER,
    max_body_buffer: 64 * 1024,
  })
  const context: RouteContext = { ...options, begin: traffic.begin, isStopping: traffic.isStopping }
  mountRoutes(
    server,
    options.routes.filter((route) => isOn(surface, route)),
    context,
  )
  if (surface.data) mountIngest(server.uws_instance, { ...context, ingest: options.ingest })
  server.set_not_found_handler((_request, response) => refuse(response, context, new ApiError('not_found')))
  server.set_error_handler((_request, response, error) => refuse(response, context, error))
  return server
}

function isOn(surface: Surface, route: Route): boolean {
  if (route.path === '/v1/health') return true
  return route.path.startsWith('/v1/pull/') ? surface.data : surface.management
}

/** Every path of the routes answers each of its methods, HEAD where it has a GET, and 405 with `Allow` to the rest. */
function mountRoutes(server: Server, routes: readonly Route[], context: RouteContext): void {
  const methodsByPath = new Map<string, string[]>()
  for (const route of routes) {
    const methods = methodsByPath.get(route.path) ?? []
    methodsByPath.set(route.path, methods)
    const pattern = patternOf(route.path)
    const run = (isHead: boolean) => runRoute(route, context, isHead)
    methods.push(route.method)
    switch (route.method) {
      case 'GET':
        server.get(pattern, run(false))
        if (route.answersHead === false) break
        methods.push('HEAD')
        server.head(pattern, run(true))
        break
      case 'POST':
        server.post(pattern, run(false))
        break
      case 'PUT':
        server.put(pattern, run(false))
        break
      case 'PATCH':
        server.patch(pattern, run(false))
        break
      case 'DELETE':
        server.delete(pattern, run(false))
        break
    }
  }
  for (const [path, methods] of methodsByPath) {
    server.any(patternOf(path), (_request, response) => {
      refuse(
        response,
        context,
        new ApiError('method_not_allowed', { headers: { Allow: methods.join(', ') } }),
      )
    })
  }
}

function refuse(response: RouteResponse, context: RouteContext, error: unknown): void {
  const exchange = new Exchange(response.raw, context.begin())
  exchange.answer(errorAnswer(error, context.log, 'server'), context.isStopping())
}

/** `/v1/pipes/{pipe_id}` → `/v1/pipes/:pipe_id`. */
function patternOf(path: string): string {
  return path.replace(/\{(\w+)\}/g, ':$1')
}

interface Traffic {
  /** Returns the function to call when the request is over. */
  begin(): () => void
  underWay(): number
  stop(): void
  isStopping(): boolean
  idle(): Promise<void>
}

function countTraffic(): Traffic {
  let count = 0
  let isStopping = false
  let waiting: (() => void)[] = []
  const end = () => {
    count--
    if (count > 0) return
    for (const resolve of waiting) resolve()
    waiting = []
  }
  return {
    begin: () => {
      count++
      return end
    },
    underWay: () => count,
    stop: () => {
      isStopping = true
    },
    isStopping: () => isStopping,
    idle: () => (count === 0 ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
  }
}
