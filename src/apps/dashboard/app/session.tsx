/** The session. Nothing is shown before it is loaded. Open pages stay open when it ends. */
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useSyncExternalStore } from 'react'
import { currentSession } from '../data/api.ts'
import { queryClient } from '../data/query-client.ts'
import { SessionContext } from '../data/session-context.ts'
import { hasEnded, sessionEnd, setSessionEnded } from '../data/session-end.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Notice, Skeleton } from '../ui/layout.tsx'
import { FrontPage, SignInForm } from './sign-in.tsx'

export function SessionGate({ children }: { children: ReactNode }) {
  const { data: session, error } = useQuery({
    queryKey: ['session'],
    queryFn: ({ signal }) => currentSession(signal),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchInterval: ({ state }) => (state.error !== null && !hasEnded(state.error) ? 2_000 : false),
  })
  const isEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.isEnded)
  if (session === undefined) {
    if (error === null) return <FrontPage title="pipectl">{<Skeleton lines={3} />}</FrontPage>
    if (hasEnded(error)) {
      return (
        <FrontPage title="Sign in">
          <SignInForm onDone={signedIn} />
        </FrontPage>
      )
    }
    return (
      <FrontPage title="pipectl">
        <Notice kind="bad">pipectl is not responding. Retrying every 2 seconds.</Notice>
      </FrontPage>
    )
  }
  return (
    <SessionContext value={session}>
      {children}
      <Dialog title="Your session has ended" open={isEnded} top>
        <p>Sign in to continue. What you typed is kept.</p>
        <SignInForm onDone={signedIn} email={session.user.user_email} />
      </Dialog>
    </SessionContext>
  )
}

async function signedIn(): Promise<void> {
  await queryClient.fetchQuery({ queryKey: ['session'], queryFn: () => currentSession(), staleTime: 0 })
  setSessionEnded(false)
  await queryClient.invalidateQueries()
}
