/**
 * Starts a node whose servers are not reachable yet: PostgreSQL restarts, JetStream elects a leader, or the machines
 * of a cluster boot in any order. It retries for a limited time and closes everything between the tries. Then the
 * process ends with code 75, which service managers treat as "retry later". A node that waited without an end would
 * look healthy.
 */
import { BufferUnavailableError } from '../log/buffer.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { Logger } from '../platform/log.ts'

const retryMs = 1_000
export const longestWaitMs = 30_000

/** The servers of the cluster could not be used. */
export class ServersUnreachableError extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause })
    this.name = 'ServersUnreachableError'
  }
}

/**
 * `start` must leave nothing open when it throws. Throws ServersUnreachableError, and immediately any error that
 * waiting cannot solve.
 */
export async function startWhenReachable<T>(
  start: () => Promise<T>,
  log: Logger,
  forMs = longestWaitMs,
): Promise<T> {
  const startedAt = performance.now()
  let said = ''
  for (;;) {
    try {
      return await start()
    } catch (error) {
      if (!isForServers(error)) throw error
      if (performance.now() - startedAt > forMs) throw new ServersUnreachableError(error)
      if (error.message !== said) log.warn({ reason: error.message }, 'daemon.waiting_for_servers')
      said = error.message
      await new Promise((resolve) => setTimeout(resolve, retryMs))
    }
  }
}

function isForServers(error: unknown): error is Error {
  if (error instanceof StorageUnavailableError || error instanceof BufferUnavailableError) return true
  // A JetStream error, recognized by its name because its code is loaded only in a cluster.
  return error instanceof Error && error.name === 'StreamUnavailableError'
}
