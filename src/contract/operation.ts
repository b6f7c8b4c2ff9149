/** The type of an operation of /v1, and constants that many operations share. */
import Type, { type TSchema } from 'typebox'
import type { ApiKeyScope } from './api-key.ts'
import type { ErrorCode } from './errors.ts'
import { at, type Method, type OperationId } from './operation-paths.ts'
import { resourceLimits } from './resource-limits.ts'

/** Limits of a request body: bytes, and values including nested ones. */
export interface BodyLimits {
  readonly bytes: number
  readonly values: number
}

export const smallBody: BodyLimits = {
  bytes: resourceLimits.managementBodyBytes,
  values: resourceLimits.managementBodyValues,
}
export const destinationBody: BodyLimits = {
  bytes: resourceLimits.destinationBodyBytes,
  values: resourceLimits.destinationBodyValues,
}
export const schemaBody: BodyLimits = {
  bytes: resourceLimits.schemaBodyBytes,
  values: resourceLimits.schemaBodyValues,
}
export const schemaSampleBody: BodyLimits = {
  bytes: resourceLimits.sampleBodyBytes,
  values: resourceLimits.schemaBodyValues,
}
export const sampleBody: BodyLimits = {
  bytes: resourceLimits.sampleBodyBytes,
  values: resourceLimits.sampleBodyValues,
}
export const replayBody: BodyLimits = {
  bytes: resourceLimits.replayBodyBytes,
  values: resourceLimits.replayBodyValues,
}
export const formBody: BodyLimits = {
  bytes: resourceLimits.formBodyBytes,
  values: resourceLimits.managementBodyValues,
}
/** The largest body limit of all operations. */
export const largestBodyBytes = Math.max(
  ...[smallBody, destinationBody, schemaBody, sampleBody, replayBody].map(({ bytes }) => bytes),
)

/** A versioned resource. The version covers its settings but not its counters. Ids have the spelling of the path. */
export type VersionedResource =
  | { kind: 'alerts'; workspaceId: string }
  | { kind: 'pipe'; workspaceId: string; pipeId: string }
  | { kind: 'destination'; workspaceId: string; pipeId: string; destinationId: string }

export interface OperationParameter {
  in: 'query' | 'header'
  name: string
  required?: boolean
  schema: TSchema
  description: string
}

export interface Operation {
  operationId: string
  method: Method
  /** With parameters in braces. Each is a UUID. */
  path: string
  /** The module that serves it. `health` is available on every address; `ingest`, `hooks` and `pull` on `{data_url}`. */
  area: 'management' | 'tail' | 'health' | 'ingest' | 'hooks' | 'pull'
  summary: string
  description?: string
  /**
   * `key`: requires a Bearer key. `pipe`: the pipe decides. `none`: no key; webhooks are verified by the source of
   * their pipe instead.
   */
  auth: 'none' | 'key' | 'pipe'
  /**
   * The right that a signed-in user needs. Default: `read` for GET, `manage` for other methods. `read` for another method: it
   * changes nothing, so a key needs only that scope too.
   */
  needs?: 'read' | 'manage'
  /**
   * The access of a key that is limited to some pipes (docs/dev/contract.md#key-scopes).
   * `its_pipe`: the path names the pipe. Another pipe gets a not-found error; ingest and pull return `forbidden`.
   * `its_part`: the response contains only its pipes.
   * `nothing`: 403, because the operation concerns the complete workspace.
   * `open`: needs no key and reveals nothing about the content of any pipe.
   */
  boundKeys: 'its_pipe' | 'its_part' | 'nothing' | 'open'
  parameters?: readonly OperationParameter[]
  /**
   * The resource that the operation shows or changes as one unit. Responses have its `ETag`; changes accept
   * `If-Match`.
   */
  versioned?: VersionedResource['kind']
  /** The schema of the JSON body, always an object. Absent: the operation takes no body. */
  request?: TSchema
  /** A missing body means an empty object. */
  isBodyOptional?: boolean
  /** Normalizes a body before validation, for example trims texts. Pure; leaves unknown fields unchanged. */
  prepare?: (body: Record<string, unknown>) => Record<string, unknown>
  /** Limits of the body. Default: `smallBody`. */
  bodyLimits?: BodyLimits
  /** Accepted content types of the body in addition to application/json. */
  requestContentTypes?: readonly string[]
  /** `contentType` is set if it is not application/json. */
  success: { status: number; description: string; schema?: TSchema; contentType?: string }
  /** Other statuses that are not errors of the catalogue, such as 204 of an empty pull. */
  otherResponses?: Readonly<Record<number, Omit<Operation['success'], 'status'>>>
  errors: readonly ErrorCode[]
}

/** The parts that all management operations share: they need a key. */
export function managed<Id extends OperationId, BoundKeys extends Operation['boundKeys']>(
  operationId: Id,
  boundKeys: BoundKeys,
) {
  return { ...at(operationId), area: 'management', auth: 'key', boundKeys } as const
}

const successOf =
  <Status extends number>(status: Status) =>
  <Schema extends TSchema>(description: string, schema: Schema) => ({ status, description, schema })
export const ok = successOf(200)
export const created = successOf(201)
export const accepted = successOf(202)
export const noContent = (description: string) => ({ status: 204, description })

export function needsOf({ method, needs }: Pick<Operation, 'method' | 'needs'>): 'read' | 'manage' {
  return needs ?? (method === 'GET' ? 'read' : 'manage')
}

/** The scope that a key needs (docs/dev/contract.md#key-scopes). Null: the operation takes no key. */
export function scopeOf({
  area,
  method,
  auth,
  needs,
}: Pick<Operation, 'area' | 'method' | 'auth' | 'needs'>): ApiKeyScope | null {
  if (auth === 'none') return null
  switch (area) {
    case 'ingest':
    case 'pull':
      return area
    case 'management':
    case 'tail':
      return method === 'GET' || needs === 'read' ? 'read' : 'manage'
    case 'health':
    case 'hooks':
      return null
  }
}

/**
 * Errors of every operation with a key. Reads can fail with `storage_unavailable` too: a node that is disconnected
 * from its cluster rejects all requests.
 */
export const everyKeyed = ['storage_unavailable', 'unauthorized', 'forbidden', 'server_error'] as const
/** Errors of every management operation. Management requests are rate-limited per workspace. */
export const everyManaged = ['too_many_requests', ...everyKeyed] as const
export const withBody = ['validation_error', 'payload_too_large', ...everyManaged] as const

export const ifMatch: OperationParameter = {
  in: 'header',
  name: 'If-Match',
  schema: Type.String(),
  description:
    'The ETag of an earlier response: the change is made only if the settings are still those, otherwise changed_meanwhile. `*` or no header: the change is made in any case.',
}

export function takesIfMatch({ method, versioned }: Pick<Operation, 'method' | 'versioned'>): boolean {
  return versioned !== undefined && method !== 'GET'
}
