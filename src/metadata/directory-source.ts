/**
 * The directory: the snapshot of metadata that the hot paths read. Everything an ingest request is checked against,
 * in memory, by pipe id; replaced pipe by pipe when management changes something. Reading it never waits.
 */
import type { KeyRights } from '../contract/api-key.ts'
import type { Pipe, PipeLimits } from '../contract/pipe.ts'
import type { Principal } from '../contract/principal.ts'

export interface DirectoryPipe {
  readonly workspaceId: string
  readonly pipe: Pipe
  readonly limits: PipeLimits | null
  /** Exact `Origin` values: scheme://host[:port], lower case. */
  readonly allowedOrigins: ReadonlySet<string>
  /** Top-level keys that every record must have after enrichment (docs/dev/contract.md#required-fields), in a stable order. */
  readonly requiredFields: readonly string[]
}

/** An active key, as the source knows it; it may have expired. */
export interface DirectoryKey extends KeyRights {
  readonly apiKeyId: string
  readonly workspaceId: string
}

/** Where the directory's content comes from. Kept by metadata. */
export interface DirectorySource {
  allPipes(): Promise<DirectoryPipe[]>
  /** Null when the pipe does not exist. */
  pipe(pipeId: string): Promise<DirectoryPipe | null>
  /** SHA-256 (hex) of every active key → whose it is. */
  allKeys(): Promise<Map<string, DirectoryKey>>
  /** One active key by its hash: for keys that another process made (`pipectl workspaces create`). */
  key(hash: string): Promise<DirectoryKey | null>
  /** One key by its id, revoked or not; null when there is none. */
  keyById(apiKeyId: string): Promise<(DirectoryKey & { hash: string; isActive: boolean }) | null>
}

/** A key as requests find it. */
export interface KnownKey extends Principal {
  /** Set by whoever lets a request in: when a key was last used is looked at now and then, not at each request. */
  isUsed: boolean
}

export interface Directory {
  /** Also a paused pipe; the caller looks at `pipe_status`. `pipeId` in lower case. */
  pipe(pipeId: string): DirectoryPipe | undefined
  /** Looked up by the hash of the key; a hash not known yet is looked for in the source once. */
  key(hash: string): KnownKey | undefined | Promise<KnownKey | undefined>
  /** Reload one pipe from the source; resolves when requests see the change. */
  refreshPipe(pipeId: string): Promise<void>
  /** Reload one key, after it was made, changed or revoked; resolves when requests see the change. */
  refreshKey(apiKeyId: string): Promise<void>
  /** The ids of the keys that were used since it was asked last. */
  takeUsedKeys(): string[]
}
