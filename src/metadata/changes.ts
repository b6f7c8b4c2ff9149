/**
 * Publishes changes of metadata to everything in this process that caches it: the directory that requests read, and the
 * lanes of the delivery thread. In a cluster the changes also reach the other nodes, without a promise of when.
 */
export type Change =
  /** A pipe or anything that belongs to it: destinations, limits, origins. Includes its deletion. */
  | { readonly pipeId: string }
  /** This API key was created or revoked. */
  | { readonly apiKeyId: string; readonly isRevoked: boolean }

export interface Changes {
  /**
   * Call it once the change is durable. Resolves when every subscriber of this process has seen the change. Management
   * responds only after that, so a revoked key has stopped working. Rejects with the first subscriber's error, once all
   * are done.
   */
  publish(change: Change): Promise<void>
  /** The listener resolves when its copy is at least as new as the change. Returns a function that unsubscribes. */
  subscribe(listener: (change: Change) => Promise<void>): () => void
}

/** Changes made in this process, for a metadata database that no other node writes. */
export function localChanges(): Changes {
  const listeners = new Set<(change: Change) => Promise<void>>()
  return {
    async publish(change) {
      const results = await Promise.allSettled([...listeners].map((listener) => listener(change)))
      const failed = results.find((result) => result.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    },
    subscribe(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
  }
}
