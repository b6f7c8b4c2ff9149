/**
 * The management operations as routes. Their method, path, authentication, request checks and success status come
 * from the route table of the contract. A missing operation does not compile.
 */
import assert from 'node:assert'
import { ApiError } from '../../contract/errors.ts'
import { needsOf, type Operation, scopeOf, type VersionedResource } from '../../contract/operation.ts'
import type { Method } from '../../contract/operation-paths.ts'
import { type ManagementOperationId, operationTable } from '../../contract/operations.ts'
import { actorOf } from '../management/audit.ts'
import { type Call, checkedCall, type UseCases } from '../management/call.ts'
import { etag, expectedVersions, versionedResource } from './preconditions.ts'
import type { ApiReply, ApiRequest, Route } from './route.ts'

type Actor = ReturnType<typeof actorOf>
type Handle = (operation: Operation, id: ManagementOperationId, request: ApiRequest) => Promise<ApiReply>

/** `actingAs`: the same use cases, with their changes recorded under that actor in the audit log. */
export function managementRoutes(
  management: UseCases,
  actingAs: (actor: Actor) => UseCases,
  {
    versions,
    replicated,
  }: {
    versions: { of(resource: VersionedResource): Promise<string | null> }
    /** True when what is durable is in the replica; false: it does not answer. Null: responses do not wait for one. */
    replicated: (() => Promise<boolean>) | null
  },
): Route[] {
  const read: Handle = async (operation, id, request) => {
    const call = callOf(id, request)
    const resource = versionedResource(operation, call)
    // The version is read before the body. If a change comes between the two, the client gets the older version and
    // its own change is rejected.
    const version = resource === null ? null : await versions.of(resource)
    const body = await runCase(management, id, call)
    const { status, contentType } = operation.success
    if (contentType === undefined) return { status, body, headers: etag(version) }
    assert(typeof body === 'string', 'only JSON has another type')
    return { status, body: Buffer.from(body), headers: [['Content-Type', `${contentType}; charset=utf-8`]] }
  }
  const change: Handle = async (operation, id, request) => {
    const call = callOf(id, request)
    const resource = versionedResource(operation, call)
    const actor = actorOf(call.principal, id, request.address ?? null)
    let changed: string | null = null
    const guard = resource && {
      of: resource,
      expected: expectedVersions(request.headers['if-match']),
      changed: (version: string | null) => (changed = version),
    }
    const body = await runCase(actingAs(guard ? { ...actor, guard } : actor), id, call).catch(
      async (error: unknown) => {
        const isStale = error instanceof ApiError && error.code === 'changed_meanwhile'
        throw resource !== null && isStale ? await withPresent(error, resource, request) : error
      },
    )
    if (replicated !== null && !(await replicated())) throw unreplicated()
    const { status } = operation.success
    return { status, headers: etag(changed), ...(body === undefined ? {} : { body }) }
  }

  /**
   * Adds the resource as it is now to the error, so that the caller can compare. Returns the error unchanged if the
   * resource was deleted in the meantime.
   */
  const withPresent = async (error: ApiError, resource: VersionedResource, request: ApiRequest) => {
    const id = readOf[resource.kind]
    const { params, principal } = request
    try {
      // As for a read, the version is read before the body.
      const version = await versions.of(resource)
      const present = await runCase(management, id, callOf(id, { params, principal, query: none }))
      return new ApiError(error.code, { details: { present }, headers: Object.fromEntries(etag(version)) })
    } catch (unreadable) {
      if (unreadable instanceof ApiError) return error
      throw unreadable
    }
  }

  return operationTable.flatMap((operation): Route[] => {
    const { area, method, path, operationId } = operation
    if (area !== 'management') return []
    assert(isManaged(operationId, management) && isServed(method), `no use case for ${operationId}`)
    const handle = method === 'GET' ? read : change
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
        handler: (request) => handle(operation, operationId, request),
      },
    ]
  })
}

function unreplicated(): ApiError {
  return new ApiError('storage_unavailable', {
    message:
      'The change is made, but it is not in the replica (replica.url), which does not answer: it is lost if this machine is lost now.',
  })
}

/** The operation that reads each kind of resource. */
const readOf = {
  pipe: 'getPipe',
  destination: 'getDestination',
  alerts: 'getAlerts',
} as const satisfies Record<VersionedResource['kind'], ManagementOperationId>
const none = new URLSearchParams()

function isManaged(id: string, management: UseCases): id is ManagementOperationId {
  return Object.hasOwn(management, id)
}

function isServed(method: Method): method is Exclude<Method, 'OPTIONS'> {
  return method !== 'OPTIONS'
}

type AnyCall = Call<ManagementOperationId>

/** Rejects keys that expire where the access that the operation gives to a user would outlast such a key. */
function callOf(
  id: ManagementOperationId,
  { principal, ...request }: Pick<ApiRequest, 'params' | 'principal' | 'query'> & Partial<ApiRequest>,
): AnyCall {
  assert(principal !== null, 'a management route has a caller')
  if (outlasting.has(id) && principal.expiresMs !== Number.POSITIVE_INFINITY) {
    throw new ApiError('forbidden', {
      message: 'This key expires, and a user or a setup link does not: use a key that does not expire.',
    })
  }
  return checkedCall(id, { principal, ...request })
}
const outlasting: ReadonlySet<string> = new Set(['createUser', 'updateUser', 'createSetupLink'])

/** `call` was checked against the operation of `id`, which the compiler cannot follow through the table. */
function runCase(management: UseCases, id: ManagementOperationId, call: AnyCall): Promise<unknown> {
  const operate = management[id] as (call: AnyCall) => Promise<unknown>
  return operate(call)
}
