/**
 * The HTTP server: one listener per surface, on the engine of the settings.
 *
 *   management surface   /v1/pipes… /v1/api-keys… /openapi/…           (routes of the contract's table)
 *                        /dashboard  /dashboard/api/v1/…               (the same operations and sessions, for browsers)
 *                        /docs/…                                       (the guides)
 *   data surface         /v1/ingest/{pipe_id}  /v1/hooks/{pipe_id}  /v1/pull/…
 *   both                 /v1/health  /v1/ready  /v1/pipectl.js  /v1/pipectl.mjs
 */
import { ApiError } from '../../contract/errors.ts'
import type { ClientIp } from '../../ingest/client-ip.ts'
import type { Authenticate } from '../../ingest/directory/directory-cache.ts'
import type { Ingest } from '../../ingest/ingest.ts'
import type { Logger } from '../../platform/log.ts'
import type { ListenAddress } from '../../settings/settings.ts'
import type { ListenerCertificate } from '../tls/listener-certificate.ts'
import type { DashboardGate } from './dashboard-gate.ts'
import { type DescriptorGuard, descriptorLimit, guardDescriptors } from './descriptor-guard.ts'
import type { HttpEngine, Listener, ListenerOptions } from './engine.ts'
import { countTraffic, type Traffic } from './exchange.ts'
import { hookPaths } from './hook-routes.ts'
import { ingestPath } from './ingest-routes.ts'
import { requireFreeAddress } from './listen.ts'
import { ManagementBudget } from './management-budget.ts'
import { errorResponse } from './response.ts'
import type { Route } from './route.ts'
import { pathsOf, rejectWith } from './route-paths.ts'

export interface Surface {
  /** The key of its setting, for logs and errors: `listen`, `data_listen`. */
  name: string
  listen: ListenAddress
  management: boolean
  data: boolean
  /** Null or absent: plain HTTP. */
  certificate?: ListenerCertificate | null
}

export interface HttpServerOptions {
  engine: HttpEngine
  /**
   * The engine of the surfaces with ingest, if it serves ingest itself. Without one, `engine` and `ingest` serve it
   * here.
   */
  dataEngine?: HttpEngine | null
  /** The engine of the surfaces with a certificate. Default: `engine`. */
  tlsEngine?: HttpEngine
  surfaces: readonly Surface[]
  /** All routes. Each one names the surfaces that serve it. */
  routes: readonly Route[]
  /** Null if there is a `dataEngine`. */
  ingest: Ingest | null
  authenticate: Authenticate
  /** Without one, no route can be for browsers. */
  gate?: DashboardGate | null
  /** Without one, no handler knows the address of the client. */
  clientIp?: Pick<ClientIp, 'of'> | null
  log: Logger
}

export interface HttpServer {
  /** The address of each surface, with the actual port, in the order of `surfaces`. */
  addresses: readonly { name: string; host: string; port: number }[]
  /** The number of requests whose response is not handed over yet. */
  requestsUnderWay(): number
  /** Closes the listen sockets. Requests in progress continue; connections are closed after their response. */
  stopAccepting(): Promise<void>
  /** Resolves when no request is in progress. */
  idle(): Promise<void>
  /** Closes every connection, including those with a request in progress. */
  close(): void
}

/** Throws AddressInUseError, ListenError. In that case nothing is left listening. */
export async function openHttpServer(options: HttpServerOptions): Promise<HttpServer> {
  const traffic = countTraffic()
  const budget = new ManagementBudget()
  const opened: { surface: Surface; listener: Listener }[] = []
  let guard: DescriptorGuard | null = null
  const closeAll = () => {
    guard?.close()
    for (const { listener } of opened) listener.close()
  }
  const stopAll = () => Promise.all(opened.map(({ listener }) => listener.stop()))
  try {
    for (const surface of options.surfaces) await requireFreeAddress(surface.name, surface.listen)
    for (const surface of options.surfaces) {
      const listener = engineOf(surface, options).createListener(
        listenerOptions(surface, options, traffic, budget),
      )
      opened.push({ surface, listener })
      await listener.listen()
    }
  } catch (error) {
    closeAll()
    throw error
  }
  guard = guardDescriptors({
    limit: descriptorLimit(),
    stopListening: stopAll,
    listenAgain: async () => {
      for (const { listener } of opened) await listener.listen()
    },
    log: options.log,
  })
  return {
    addresses: opened.map(({ surface: { name, listen }, listener: { port } }) => ({
      name,
      host: listen.host,
      port,
    })),
    requestsUnderWay: traffic.underWay,
    stopAccepting: async () => {
      traffic.stop()
      guard?.close()
      await stopAll()
    },
    idle: traffic.idle,
    close: closeAll,
  }
}

/**
 * Surfaces with a certificate have their own engine: uWebSockets reads a certificate only once. To replace it, it
 * would have to listen again, and the system would reset waiting connections.
 */
function engineOf(
  surface: Surface,
  { engine, dataEngine, tlsEngine = engine }: HttpServerOptions,
): HttpEngine {
  if (surface.certificate != null) return tlsEngine
  return (surface.data ? dataEngine : null) ?? engine
}

function listenerOptions(
  surface: Surface,
  options: HttpServerOptions,
  traffic: Traffic,
  budget: ManagementBudget,
): ListenerOptions {
  const { log, ingest } = options
  const context = { ...options, budget, isStopping: traffic.isStopping }
  const paths = pathsOf(
    options.routes.filter((route) => isOn(surface, route)),
    context,
  )
  if (surface.data && ingest !== null) {
    const served = { ingest, log, isStopping: traffic.isStopping }
    paths.push(ingestPath(served), ...hookPaths(served))
  }
  return {
    name: surface.name,
    address: surface.listen,
    paths,
    notFound: rejectWith(context, () => new ApiError('not_found')),
    failed: (error) => errorResponse(error, log, 'server'),
    begin: traffic.begin,
    certificate: surface.certificate ?? null,
  }
}

function isOn(surface: Surface, route: Route): boolean {
  return route.surface === 'all' || surface[route.surface]
}
