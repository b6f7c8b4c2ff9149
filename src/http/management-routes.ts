/**
 * The management operations as routes: method, path, auth and success status come from the route table of the
 * contract; here stands only which use case answers which operation. Leaving one out does not compile.
 */
import assert from 'node:assert'
import { type ManagementOperationId, operationTable } from '../contract/operations.ts'
import type { Management } from '../management/management.ts'
import type { ApiRequest, Route } from './route.ts'

type Handler = (call: Call) => Promise<unknown>

/** A request of a known workspace, its path parameters by name. */
interface Call {
  workspaceId: string
  keyId: string
  body: unknown
  pipe: string
  destination: string
  origin: string
  apiKey: string
}

export function managementRoutes(management: Management): Route[] {
  const handlers = handlersOf(management)
  return operationTable.flatMap((operation): Route[] => {
    if (operation.area !== 'management' && operation.area !== 'health') return []
    const handler = find(handlers, operation.operationId)
    const { method, path, operationId, success } = operation
    assert(method !== 'OPTIONS' && operation.auth !== 'pipe')
    const answer = async (request: ApiRequest) => {
      const body = await handler(callOf(request))
      return body === undefined ? { status: success.status } : { status: success.status, body }
    }
    return [{ method, path, operationId, auth: operation.auth, handler: answer }]
  })
}

function handlersOf(m: Management): Record<ManagementOperationId, Handler> {
  return {
    listPipes: (c) => m.listPipes(c.workspaceId),
    createPipe: (c) => m.createPipe(c.workspaceId, c.body),
    getPipe: (c) => m.getPipe(c.workspaceId, c.pipe),
    updatePipe: (c) => m.updatePipe(c.workspaceId, c.pipe, c.body),
    deletePipe: (c) => m.deletePipe(c.workspaceId, c.pipe),
    createDestination: (c) => m.createDestination(c.workspaceId, c.pipe, c.body),
    testDestination: (c) => m.testDestination(c.workspaceId, c.pipe, c.body),
    getDestination: (c) => m.getDestination(c.workspaceId, c.pipe, c.destination),
    updateDestination: (c) => m.updateDestination(c.workspaceId, c.pipe, c.destination, c.body),
    deleteDestination: (c) => m.deleteDestination(c.workspaceId, c.pipe, c.destination),
    setDestinationStatus: (c) => m.setDestinationStatus(c.workspaceId, c.pipe, c.destination, c.body),
    skipBlockingMessage: (c) => m.skipBlockingMessage(c.workspaceId, c.pipe, c.destination),
    retryNow: (c) => m.retryNow(c.workspaceId, c.pipe, c.destination),
    getBlockingMessage: (c) => m.getBlockingMessage(c.workspaceId, c.pipe, c.destination),
    rewindDestination: (c) => m.rewindDestination(c.workspaceId, c.pipe, c.destination, c.body),
    putLimits: (c) => m.putLimits(c.workspaceId, c.pipe, c.body),
    addAllowedOrigin: (c) => m.addAllowedOrigin(c.workspaceId, c.pipe, c.body),
    removeAllowedOrigin: (c) => m.removeAllowedOrigin(c.workspaceId, c.pipe, c.origin),
    listApiKeys: (c) => m.listApiKeys(c.workspaceId),
    createApiKey: (c) => m.createApiKey(c.workspaceId, c.body),
    revokeApiKey: (c) => m.revokeApiKey(c.workspaceId, c.keyId, c.apiKey),
    getHealth: () => m.getHealth(),
  }
}

function find(handlers: Record<string, Handler>, operationId: string): Handler {
  const handler = handlers[operationId]
  assert(handler, `no handler for ${operationId}`)
  return handler
}

/** A parameter that the path does not have is the empty string: no UUID, so it finds nothing. */
function callOf({ params, key, body }: ApiRequest): Call {
  return {
    workspaceId: key?.workspaceId ?? '',
    keyId: key?.apiKeyId ?? '',
    body,
    pipe: params.pipe_id ?? '',
    destination: params.destination_id ?? '',
    origin: params.origin_id ?? '',
    apiKey: params.api_key_id ?? '',
  }
}
