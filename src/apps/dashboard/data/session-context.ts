/** The signed-in user, for all components. */
import { createContext, useContext } from 'react'
import type { CurrentSession } from '../../../contract/session.ts'

export const SessionContext = createContext<CurrentSession | null>(null)

export function useSession(): CurrentSession | null {
  return useContext(SessionContext)
}

/** Viewers read, admins change. The daemon decides; pages use this to offer only what is allowed. */
export function useMayChange(): boolean {
  return useContext(SessionContext)?.user.user_role === 'admin'
}
