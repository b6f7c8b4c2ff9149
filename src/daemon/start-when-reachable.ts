/**
 * The start of a node whose servers do not answer: PostgreSQL restarts, JetStream elects, the machines of a cluster come up
 * in any order. It tries again for a while, everything closed in between, and then ends with a code that a service manager
 * takes for "again, later" (75): a node that waits in silence would look well.
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

/** `start` leaves nothing open when it throws. Throws ServersUnreachableError, and at once what waiting does not help. */
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
  // An error of JetStream, whose code is only loaded in a cluster.
  return error instanceof Error && error.name === 'StreamUnavailableError'
}
