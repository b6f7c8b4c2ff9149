import type { ApiKeyScope } from './api-key.ts'

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
    /** A command on the data directory itself. */
    | { readonly kind: 'local'; readonly user: string }
}

/** Whether that pipe is one of those it may look at and change; `pipeId` in lower case. */
export function isForPipe({ pipeIds }: Pick<Principal, 'pipeIds'>, pipeId: string): boolean {
  return pipeIds === null || pipeIds.has(pipeId)
}

/**
 * The principal of a local command, which has every right: its user can write the files of the data directory anyway.
 * `user` is the operating system's user.
 */
export function localPrincipal(workspaceId: string, user: string): Principal {
  return {
    workspaceId,
    by: { kind: 'local', user },
    may: { ingest: true, pull: true, read: true, manage: true },
    pipeIds: null,
    expiresMs: Number.POSITIVE_INFINITY,
  }
}
