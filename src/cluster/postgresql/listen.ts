/**
 * Notifications of the server (LISTEN) over a connection of their own. A notification is a hint that there can be
 * something new. Notifications sent without a connection are lost, so each new connection counts as a notification too.
 */
import { Waits } from '../../platform/waits.ts'
import type { Session } from './session.ts'

const reconnectMs = 1_000
/** Without probes, a half-open connection would listen forever. */
const probeEveryMs = 5_000

/** Returns a function that stops it. */
export function listenOn(
  open: () => Promise<Session>,
  channel: string,
  onNotified: () => void,
): () => Promise<void> {
  let isEnding = false
  const pauses = new Waits({
    wake(afterMs, callback) {
      const timer = setTimeout(callback, afterMs).unref()
      return () => clearTimeout(timer)
    },
  })
  /** Runs until the session is dead or its server does not respond. */
  const listen = async (session: Session) => {
    await session.listen(channel, onNotified, () => pauses.end())
    onNotified()
    while (!isEnding && !session.isDead) {
      await pauses.wait(probeEveryMs)
      if (!isEnding && !session.isDead) await session.query('SELECT 1')
    }
  }
  const run = async () => {
    while (!isEnding) {
      let session: Session | null = null
      try {
        session = await open()
        await listen(session)
      } catch {
        // Listeners also poll, and callers that need the database report that it is unavailable.
      }
      await session?.close()
      if (!isEnding) await pauses.wait(reconnectMs)
    }
  }
  const ended = run()
  return async () => {
    isEnding = true
    pauses.end()
    await ended
  }
}
