/** What an operation of /v1 is made of, and what many of them share. */
import type { TSchema } from 'typebox'
import type { ErrorCode } from './errors.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS'

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
  area: 'management' | 'health' | 'ingest' | 'pull'
  summary: string
  description?: string
  /** `key`: Bearer key required. `pipe`: as the pipe says. */
  auth: 'none' | 'key' | 'pipe'
  /** What the caller must be allowed to. Absent: `read` for GET, `manage` for everything else. */
  needs?: 'read' | 'manage'
  parameters?: readonly OperationParameter[]
  /** The JSON body. Absent: the operation takes none. */
  request?: TSchema
  /** Further content types of the body, beside application/json. */
  requestContentTypes?: readonly string[]
  success: { status: number; description: string; schema?: TSchema }
  /** Further statuses that are no error of the catalogue, e.g. 204 of an empty pull. */
  otherResponses?: Readonly<Record<number, { description: string; schema?: TSchema }>>
  errors: readonly ErrorCode[]
}

export function needsOf({ method, needs }: Pick<Operation, 'method' | 'needs'>): 'read' | 'manage' {
  return needs ?? (method === 'GET' ? 'read' : 'manage')
}

export const everyKeyed = ['unauthorized', 'server_error'] as const
export const everyChange = ['storage_unavailable', ...everyKeyed] as const
export const withBody = ['validation_error', 'payload_too_large', ...everyChange] as const
export const onePipe = '/v1/pipes/{pipe_id}'
export const oneDestination = `${onePipe}/destinations/{destination_id}` as const
