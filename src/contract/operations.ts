/**
 * The table of all operations of /v1. The HTTP layer builds its routes from it, and the OpenAPI document is generated
 * from it. A test checks that every operation and every error code occurs in the tests.
 */
import type { Static, TSchema } from 'typebox'
import { alertOperations, auditOperations, userOperations } from './administration-operations.ts'
import { healthOperations, hookOperations, ingestOperations, pullOperations } from './data-operations.ts'
import { destinationOperations } from './destination-operations.ts'
import { messageOperations } from './message-operations.ts'
import type { Operation } from './operation.ts'
import type { OperationId, PathParameter } from './operation-paths.ts'
import { parkedOperations } from './parked-operations.ts'
import { pipeParkedOperations } from './pipe-parked-operations.ts'
import { privacyOperations } from './privacy-operations.ts'
import { queryOperations } from './query-operations.ts'
import { replayOperations } from './replay-operations.ts'
import { schemaOperations } from './schema-operations.ts'
import { apiKeyOperations, pipeOperations, pipeSettingOperations } from './workspace-operations.ts'

/** In the order of the OpenAPI document. */
export const operations = [
  ...pipeOperations,
  ...schemaOperations,
  ...destinationOperations,
  ...parkedOperations,
  ...pipeParkedOperations,
  ...replayOperations,
  ...queryOperations,
  ...pipeSettingOperations,
  ...messageOperations,
  ...apiKeyOperations,
  ...userOperations,
  ...privacyOperations,
  ...auditOperations,
  ...alertOperations,
  ...healthOperations,
  ...ingestOperations,
  ...hookOperations,
  ...pullOperations,
] as const satisfies readonly Operation[]

/** The same table, typed as the general `Operation`. */
export const operationTable: readonly Operation[] = operations

export type { OperationId } from './operation-paths.ts'

type Entry<Id extends OperationId> = Extract<(typeof operations)[number], { operationId: Id }>
/** The operations that `management/` serves: /v1/pipes…, /v1/api-keys… and others. */
export type ManagementOperationId = Extract<
  (typeof operations)[number],
  { area: 'management' }
>['operationId']

/** The type of an operation's success body; null if it has none. */
export type SuccessBody<Id extends OperationId> = Entry<Id>['success'] extends {
  schema: infer Schema extends TSchema
}
  ? Static<Schema>
  : null

/** The type of an operation's JSON body; undefined if it takes none. */
export type RequestBody<Id extends OperationId> =
  Entry<Id> extends { request: infer Schema extends TSchema } ? Static<Schema> : undefined

type QueryParameter<Id extends OperationId> =
  Entry<Id> extends { parameters: readonly (infer Parameter)[] }
    ? Extract<Parameter, { in: 'query'; name: string; schema: TSchema }>
    : never

/** The types of an operation's query parameters. All are optional. */
export type RequestQuery<Id extends OperationId> = {
  [Parameter in QueryParameter<Id> as Parameter['name']]?: Static<Parameter['schema']>
}

/** An operation's path parameters, by name. */
export type RequestPath<Id extends OperationId> = Record<PathParameter<Id>, string>
