/** The interface of ingest for HTTP, and its state that all requests share. One request is in accept.ts. */
import type { ErrorCode } from '../contract/errors.ts'
import { resourceLimits } from '../contract/resource-limits.ts'
import { isUuid } from '../contract/uuid.ts'
import { Acceptance, type AcceptContext, type IngestDeps } from './accept.ts'
import { checkOrigin, findPipe } from './admission.ts'
import type { IngestRequest } from './body-source.ts'
import { type HookDeps, type IncomingHook, receiveHook } from './hooks/receive.ts'
import { enrichmentPlans, openScanner } from './prepare.ts'

/** The response to GET, which says that POST is required. */
export interface IngestHint {
  message: string
  method: 'POST'
  content_type: string
  pipe_id: string
}

/** The interface of ingest for HTTP: the response of each method on the ingest path. */
export interface Ingest {
  /**
   * Calls `accepted` or `rejected` of the request once. It calls neither when the client disconnects before anything is
   * stored.
   */
  post(request: IngestRequest): void
  /** A request at the hook address of a pipe: see hooks/receive.ts. */
  hook(hook: IncomingHook): void
  /** Throws ApiError. */
  hint(pipeId: string): IngestHint
  /** OPTIONS: `allowOrigin` is null when the origin is not allowed to send. Throws ApiError for an unknown pipe. */
  preflight(pipeId: string, origin: string): { allowOrigin: string | null; keyRequired: boolean }
  /** The Origin that responses of this pipe echo, even of a paused one; null for none. */
  allowOrigin(pipeId: string, origin: string): string | null
  /** Counts, for `/metrics`, an error response on the ingest path. */
  answeredWith(code: ErrorCode): void
}

export function createIngest(deps: IngestDeps): Ingest {
  const { directory, maxRecords, maxKeys } = deps
  const context: AcceptContext = {
    ...deps,
    planOf: enrichmentPlans(),
    scanner: openScanner(resourceLimits.mainScannerBytes),
    limits: { maxRecords, maxKeys, maxValues: resourceLimits.mainThreadValues },
  }
  const hooks: HookDeps = {
    ...deps,
    post: (entry, request) => new Acceptance(context, entry, request, true).begin(),
  }
  return {
    post: (request) => {
      let acceptance: Acceptance
      try {
        acceptance = new Acceptance(context, findPipe(directory, request.pipeId), request, false)
      } catch (error) {
        request.rejected(error)
        return
      }
      acceptance.begin()
    },
    hook: (hook) => receiveHook(hook, hooks),
    hint: (pipeId) => ({
      message: 'Send records with POST and a JSON body: one object or an array of objects.',
      method: 'POST',
      content_type: 'application/json',
      pipe_id: findPipe(directory, pipeId).pipe.pipe_id,
    }),
    preflight: (pipeId, origin) => {
      const entry = findPipe(directory, pipeId)
      return {
        allowOrigin: checkOrigin(entry, origin).allowOrigin,
        keyRequired: entry.pipe.pipe_api_key_required,
      }
    },
    allowOrigin: (pipeId, origin) => {
      const entry = isUuid(pipeId) ? directory.pipe(pipeId.toLowerCase()) : undefined
      return entry === undefined ? null : checkOrigin(entry, origin).allowOrigin
    },
    answeredWith: (code) => deps.observed.failed(code),
  }
}
