/**
 * Changes of metadata, published to everything that keeps a copy of it: the directory that requests read, the lanes of the
 * delivery thread. In a cluster they also reach the other nodes; what is promised here is about this one.
 */
export type Change =
  /** A pipe, or anything that belongs to it: destinations, limits, origins. Also its deletion. */
  | { readonly pipeId: string }
  /** This API key was made or revoked. */
  | { readonly apiKeyId: string; readonly isRevoked: boolean }

export interface Changes {
  /**
   * Call it when the change is durable. Resolves when every subscriber of this process has seen it: management sends its
   * response after that, so a revoked key has stopped working. Rejects with the first subscriber's error, once all are
   * done.
   */
  publish(change: Change): Promise<void>
  /** The listener resolves when its copy is at least as new as the change. Returns how to unsubscribe. */
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
