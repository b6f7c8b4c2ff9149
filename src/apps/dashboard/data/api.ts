/**
 * The connection of the pages to the daemon: the clients of `client/`, which send the session's CSRF token with every
 * change.
 */
import { openClient } from '../../client/client.ts'
import { openDashboardClient } from '../../client/dashboard.ts'
import { ApiFailure } from '../../client/failure.ts'
import { noticeEnd } from './session-end.ts'

const url = `${import.meta.env.BASE_URL}api`
let csrfToken = ''
const changeHeaders = (): Record<string, string> => (csrfToken === '' ? {} : { 'x-csrf-token': csrfToken })

export const api = openClient({ url, apiKey: null, changeHeaders })
export const dashboard = openDashboardClient(url, changeHeaders)

/**
 * The time between two requests of an action on many resources. A session is allowed 20 requests per second, and the
 * page needs some of them.
 */
export const sessionPaceMs = 75

/** Loads the session, and keeps its token for later changes. */
export async function currentSession(signal?: AbortSignal) {
  const session = await dashboard.session.current(signal)
  csrfToken = session.csrf_token
  return session
}

/**
 * Sends a change. If the user has signed in again in another tab, the token is different: it is loaded, and the
 * change is sent again.
 */
export async function change<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    noticeEnd(error)
    if (!(error instanceof ApiFailure) || error.code !== 'csrf_token_invalid') throw error
    await currentSession()
    return run()
  }
}

export function isNotFound(error: unknown): boolean {
  return error instanceof ApiFailure && error.status === 404
}
