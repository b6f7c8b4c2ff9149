import type { ApiKeyScope } from '../contract/api-key.ts'

/** Who makes a request: what routes and use cases know of the caller, however it proved who it is. */
export interface Principal {
  readonly workspaceId: string
  /** `manage` includes the others of a key. */
  readonly may: Readonly<Record<ApiKeyScope, boolean>>
  /** The pipes that its key is for; null: all. */
  readonly pipeIds: ReadonlySet<string> | null
  /** When its key ends, ms since the epoch; Infinity: it does not. */
  readonly expiresMs: number
  readonly by:
    | { readonly kind: 'key'; readonly apiKeyId: string }
    | { readonly kind: 'session'; readonly sessionId: string; readonly userId: string }
}

/** Whether that pipe is one of those it may look at and change; `pipeId` in lower case. */
export function isForPipe({ pipeIds }: Pick<Principal, 'pipeIds'>, pipeId: string): boolean {
  return pipeIds === null || pipeIds.has(pipeId)
}
