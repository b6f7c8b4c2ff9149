/** The parts of an operation of /v1, and the constants that many operations share. */
import Type, { type TSchema } from 'typebox'
import type { ApiKeyScope } from './api-key.ts'
import type { ErrorCode } from './errors.ts'
import type { Method } from './operation-paths.ts'
import { resourceLimits } from './resource-limits.ts'

/** Bytes and values (nested ones included) of a request's body. */
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
/** No operation takes more. */
export const largestBodyBytes = Math.max(
  ...[smallBody, destinationBody, sampleBody, replayBody].map(({ bytes }) => bytes),
)

/**
 * A resource that has a version. The version covers its settings, not the figures that the service counts. Ids are as
 * they are in the path.
 */
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
  /** Parameters in braces; each is a UUID. */
  path: string
  /** Which module serves it. `health` is on every address; `ingest` and `pull` are on `{data_url}`. */
  area: 'management' | 'tail' | 'health' | 'ingest' | 'pull'
  summary: string
  description?: string
  /** `key`: Bearer key required. `pipe`: as the pipe says. */
  auth: 'none' | 'key' | 'pipe'
  /** The right that a signed-in user needs. Absent: `read` for GET, `manage` for everything else. */
  needs?: 'read' | 'manage'
  /**
   * The access of a key that is limited to some pipes (docs/dev/contract.md#key-scopes). `its_pipe`: the path names
   * the pipe, another one is not found; on ingest and pull it is `forbidden`. `its_part`: the response is cut to its
   * pipes. `nothing`: 403, it is about the whole workspace. `open`: it takes no key, and tells nothing of any pipe's
   * content.
   */
  boundKeys: 'its_pipe' | 'its_part' | 'nothing' | 'open'
  parameters?: readonly OperationParameter[]
  /**
   * The resource that it shows or changes as a whole: its responses have the `ETag` of that resource, and a change
   * takes `If-Match`.
   */
  versioned?: VersionedResource['kind']
  /** The JSON body, which is an object. Absent: the operation takes none. */
  request?: TSchema
  /** No body stands for an empty object. */
  isBodyOptional?: boolean
  /** Puts a body into the form that its schema is for, e.g. trims a text. Pure, and leaves what it does not know as it is. */
  prepare?: (body: Record<string, unknown>) => Record<string, unknown>
  /** The limits of its body. Absent: `smallBody`. */
  bodyLimits?: BodyLimits
  /** Further content types of the body, beside application/json. */
  requestContentTypes?: readonly string[]
  /** `contentType`: where it is not application/json. */
  success: { status: number; description: string; schema?: TSchema; contentType?: string }
  /** Further statuses that are no error of the catalogue, e.g. 204 of an empty pull. */
  otherResponses?: Readonly<Record<number, Omit<Operation['success'], 'status'>>>
  errors: readonly ErrorCode[]
}

export function needsOf({ method, needs }: Pick<Operation, 'method' | 'needs'>): 'read' | 'manage' {
  return needs ?? (method === 'GET' ? 'read' : 'manage')
}

/** The scope that a key must have (docs/dev/contract.md#key-scopes); null: the operation takes no key. */
export function scopeOf({
  area,
  method,
  auth,
}: Pick<Operation, 'area' | 'method' | 'auth'>): ApiKeyScope | null {
  if (auth === 'none') return null
  switch (area) {
    case 'ingest':
    case 'pull':
      return area
    case 'management':
    case 'tail':
      return method === 'GET' ? 'read' : 'manage'
    case 'health':
      return null
  }
}

/** Reads too: a node of a cluster answers nothing while it is cut off. */
export const everyKeyed = ['storage_unavailable', 'unauthorized', 'forbidden', 'server_error'] as const
/** The errors of a management operation, whose requests have a budget per workspace. */
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
