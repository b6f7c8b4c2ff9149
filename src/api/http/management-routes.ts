/**
 * The management operations as routes: method, path, auth and success status come from the route table of the
 * contract; here is only which parts of a request each use case takes. Leaving an operation out does not compile.
 */
import assert from 'node:assert'
import { ApiError } from '../../contract/errors.ts'
import { needsOf, scopeOf, type VersionedResource } from '../../contract/operation.ts'
import { type ManagementOperationId, operationTable } from '../../contract/operations.ts'
import { isForPipe, type Principal } from '../../contract/principal.ts'
import { actorOf } from '../management/audit.ts'
import type { Management } from '../management/management.ts'
import { etag, expectedVersions, versionedResource } from './preconditions.ts'
import { recordTextsAt } from './record-texts.ts'
import type { ApiReply, ApiRequest, Route } from './route.ts'

/** A request of a known caller. A path parameter that the path does not have is the empty string: it finds nothing. */
interface Call {
  principal: Principal
  workspaceId: string
  body: unknown
  bodyBytes: Buffer | null
  query: URLSearchParams
  pipe: string
  destination: string
  parked: string
  origin: string
  apiKey: string
  user: string
  message: string
}
type Handler = (call: Call) => Promise<unknown>
type Actor = ReturnType<typeof actorOf>

/** `actingAs`: the same use cases, whose changes are that actor's in the audit log. */
export function managementRoutes(
  management: Management,
  actingAs: (actor: Actor) => Management,
  versions: { of(resource: VersionedResource): Promise<string | null> },
): Route[] {
  const handlers = handlersOf(management)
  const actorFor = (id: ManagementOperationId, { principal, address }: ApiRequest): Actor => {
    assert(principal !== null, 'a management route has a caller')
    return actorOf(principal, id, address ?? null)
  }

  return operationTable.flatMap((operation): Route[] => {
    const { area, method, path, operationId, success } = operation
    if (area !== 'management') return []
    assert(isManaged(operationId, handlers) && method !== 'OPTIONS', `no handler for ${operationId}`)
    const read = async (request: ApiRequest): Promise<ApiReply> => {
      const call = callOf(request)
      const resource = versionedResource(operation, call)
      // Before the body: of a change in between the client then has the older version, and its own change is rejected.
      const version = resource === null ? null : await versions.of(resource)
      const body = await handlers[operationId](call)
      return { status: success.status, body, headers: etag(version) }
    }
    const change = async (request: ApiRequest): Promise<ApiReply> => {
      const call = callOf(request)
      const resource = versionedResource(operation, call)
      const actor = actorFor(operationId, request)
      let changed: string | null = null
      const guard = resource && {
        of: resource,
        expected: expectedVersions(request.headers['if-match']),
        changed: (version: string | null) => (changed = version),
      }
      const body = await handlersOf(actingAs(guard ? { ...actor, guard } : actor))[operationId](call)
      const headers = etag(changed)
      return body === undefined
        ? { status: success.status, headers }
        : { status: success.status, body, headers }
    }
    return [
      {
        method,
        path,
        operationId,
        surface: 'management',
        auth: 'key',
        needs: scopeOf(operation) ?? 'read',
        needsOfSession: needsOf(operation),
        ...(operation.bodyLimits && { bodyLimits: operation.bodyLimits }),
        isForBoundKeys: operation.boundKeys !== 'nothing',
        handler: method === 'GET' ? read : change,
      },
    ]
  })
}

function isManaged(
  id: string,
  handlers: Record<ManagementOperationId, Handler>,
): id is ManagementOperationId {
  return Object.hasOwn(handlers, id)
}

function handlersOf(m: Management): Record<ManagementOperationId, Handler> {
  const ofWorkspace =
    <R>(use: (workspaceId: string, body: unknown) => Promise<R>): Handler =>
    (c) =>
      use(c.workspaceId, c.body)
  const ofPipe =
    <R>(use: (workspaceId: string, pipe: string, body: unknown) => Promise<R>): Handler =>
    (c) =>
      use(c.workspaceId, c.pipe, c.body)
  const ofDestination =
    <R>(
      use: (workspaceId: string, pipe: string, destination: string, body: unknown) => Promise<R>,
    ): Handler =>
    (c) =>
      use(c.workspaceId, c.pipe, c.destination, c.body)
  return {
    listPipes: (c) => m.listPipes(c.principal),
    createPipe: ofWorkspace(m.createPipe),
    getPipe: (c) => m.getPipe(c.principal, c.pipe),
    updatePipe: ofPipe(m.updatePipe),
    deletePipe: ofPipe(m.deletePipe),
    createDestination: (c) =>
      m.createDestination(c.workspaceId, c.pipe, c.body, c.query.get('check_transform')),
    testDestination: (c) => m.testDestination(c.workspaceId, c.pipe, c.body, c.query.get('sample')),
    inferTable: ofPipe(m.inferTable),
    tryTransform: ofPipe(m.tryTransform),
    getDrift: ofDestination(m.getDrift),
    getDestination: ofDestination(m.getDestination),
    updateDestination: (c) =>
      m.updateDestination(c.workspaceId, c.pipe, c.destination, c.body, c.query.get('check_transform')),
    deleteDestination: ofDestination(m.deleteDestination),
    setDestinationStatus: ofDestination(m.setDestinationStatus),
    skipBlockingMessage: ofDestination(m.skipBlockingMessage),
    retryNow: ofDestination(m.retryNow),
    getBlockingMessage: (c) => m.getBlockingMessage(c.workspaceId, c.pipe, c.destination, c.query),
    rewindDestination: ofDestination(m.rewindDestination),
    resetTlsPin: ofDestination(m.resetTlsPin),
    listParked: (c) => m.listParked(c.workspaceId, c.pipe, c.destination, c.query),
    getParked: (c) => m.getParked(c.workspaceId, c.pipe, c.destination, c.parked),
    replayParked: (c) =>
      m.replayParked(
        c.workspaceId,
        c.pipe,
        c.destination,
        c.parked,
        c.body,
        c.bodyBytes && recordTextsAt(c.bodyBytes, 'records'),
      ),
    replayManyParked: ofDestination(m.replayManyParked),
    discardManyParked: ofDestination(m.discardManyParked),
    deleteParked: (c) => m.deleteParked(c.workspaceId, c.pipe, c.destination, c.parked),
    putLimits: ofPipe(m.putLimits),
    deleteLimits: ofPipe(m.deleteLimits),
    addAllowedOrigin: ofPipe(m.addAllowedOrigin),
    removeAllowedOrigin: (c) => m.removeAllowedOrigin(c.workspaceId, c.pipe, c.origin),
    listApiKeys: (c) => m.listApiKeys(c.principal),
    createApiKey: (c) => m.createApiKey(c.principal, c.body),
    rotateApiKey: (c) => m.rotateApiKey(c.principal, c.apiKey, c.body),
    revokeApiKey: (c) => m.revokeApiKey(c.principal, c.apiKey),
    purgeApiKeys: (c) => m.purgeApiKeys(c.principal),
    getOverview: (c) => m.getOverview(c.principal, c.query.get('since')),
    getUsage: (c) => m.getUsage(c.principal, c.query.get('hours')),
    getPipeUsage: (c) => m.getPipeUsage(c.workspaceId, c.pipe, c.query.get('hours')),
    getDestinationUsage: (c) =>
      m.getDestinationUsage(c.workspaceId, c.pipe, c.destination, c.query.get('hours')),
    listUsers: ofWorkspace(m.listUsers),
    createUser: lasting(ofWorkspace(m.createUser)),
    updateUser: lasting((c) => m.updateUser(c.workspaceId, c.user, c.body)),
    deleteUser: (c) => m.deleteUser(c.workspaceId, c.user),
    getMessage: (c) => m.getMessage(c.principal, c.message),
    listMessages: (c) => m.listMessages(c.workspaceId, c.pipe, c.query),
    listAudit: (c) => m.listAudit(c.principal, c.query),
    getAlerts: (c) => m.getAlerts(c.workspaceId),
    putAlerts: ofWorkspace(m.putAlerts),
    deleteAlerts: (c) => m.deleteAlerts(c.workspaceId),
    testAlerts: (c) => m.testAlerts(c.workspaceId),
    createSetupLink: lasting(ofWorkspace(m.createSetupLink)),
  }
}

/** Rejects keys that expire: the access that this operation gives to a user would outlast such a key. */
function lasting(handler: Handler): Handler {
  return async (call) => {
    if (call.principal.expiresMs === Number.POSITIVE_INFINITY) return await handler(call)
    throw new ApiError('forbidden', {
      message:
        'This key expires, and a user or a setup link would not: this takes a key that does not expire.',
    })
  }
}

function callOf({ params, principal, body, bodyBytes, query }: ApiRequest): Call {
  assert(principal !== null, 'a management route has a caller')
  return {
    principal,
    workspaceId: principal.workspaceId,
    body,
    bodyBytes: bodyBytes ?? null,
    query,
    // Another pipe than those of the key is as good as none: the resource's 404.
    pipe: isForPipe(principal, params.pipe_id?.toLowerCase() ?? '') ? (params.pipe_id ?? '') : '',
    destination: params.destination_id ?? '',
    parked: params.parked_id ?? '',
    origin: params.origin_id ?? '',
    apiKey: params.api_key_id ?? '',
    user: params.user_id ?? '',
    message: params.msg_id ?? '',
  }
}
