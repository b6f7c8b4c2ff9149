import type { ApiKeyScope } from './api-key.ts'

/** The caller of a request as routes and use cases see it, independent of how it authenticated. */
export interface Principal {
  readonly workspaceId: string
  /** For a key, `manage` includes the other scopes. */
  readonly may: Readonly<Record<ApiKeyScope, boolean>>
  /** The pipes that its key is limited to; null: all. */
  readonly pipeIds: ReadonlySet<string> | null
  /** When its key expires, in ms since the epoch; Infinity: never. */
  readonly expiresMs: number
  readonly by:
    | { readonly kind: 'key'; readonly apiKeyId: string }
    | { readonly kind: 'session'; readonly sessionId: string; readonly userId: string }
    /** A command that runs on the data directory itself. */
    | { readonly kind: 'local'; readonly user: string }
}

/**
 * The principal of a local command. It has every right, because its user can write the files of the data directory
 * anyway. `user` is the name of the operating system's user.
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
