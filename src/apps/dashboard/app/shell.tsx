/** The frame of every page: navigation, the signed-in user, and whether the daemon responds. */
import type { ReactNode } from 'react'
import { Link } from 'wouter'
import { readyWords } from '../../../contract/ready-words.ts'
import { useOverview } from '../data/overview.ts'
import { hasEnded } from '../data/session-end.ts'
import icon from '../favicon.svg'
import { Notice } from '../ui/layout.tsx'
import { Ago, Outside } from '../ui/text.tsx'
import { Toasts } from '../ui/toasts.tsx'
import { Keyboard } from './keyboard.tsx'
import { Navigation } from './navigation.tsx'
import { paletteEvent, paletteKeys } from './pages.ts'
import styles from './shell.module.css'
import { UserMenu } from './user-menu.tsx'

export function Shell({ children }: { children: ReactNode }) {
  return (
    <div className={styles.shell}>
      <a className={styles.skip} href="#main">
        Skip to the content
      </a>
      <header className={styles.side}>
        <Link to="/" className={styles.brand}>
          <img src={icon} alt="" />
          pipectl
        </Link>
        <button
          type="button"
          className={styles.jump}
          aria-keyshortcuts="Control+K Meta+K"
          onClick={() => dispatchEvent(new Event(paletteEvent))}
        >
          Search
          <span aria-hidden="true">{paletteKeys}</span>
        </button>
        <Navigation />
        <div className={styles.foot}>
          <UserMenu />
        </div>
      </header>
      <main className={styles.main} id="main" tabIndex={-1}>
        <Away />
        {children}
      </main>
      <Keyboard />
      <Toasts />
    </div>
  )
}

/** The daemon does not respond, or accepts no records. Forms stay as they are. */
function Away() {
  const { data: overview, error, dataUpdatedAt } = useOverview()
  if (error !== null && !hasEnded(error)) {
    return (
      <Notice kind="bad">
        pipectl is not responding. Retrying every 2 seconds.
        {overview === undefined ? null : (
          <>
            {' '}
            This page was last updated <Ago at={new Date(dataUpdatedAt).toISOString()} />. Nothing you typed
            is lost.
          </>
        )}
      </Notice>
    )
  }
  if (overview === undefined || overview.service.is_ready) return null
  return (
    <Notice kind="bad">
      No records are accepted: <Outside text={overview.service.reasons.map(readyWords).join('; ')} />
      {overview.buffer.unavailable_reason === null ? null : (
        <>
          {' ('}
          <Outside text={overview.buffer.unavailable_reason} />)
        </>
      )}
      . <Link to="/service">Open the service page</Link>
    </Notice>
  )
}
