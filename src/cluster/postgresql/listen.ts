/**
 * Notifications of the server (LISTEN), over a connection of their own. They are a hint that there may be something new: what
 * was sent while there was no connection is lost, so each new one is a notification too.
 */
import type { Session } from './session.ts'

const reconnectMs = 1_000
/** A half-open connection would listen for ever. */
const probeEveryMs = 5_000

/** Returns what ends it. */
export function listenOn(
  open: () => Promise<Session>,
  channel: string,
  onNotified: () => void,
): () => Promise<void> {
  let isEnding = false
  let cancelWait = () => {}
  const wait = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      timer.unref()
      cancelWait = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  /** Until the session is dead, or its server does not respond. */
  const listen = async (session: Session) => {
    await session.listen(channel, onNotified, () => cancelWait())
    onNotified()
    while (!isEnding && !session.isDead) {
      await wait(probeEveryMs)
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
        // Listeners also poll from time to time; callers that need the database report that it is away.
      }
      await session?.close()
      if (!isEnding) await wait(reconnectMs)
    }
  }
  const ended = run()
  return async () => {
    isEnding = true
    cancelWait()
    await ended
  }
}
