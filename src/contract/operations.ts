/**
 * Every operation of /v1 as data: THE route table. The HTTP layer builds its routes from it, the OpenAPI document is
 * emitted from it, and a test asks for each operation and each of its error codes to have been seen.
 */
import type { Static, TSchema } from 'typebox'
import { alertOperations } from './alert-operations.ts'
import { auditOperations } from './audit-operations.ts'
import { healthOperations, ingestOperations, pullOperations } from './data-operations.ts'
import { destinationOperations } from './destination-operations.ts'
import { messageOperations } from './message-operations.ts'
import type { Operation } from './operation.ts'
import type { OperationId, PathParameter } from './operation-paths.ts'
import { parkedOperations } from './parked-operations.ts'
import { userOperations } from './user-operations.ts'
import { apiKeyOperations, pipeOperations, pipeSettingOperations } from './workspace-operations.ts'

/** In the order of the OpenAPI document. */
export const operations = [
  ...pipeOperations,
  ...destinationOperations,
  ...parkedOperations,
  ...pipeSettingOperations,
  ...messageOperations,
  ...apiKeyOperations,
  ...userOperations,
  ...auditOperations,
  ...alertOperations,
  ...healthOperations,
  ...ingestOperations,
  ...pullOperations,
] as const satisfies readonly Operation[]

/** The same table with every entry as the general type. */
export const operationTable: readonly Operation[] = operations

export type { OperationId } from './operation-paths.ts'

type Entry<Id extends OperationId> = Extract<(typeof operations)[number], { operationId: Id }>
/** The operations that `management/` serves: /v1/pipes… and /v1/api-keys… */
export type ManagementOperationId = Extract<
  (typeof operations)[number],
  { area: 'management' }
>['operationId']

/** The success body of an operation; null when it has none. */
export type SuccessBody<Id extends OperationId> = Entry<Id>['success'] extends {
  schema: infer Schema extends TSchema
}
  ? Static<Schema>
  : null

/** The JSON body of a request; undefined when the operation takes none. */
export type RequestBody<Id extends OperationId> =
  Entry<Id> extends { request: infer Schema extends TSchema } ? Static<Schema> : undefined

type QueryParameter<Id extends OperationId> =
  Entry<Id> extends { parameters: readonly (infer Parameter)[] }
    ? Extract<Parameter, { in: 'query'; name: string; schema: TSchema }>
    : never

/** The query parameters of an operation, as their schemas type them. Each can be left out. */
export type RequestQuery<Id extends OperationId> = {
  [Parameter in QueryParameter<Id> as Parameter['name']]?: Static<Parameter['schema']>
}

/** The path parameters of an operation, by name. */
export type RequestPath<Id extends OperationId> = Record<PathParameter<Id>, string>
