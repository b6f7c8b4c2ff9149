/** Operations on pipes, their settings, and the keys of the workspace. `management/` serves them. */
import Type from 'typebox'
import { ApiKeyCreate, ApiKeyRotate } from './api-key.ts'
import {
  created,
  everyManaged,
  managed,
  noContent,
  type Operation,
  ok,
  schemaBody,
  withBody,
} from './operation.ts'
import { Overview, sinceParameter } from './overview.ts'
import {
  OriginCreate,
  PipeCreate,
  PipeLimits,
  PipePatch,
  withNormalOrigin,
  withTrimmedGeoFields,
} from './pipe.ts'
import { SchemaVersions } from './pipe-schema.ts'
import { resourceLimits } from './resource-limits.ts'
import { responseBodies } from './responses.ts'
import { schemaLimits } from './schema-words.ts'
import { hoursParameter, PipeUsageByHour, UsageByHour, untilParameter, usageFreshness } from './usage.ts'

export const pipeOperations = [
  {
    ...managed('getOverview', 'its_part'),
    summary: 'Show every pipe and lane, the buffer and the service at one moment, for clients that poll',
    parameters: [sinceParameter],
    success: ok('The overview', Overview),
    errors: everyManaged,
  },
  {
    ...managed('getUsage', 'its_part'),
    summary: 'Show what all pipes of the workspace accepted and delivered in each hour',
    description: usageFreshness,
    parameters: [hoursParameter, untilParameter],
    success: ok('The hours', UsageByHour),
    errors: ['validation_error', ...everyManaged],
  },
  {
    ...managed('listPipes', 'its_part'),
    summary: 'List the pipes of the workspace with their usage of the last 24 hours',
    success: ok('All pipes', responseBodies.pipeList),
    errors: everyManaged,
  },
  {
    ...managed('createPipe', 'nothing'),
    summary: 'Create a pipe',
    request: PipeCreate,
    prepare: withTrimmedGeoFields,
    bodyLimits: schemaBody,
    success: created('Created, active', responseBodies.pipeCreated),
    errors: ['duplicate_pipe_name', 'workspace_full', ...withBody],
  },
  {
    ...managed('getPipe', 'its_pipe'),
    versioned: 'pipe',
    summary: 'Show a pipe with its destinations, limits, allowed origins and the keys of the workspace',
    success: ok('The pipe', responseBodies.pipeDetail),
    errors: ['pipe_not_found', ...everyManaged],
  },
  {
    ...managed('getPipeUsage', 'its_pipe'),
    summary: 'Show what a pipe accepted and delivered in each hour',
    description: usageFreshness,
    parameters: [hoursParameter, untilParameter],
    success: ok('The hours', PipeUsageByHour),
    errors: ['pipe_not_found', 'validation_error', ...everyManaged],
  },
  {
    ...managed('getSchemaTypes', 'its_pipe'),
    summary: 'Show the schema of a pipe as TypeScript types',
    description:
      'A module with a type for a record and one for each of `$defs`. Rules that types cannot express are left out. Without a schema, the type is that of any JSON object.',
    success: { ...ok('The module', Type.String()), contentType: 'text/plain' },
    errors: ['pipe_not_found', ...everyManaged],
  },
  {
    ...managed('listSchemaVersions', 'its_pipe'),
    summary: 'List the last versions of the schema of a pipe',
    success: ok(`The last ${schemaLimits.versions} versions, newest first`, SchemaVersions),
    errors: ['pipe_not_found', ...everyManaged],
  },
  {
    ...managed('updatePipe', 'its_pipe'),
    versioned: 'pipe',
    summary: 'Change, pause or resume a pipe',
    request: PipePatch,
    prepare: withTrimmedGeoFields,
    bodyLimits: schemaBody,
    success: ok('The changed pipe', responseBodies.pipe),
    errors: ['changed_meanwhile', 'pipe_not_found', 'workspace_full', ...withBody],
  },
  {
    ...managed('deletePipe', 'its_pipe'),
    versioned: 'pipe',
    summary: 'Delete a pipe with its destinations and everything buffered in it',
    success: noContent('Deleted'),
    errors: ['changed_meanwhile', 'pipe_not_found', ...everyManaged],
  },
] as const satisfies readonly Operation[]

export const pipeSettingOperations = [
  {
    ...managed('putLimits', 'its_pipe'),
    versioned: 'pipe',
    summary: 'Set the limits of a pipe',
    request: PipeLimits,
    success: ok('The new limits', responseBodies.limits),
    errors: ['changed_meanwhile', 'pipe_not_found', ...withBody],
  },
  {
    ...managed('deleteLimits', 'its_pipe'),
    versioned: 'pipe',
    summary: 'Remove the limits of a pipe',
    success: noContent('The pipe has no limits'),
    errors: ['changed_meanwhile', 'pipe_not_found', ...everyManaged],
  },
  {
    ...managed('addAllowedOrigin', 'its_pipe'),
    summary: 'Allow a browser origin',
    request: OriginCreate,
    prepare: withNormalOrigin,
    success: created('Allowed', responseBodies.originCreated),
    errors: ['pipe_not_found', 'duplicate_origin', 'workspace_full', ...withBody],
  },
  {
    ...managed('removeAllowedOrigin', 'its_pipe'),
    summary: 'Remove an allowed browser origin',
    success: noContent('Removed'),
    errors: ['origin_not_found', ...everyManaged],
  },
] as const satisfies readonly Operation[]

const keyMaking =
  'A key cannot create a key with more rights than its own: another scope, another pipe, or a later expiry.'

export const apiKeyOperations = [
  {
    ...managed('listApiKeys', 'its_part'),
    summary: 'List the API keys of the workspace, never the keys themselves',
    success: ok(
      `Every active key, and the last ${resourceLimits.revokedApiKeysPerWorkspace} revoked or expired ones, for ${resourceLimits.revokedApiKeyDays} days`,
      responseBodies.apiKeyList,
    ),
    errors: everyManaged,
  },
  {
    ...managed('createApiKey', 'its_part'),
    summary: 'Create an API key; the complete key is shown only in this response',
    description: keyMaking,
    request: ApiKeyCreate,
    success: created('Created', responseBodies.apiKeyCreated),
    errors: ['duplicate_api_key_name', 'workspace_full', ...withBody],
  },
  {
    ...managed('rotateApiKey', 'its_part'),
    summary: 'Create a key with the rights of another key, and let that one expire after an overlap',
    description: `The new key has the scopes and pipes of the old one, and the same expiry unless you set another. ${keyMaking}`,
    request: ApiKeyRotate,
    success: created('Created', responseBodies.apiKeyRotated),
    errors: [
      'api_key_not_found',
      'cannot_revoke_current_key',
      'duplicate_api_key_name',
      'workspace_full',
      ...withBody,
    ],
  },
  {
    ...managed('purgeApiKeys', 'its_part'),
    summary: 'Remove the revoked and expired keys from the list',
    success: ok('The number of removed keys', responseBodies.apiKeysPurged),
    errors: everyManaged,
  },
  {
    ...managed('revokeApiKey', 'its_part'),
    summary: 'Revoke an API key; it stops working before the response is sent',
    success: noContent('Revoked'),
    errors: ['cannot_revoke_current_key', 'api_key_not_found', ...everyManaged],
  },
] as const satisfies readonly Operation[]
