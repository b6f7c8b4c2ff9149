/** The routes as an engine serves them: each path with its methods, and the response to all other methods. */
import { ApiError } from '../../contract/errors.ts'
import type { Handler, ServedPath } from './engine.ts'
import { errorResponse } from './response.ts'
import type { Route } from './route.ts'
import { guarded, type RouteContext, runRoute } from './run-route.ts'

/** Every path serves the methods of its routes, and HEAD if it has a GET. Other methods get a 405 with `Allow`. */
export function pathsOf(routes: readonly Route[], context: RouteContext): ServedPath[] {
  // Each path is compared with all others. Splitting them for each pair took a twentieth of the CPU time of a start.
  const split = routes.map((route) => ({ route, parts: route.path.split('/') }))
  return [...new Set(routes.map((route) => route.path))].map((path) => {
    const methods = new Map<string, Handler>()
    const keyed = new Set<string>()
    for (const route of routesAt(path, split)) {
      const run = runRoute(route, context)
      const names = route.method === 'GET' && route.supportsHead !== false ? ['GET', 'HEAD'] : [route.method]
      for (const name of names) {
        methods.set(name, run)
        if (route.auth === 'key') keyed.add(name)
      }
    }
    const headers = { Allow: [...methods.keys()].join(', ') }
    const rest = rejectWith(context, () => new ApiError('method_not_allowed', { headers }))
    // uWebSockets would match such a route by its method before a more specific path that has only other methods.
    if (path.endsWith('/*')) return { path, methods: new Map(), rest: byMethod(methods, rest) }
    return { path, methods, rest, keyed }
  })
}

function byMethod(methods: ReadonlyMap<string, Handler>, rest: Handler): Handler {
  return (head, exchange) => (methods.get(head.method) ?? rest)(head, exchange)
}

/** Responds with that error to every request. */
export function rejectWith(context: RouteContext, errorOf: () => unknown): Handler {
  return guarded(context, (_head, exchange) => {
    exchange.send(errorResponse(errorOf(), context.log, 'server'), context.isStopping())
  })
}

/**
 * The routes of one path. A path with a literal segment (`…/destinations/test`) also matches the route that has a
 * parameter there (`…/destinations/{destination_id}`), which serves the methods that the literal one does not have.
 */
function routesAt(path: string, routes: readonly { route: Route; parts: string[] }[]): Route[] {
  const given = path.split('/')
  const own = routes.filter(({ route }) => route.path === path)
  const others = routes.filter(
    ({ route, parts }) =>
      route.path !== path && covers(parts, given) && !own.some((one) => one.route.method === route.method),
  )
  return [...own, ...others].map(({ route }) => route)
}

function covers(general: readonly string[], given: readonly string[]): boolean {
  return (
    general.length === given.length && general.every((part, i) => part.startsWith('{') || part === given[i])
  )
}
