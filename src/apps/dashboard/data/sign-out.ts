/** Ends the session. */
import { dashboard } from './api.ts'

/** Reloads the page, so that nothing of this session stays in memory. */
export async function signOut(): Promise<void> {
  await dashboard.session.signOut().catch(() => {})
  location.assign(import.meta.env.BASE_URL)
}
