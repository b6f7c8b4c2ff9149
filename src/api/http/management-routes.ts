/**
 * The management operations as routes: method, path, auth, the checks of a request and the success status come from the route
 * table of the contract. Leaving an operation out does not compile.
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

/** `actingAs`: the same use cases, whose changes are that actor's in the audit log. */
export function managementRoutes(
  management: UseCases,
  actingAs: (actor: Actor) => UseCases,
  versions: { of(resource: VersionedResource): Promise<string | null> },
): Route[] {
  const read: Handle = async (operation, id, request) => {
    const call = callOf(id, request)
    const resource = versionedResource(operation, call)
    // Before the body: of a change in between the client then has the older version, and its own change is rejected.
    const version = resource === null ? null : await versions.of(resource)
    const body = await runCase(management, id, call)
    return { status: operation.success.status, body, headers: etag(version) }
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
    const body = await runCase(actingAs(guard ? { ...actor, guard } : actor), id, call)
    const { status } = operation.success
    return { status, headers: etag(changed), ...(body === undefined ? {} : { body }) }
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

function isManaged(id: string, management: UseCases): id is ManagementOperationId {
  return Object.hasOwn(management, id)
}

function isServed(method: Method): method is Exclude<Method, 'OPTIONS'> {
  return method !== 'OPTIONS'
}

type AnyCall = Call<ManagementOperationId>

/** Rejects keys that expire where the access that the operation gives to a user would outlast such a key. */
function callOf(id: ManagementOperationId, { principal, ...request }: ApiRequest): AnyCall {
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
