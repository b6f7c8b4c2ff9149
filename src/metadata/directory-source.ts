/**
 * The directory: a snapshot of metadata in memory, by pipe id, that ingest checks every request against. Each pipe is
 * replaced when management changes it. Reading it never waits.
 */
import type { KeyRights } from '../contract/api-key.ts'
import type { Pipe, PipeLimits } from '../contract/pipe.ts'
import type { Principal } from '../contract/principal.ts'
import type { OpenedSource } from '../contract/source-words.ts'

export interface DirectoryPipe {
  readonly workspaceId: string
  readonly pipe: Pipe
  readonly limits: PipeLimits | null
  /** Exact `Origin` values: scheme://host[:port], lower case. */
  readonly allowedOrigins: ReadonlySet<string>
  /** With its secrets in the clear. `unreadable`: its secrets cannot be unsealed. Null: the pipe has no source. */
  readonly source: OpenedSource | 'unreadable' | null
  /** Top-level keys that every record must have after enrichment (docs/dev/contract.md#required-fields), in a stable order. */
  readonly requiredFields: readonly string[]
}

/** An active key as metadata returns it. It may have expired. */
export interface DirectoryKey extends KeyRights {
  readonly apiKeyId: string
  readonly workspaceId: string
}

/** The source of the directory's content. Implemented by metadata. */
export interface DirectorySource {
  allPipes(): Promise<DirectoryPipe[]>
  /** Null when the pipe does not exist. */
  pipe(pipeId: string): Promise<DirectoryPipe | null>
  /** Returns every active key, by its SHA-256 (hex). */
  allKeys(): Promise<Map<string, DirectoryKey>>
  /** Returns one active key by its hash: for keys that another process created (`pipectl workspaces create`). */
  key(hash: string): Promise<DirectoryKey | null>
  /** Returns one key by its id, active or revoked. Null if there is none. */
  keyById(apiKeyId: string): Promise<(DirectoryKey & { hash: string; isActive: boolean }) | null>
}

/** A key as requests see it. */
export interface KnownKey extends Principal {
  /**
   * Set by the code that accepts a request with the key. It is collected from time to time, so that a request writes
   * nothing to metadata.
   */
  isUsed: boolean
}

export interface Directory {
  /** Returns paused pipes as well: the caller checks `pipe_status`. `pipeId` is in lower case. */
  pipe(pipeId: string): DirectoryPipe | undefined
  /** Looks a key up by its hash. An unknown hash is looked up in the source once. */
  key(hash: string): KnownKey | undefined | Promise<KnownKey | undefined>
  /** Reloads one pipe from the source. Resolves when requests see the change. */
  refreshPipe(pipeId: string): Promise<void>
  /** Reloads one key after it was created, changed or revoked. Resolves when requests see the change. */
  refreshKey(apiKeyId: string): Promise<void>
  /** Returns the ids of the keys used since the last call. */
  takeUsedKeys(): string[]
}
