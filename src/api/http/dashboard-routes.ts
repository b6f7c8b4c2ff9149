/**
 * The routes below /dashboard/api: sign-in, and every operation of `/v1` in the route table, under the same path and
 * with the same handler, for clients that have a session instead of a key. The pages themselves are in
 * `dashboard-files.ts`.
 */
import assert from 'node:assert'
import { ApiError } from '../../contract/errors.ts'
import { formBody } from '../../contract/operation.ts'
import type { Sessions, SignedIn } from '../management/sessions.ts'
import { browserCookie, sessionCookie } from './dashboard-gate.ts'
import type { ApiReply, ApiRequest, Route, Visit } from './route.ts'
import { serverUrls, type UrlSources } from './service-routes.ts'

const prefix = '/dashboard/api'

/** `v1`: the routes that take a key, and the service routes. */
export function dashboardRoutes(sessions: Sessions, urls: UrlSources, v1: readonly Route[]): Route[] {
  return [...sessionRoutes(sessions, urls), ...v1.flatMap(asSessionRoute), ...nothingElse]
}

function asSessionRoute(route: Route): Route[] {
  if (route.surface === 'data' || !route.path.startsWith('/v1/')) return []
  const { needsOfSession: needs = route.needs } = route
  return [{ ...route, needs, path: `${prefix}${route.path}`, surface: 'management', auth: 'session' }]
}

/** Without these, an unknown path below the prefix would serve the page of the application. */
const nothingElse = (['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const).map(
  (method): Route => ({
    method,
    path: `${prefix}/*`,
    operationId: 'dashboardApi',
    surface: 'management',
    auth: 'page',
    handler: async () => {
      throw new ApiError('not_found')
    },
  }),
)

function sessionRoutes(sessions: Sessions, urls: UrlSources): Route[] {
  const session = { path: `${prefix}/v1/session`, surface: 'management', auth: 'session' } as const
  return [
    {
      ...session,
      method: 'POST',
      auth: 'form',
      operationId: 'signIn',
      bodyLimits: formBody,
      handler: async ({ body, visit, address }) => {
        const { address: network, browserToken, isSecure } = of(visit)
        return signedIn(await sessions.signIn(body, { network, browserToken, address }), isSecure)
      },
    },
    {
      ...session,
      method: 'GET',
      operationId: 'getSession',
      handler: async (request) => ({
        status: 200,
        body: {
          ...(await sessions.current(tokenOf(request))),
          data_url: serverUrls(urls, request.headers.host ?? '').data,
        },
      }),
    },
    {
      ...session,
      method: 'DELETE',
      operationId: 'signOut',
      handler: async (request) => {
        await sessions.signOut(tokenOf(request))
        return { status: 204, headers: [sessionCookie(null, of(request.visit).isSecure)] }
      },
    },
    {
      ...session,
      method: 'PUT',
      path: `${session.path}/password`,
      operationId: 'changeOwnPassword',
      bodyLimits: formBody,
      handler: async (request) => {
        const tokens = await sessions.changePassword(tokenOf(request), request.body, request.address)
        return signedIn(tokens, of(request.visit).isSecure)
      },
    },
    {
      ...session,
      method: 'POST',
      path: `${prefix}/v1/setup`,
      auth: 'form',
      operationId: 'setUp',
      bodyLimits: formBody,
      handler: async ({ body, visit, address }) =>
        signedIn(await sessions.setUp(body, address), of(visit).isSecure),
    },
  ]
}

function signedIn({ session, browser }: SignedIn, isSecure: boolean): ApiReply {
  return { status: 204, headers: [sessionCookie(session, isSecure), browserCookie(browser, isSecure)] }
}

function of(visit: Visit | null | undefined): Visit {
  assert(visit != null, 'a route for browsers has a visit')
  return visit
}

function tokenOf({ visit }: ApiRequest): string {
  const { sessionToken } = of(visit)
  assert(sessionToken !== null, 'a route with a session has its token')
  return sessionToken
}
