/** Pipes, what is set on one, and the keys of the workspace: served by `management/`. */
import { ApiKeyCreate } from './api-key.ts'
import { everyChange, everyKeyed, type Operation, onePipe, withBody } from './operation.ts'
import { OriginCreate, PipeCreate, PipeLimits, PipeUpdate } from './pipe.ts'
import { resourceLimits } from './resource-limits.ts'
import { responseBodies } from './responses.ts'

export const pipeOperations = [
  {
    operationId: 'listPipes',
    method: 'GET',
    path: '/v1/pipes',
    area: 'management',
    summary: 'List the pipes of the workspace with their usage of the last 24 hours',
    auth: 'key',
    success: { status: 200, description: 'All pipes', schema: responseBodies.pipeList },
    errors: everyKeyed,
  },
  {
    operationId: 'createPipe',
    method: 'POST',
    path: '/v1/pipes',
    area: 'management',
    summary: 'Create a pipe',
    auth: 'key',
    request: PipeCreate,
    success: { status: 201, description: 'Created, active', schema: responseBodies.pipeCreated },
    errors: ['duplicate_pipe_name', 'workspace_full', ...withBody],
  },
  {
    operationId: 'getPipe',
    method: 'GET',
    path: onePipe,
    area: 'management',
    summary: 'Show a pipe with its destinations, limits, allowed origins and the keys of the workspace',
    auth: 'key',
    success: { status: 200, description: 'The pipe', schema: responseBodies.pipeDetail },
    errors: ['pipe_not_found', ...everyKeyed],
  },
  {
    operationId: 'updatePipe',
    method: 'PATCH',
    path: onePipe,
    area: 'management',
    summary: 'Change, pause or resume a pipe',
    auth: 'key',
    request: PipeUpdate,
    success: { status: 200, description: 'The pipe as it is now', schema: responseBodies.pipe },
    errors: ['pipe_not_found', ...withBody],
  },
  {
    operationId: 'deletePipe',
    method: 'DELETE',
    path: onePipe,
    area: 'management',
    summary: 'Delete a pipe with its destinations and everything buffered in it',
    auth: 'key',
    success: { status: 204, description: 'Deleted' },
    errors: ['pipe_not_found', ...everyChange],
  },
] as const satisfies readonly Operation[]

export const pipeSettingOperations = [
  {
    operationId: 'putLimits',
    method: 'PUT',
    path: `${onePipe}/limits`,
    area: 'management',
    summary: 'Set the limits of a pipe',
    auth: 'key',
    request: PipeLimits,
    success: { status: 200, description: 'The limits as they are now', schema: responseBodies.limits },
    errors: ['pipe_not_found', ...withBody],
  },
  {
    operationId: 'deleteLimits',
    method: 'DELETE',
    path: `${onePipe}/limits`,
    area: 'management',
    summary: 'Remove the limits of a pipe',
    auth: 'key',
    success: { status: 204, description: 'The pipe has no limits' },
    errors: ['pipe_not_found', ...everyChange],
  },
  {
    operationId: 'addAllowedOrigin',
    method: 'POST',
    path: `${onePipe}/allowed-origins`,
    area: 'management',
    summary: 'Allow a browser origin',
    auth: 'key',
    request: OriginCreate,
    success: { status: 201, description: 'Allowed', schema: responseBodies.originCreated },
    errors: ['pipe_not_found', 'duplicate_origin', 'workspace_full', ...withBody],
  },
  {
    operationId: 'removeAllowedOrigin',
    method: 'DELETE',
    path: `${onePipe}/allowed-origins/{origin_id}`,
    area: 'management',
    summary: 'No longer allow a browser origin',
    auth: 'key',
    success: { status: 204, description: 'Removed' },
    errors: ['origin_not_found', ...everyChange],
  },
] as const satisfies readonly Operation[]

export const apiKeyOperations = [
  {
    operationId: 'listApiKeys',
    method: 'GET',
    path: '/v1/api-keys',
    area: 'management',
    summary: 'List the API keys of the workspace, never the keys themselves',
    auth: 'key',
    success: {
      status: 200,
      description: `Every active key, and the ${resourceLimits.revokedApiKeysPerWorkspace} revoked last, for ${resourceLimits.revokedApiKeyDays} days`,
      schema: responseBodies.apiKeyList,
    },
    errors: everyKeyed,
  },
  {
    operationId: 'createApiKey',
    method: 'POST',
    path: '/v1/api-keys',
    area: 'management',
    summary: 'Create an API key; the whole key is shown only in this response',
    auth: 'key',
    request: ApiKeyCreate,
    success: { status: 201, description: 'Created', schema: responseBodies.apiKeyCreated },
    errors: ['duplicate_api_key_name', 'workspace_full', ...withBody],
  },
  {
    operationId: 'revokeApiKey',
    method: 'DELETE',
    path: '/v1/api-keys/{api_key_id}',
    area: 'management',
    summary: 'Revoke an API key; it stops working before the response is sent',
    auth: 'key',
    success: { status: 204, description: 'Revoked' },
    errors: ['cannot_revoke_current_key', 'api_key_not_found', ...everyChange],
  },
] as const satisfies readonly Operation[]
