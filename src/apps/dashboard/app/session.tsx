/** The session. Nothing is shown before it is loaded. Open pages stay open when it ends. */
import { useQuery } from '@tanstack/react-query'
import { lazy, type ReactNode, Suspense, useEffect, useSyncExternalStore } from 'react'
import { currentSession } from '../data/api.ts'
import { queryClient } from '../data/query-client.ts'
import { SessionContext } from '../data/session-context.ts'
import { hasEnded, sessionEnd, setSessionEnded } from '../data/session-end.ts'
import { Notice, Skeleton } from '../ui/layout.tsx'
import { FrontPage } from './front-page.tsx'
import { Guard } from './guard.tsx'

// The package of dialogs is a tenth of the first page. It is loaded once the page is there, and not when the session
// ends: after an upgrade of pipectl the server no longer has the files of this page.
const loadSessionEnded = () => import('./session-ended.tsx')
const loadAfterMs = 5_000
const SessionEnded = lazy(() => loadSessionEnded().then((module) => ({ default: module.SessionEnded })))

const SignInForm = lazy(() => import('./sign-in.tsx').then((module) => ({ default: module.SignInForm })))

export function SessionGate({ children }: { children: ReactNode }) {
  const { data: session, error } = useQuery({
    queryKey: ['session'],
    queryFn: ({ signal }) => currentSession(signal),
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
    refetchInterval: ({ state }) => (state.error !== null && !hasEnded(state.error) ? 2_000 : false),
  })
  const isEnded = useSyncExternalStore(sessionEnd.subscribe, sessionEnd.isEnded)
  useEffect(() => {
    const timer = setTimeout(() => loadSessionEnded().catch(() => {}), loadAfterMs)
    return () => clearTimeout(timer)
  }, [])
  if (session === undefined) {
    if (error === null) return <FrontPage title="pipectl">{<Skeleton lines={3} />}</FrontPage>
    if (hasEnded(error)) {
      return (
        <FrontPage title="Sign in">
          <Guard>
            <Suspense fallback={<Skeleton lines={3} />}>
              <SignInForm onDone={signedIn} />
            </Suspense>
          </Guard>
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
      {isEnded ? (
        <Guard>
          <Suspense fallback={null}>
            <SessionEnded email={session.user.user_email} onDone={signedIn} />
          </Suspense>
        </Guard>
      ) : null}
    </SessionContext>
  )
}

async function signedIn(): Promise<void> {
  await queryClient.fetchQuery({ queryKey: ['session'], queryFn: () => currentSession(), staleTime: 0 })
  setSessionEnded(false)
  await queryClient.invalidateQueries()
}
