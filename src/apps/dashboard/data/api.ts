/** The connection of the pages to the daemon: the clients of `client/`, with the session's CSRF token on every change. */
import { openClient } from '../../client/client.ts'
import { openDashboardClient } from '../../client/dashboard.ts'
import { ApiFailure } from '../../client/failure.ts'
import { noticeEnd } from './session-end.ts'

const url = `${import.meta.env.BASE_URL}api`
let csrfToken = ''
const changeHeaders = (): Record<string, string> => (csrfToken === '' ? {} : { 'x-csrf-token': csrfToken })

export const api = openClient({ url, apiKey: null, changeHeaders })
export const dashboard = openDashboardClient(url, changeHeaders)

/** The session, and its token kept for the changes to come. */
export async function currentSession(signal?: AbortSignal) {
  const session = await dashboard.session.current(signal)
  csrfToken = session.csrf_token
  return session
}

/**
 * Runs a change. A user who signed in again in another tab has another token: it is fetched, and the change sent once
 * more.
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
