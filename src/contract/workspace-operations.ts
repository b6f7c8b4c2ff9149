/** Pipes, what is set on one, and the keys of the workspace: served by `management/`. */
import { ApiKeyCreate, ApiKeyRotate } from './api-key.ts'
import { everyManaged, type Operation, withBody } from './operation.ts'
import { at } from './operation-paths.ts'
import { sinceParameter } from './overview.ts'
import {
  OriginCreate,
  PipeCreate,
  PipeLimits,
  PipePatch,
  withNormalOrigin,
  withTrimmedGeoFields,
} from './pipe.ts'
import { resourceLimits } from './resource-limits.ts'
import { responseBodies } from './responses.ts'
import { hoursParameter, usageFreshness } from './usage.ts'

export const pipeOperations = [
  {
    ...at('getOverview'),
    area: 'management',
    summary:
      'Show every pipe and lane, the buffer and the service at one moment, for a screen that asks again and again',
    auth: 'key',
    boundKeys: 'its_part',
    parameters: [sinceParameter],
    success: { status: 200, description: 'The overview', schema: responseBodies.overview },
    errors: everyManaged,
  },
  {
    ...at('getUsage'),
    area: 'management',
    summary: 'Show what all pipes of the workspace together took in and delivered, by the hour',
    description: usageFreshness,
    auth: 'key',
    boundKeys: 'its_part',
    parameters: [hoursParameter],
    success: { status: 200, description: 'The hours', schema: responseBodies.usageByHour },
    errors: ['validation_error', ...everyManaged],
  },
  {
    ...at('listPipes'),
    area: 'management',
    summary: 'List the pipes of the workspace with their usage of the last 24 hours',
    auth: 'key',
    boundKeys: 'its_part',
    success: { status: 200, description: 'All pipes', schema: responseBodies.pipeList },
    errors: everyManaged,
  },
  {
    ...at('createPipe'),
    area: 'management',
    summary: 'Create a pipe',
    auth: 'key',
    boundKeys: 'nothing',
    request: PipeCreate,
    prepare: withTrimmedGeoFields,
    success: { status: 201, description: 'Created, active', schema: responseBodies.pipeCreated },
    errors: ['duplicate_pipe_name', 'workspace_full', ...withBody],
  },
  {
    ...at('getPipe'),
    area: 'management',
    versioned: 'pipe',
    summary: 'Show a pipe with its destinations, limits, allowed origins and the keys of the workspace',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 200, description: 'The pipe', schema: responseBodies.pipeDetail },
    errors: ['pipe_not_found', ...everyManaged],
  },
  {
    ...at('getPipeUsage'),
    area: 'management',
    summary: 'Show what a pipe took in and delivered, by the hour',
    description: usageFreshness,
    auth: 'key',
    boundKeys: 'its_pipe',
    parameters: [hoursParameter],
    success: { status: 200, description: 'The hours', schema: responseBodies.usageByHour },
    errors: ['pipe_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...at('updatePipe'),
    area: 'management',
    versioned: 'pipe',
    summary: 'Change, pause or resume a pipe',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: PipePatch,
    prepare: withTrimmedGeoFields,
    success: { status: 200, description: 'The pipe as it is now', schema: responseBodies.pipe },
    errors: ['changed_meanwhile', 'pipe_not_found', ...withBody],
  },
  {
    ...at('deletePipe'),
    area: 'management',
    versioned: 'pipe',
    summary: 'Delete a pipe with its destinations and everything buffered in it',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 204, description: 'Deleted' },
    errors: ['changed_meanwhile', 'pipe_not_found', ...everyManaged],
  },
] as const satisfies readonly Operation[]

export const pipeSettingOperations = [
  {
    ...at('putLimits'),
    area: 'management',
    versioned: 'pipe',
    summary: 'Set the limits of a pipe',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: PipeLimits,
    success: { status: 200, description: 'The limits as they are now', schema: responseBodies.limits },
    errors: ['changed_meanwhile', 'pipe_not_found', ...withBody],
  },
  {
    ...at('deleteLimits'),
    area: 'management',
    versioned: 'pipe',
    summary: 'Remove the limits of a pipe',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 204, description: 'The pipe has no limits' },
    errors: ['changed_meanwhile', 'pipe_not_found', ...everyManaged],
  },
  {
    ...at('addAllowedOrigin'),
    area: 'management',
    summary: 'Allow a browser origin',
    auth: 'key',
    boundKeys: 'its_pipe',
    request: OriginCreate,
    prepare: withNormalOrigin,
    success: { status: 201, description: 'Allowed', schema: responseBodies.originCreated },
    errors: ['pipe_not_found', 'duplicate_origin', 'workspace_full', ...withBody],
  },
  {
    ...at('removeAllowedOrigin'),
    area: 'management',
    summary: 'No longer allow a browser origin',
    auth: 'key',
    boundKeys: 'its_pipe',
    success: { status: 204, description: 'Removed' },
    errors: ['origin_not_found', ...everyManaged],
  },
] as const satisfies readonly Operation[]

const keyMaking =
  'A key cannot create one that may more than itself: another scope, another pipe, or for longer.'

export const apiKeyOperations = [
  {
    ...at('listApiKeys'),
    area: 'management',
    summary: 'List the API keys of the workspace, never the keys themselves',
    auth: 'key',
    boundKeys: 'its_part',
    success: {
      status: 200,
      description: `Every active key, and the ${resourceLimits.revokedApiKeysPerWorkspace} that were revoked or expired last, for ${resourceLimits.revokedApiKeyDays} days`,
      schema: responseBodies.apiKeyList,
    },
    errors: everyManaged,
  },
  {
    ...at('createApiKey'),
    area: 'management',
    summary: 'Create an API key; the whole key is shown only in this response',
    description: keyMaking,
    auth: 'key',
    boundKeys: 'its_part',
    request: ApiKeyCreate,
    success: { status: 201, description: 'Created', schema: responseBodies.apiKeyCreated },
    errors: ['duplicate_api_key_name', 'workspace_full', ...withBody],
  },
  {
    ...at('rotateApiKey'),
    area: 'management',
    summary: 'Create a key with the rights of another one, which expires after an overlap',
    description: `The new key has the scopes and pipes of the old one, and its expiry unless another is given. ${keyMaking}`,
    auth: 'key',
    boundKeys: 'its_part',
    request: ApiKeyRotate,
    success: { status: 201, description: 'Created', schema: responseBodies.apiKeyRotated },
    errors: [
      'api_key_not_found',
      'cannot_revoke_current_key',
      'duplicate_api_key_name',
      'workspace_full',
      ...withBody,
    ],
  },
  {
    ...at('purgeApiKeys'),
    area: 'management',
    summary: 'Forget the revoked and expired keys, which lists then no longer show',
    auth: 'key',
    boundKeys: 'its_part',
    success: { status: 200, description: 'How many', schema: responseBodies.apiKeysPurged },
    errors: everyManaged,
  },
  {
    ...at('revokeApiKey'),
    area: 'management',
    summary: 'Revoke an API key; it stops working before the response is sent',
    auth: 'key',
    boundKeys: 'its_part',
    success: { status: 204, description: 'Revoked' },
    errors: ['cannot_revoke_current_key', 'api_key_not_found', ...everyManaged],
  },
] as const satisfies readonly Operation[]
