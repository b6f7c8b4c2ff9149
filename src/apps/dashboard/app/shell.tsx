/** The frame of every page: navigation, the signed-in user, and whether the daemon responds. */
import type { ReactNode } from 'react'
import { Link, useRoute } from 'wouter'
import { readyWords } from '../../../contract/ready-words.ts'
import { needsAttention } from '../../../contract/state-words.ts'
import { counted } from '../../../platform/quantities.ts'
import { useNow } from '../data/clock.ts'
import { useOverview } from '../data/overview.ts'
import { hasEnded } from '../data/session-end.ts'
import icon from '../favicon.svg'
import { Notice } from '../ui/layout.tsx'
import { Ago, Outside } from '../ui/text.tsx'
import { Toasts } from '../ui/toasts.tsx'
import { Keyboard } from './keyboard.tsx'
import styles from './shell.module.css'
import { UserMenu } from './user-menu.tsx'

export function Shell({ children }: { children: ReactNode }) {
  const { data: overview } = useOverview()
  const nowMs = useNow()
  const lanes = overview?.pipes.flatMap((pipe) => pipe.lanes) ?? []
  const troubled = lanes.filter((lane) => needsAttention(lane, nowMs)).length
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
        <nav className={styles.nav} aria-label="Pages">
          <Place to="/" pattern="/">
            Overview
            {troubled === 0 ? null : (
              <span
                className={styles.count}
                title={`${counted(troubled, 'lane')} ${troubled === 1 ? 'needs' : 'need'} attention`}
              >
                ■ {troubled}
              </span>
            )}
          </Place>
          <Place to="/pipes" pattern="/pipes/*?">
            Pipes
          </Place>
          <Place to="/messages" pattern="/messages/*?">
            Messages
          </Place>
          <Place to="/keys" pattern="/keys">
            API keys
          </Place>
          <Place to="/users" pattern="/users">
            Users
          </Place>
          <Place to="/audit" pattern="/audit">
            Audit
          </Place>
          <Place to="/alerts" pattern="/alerts">
            Alerts
          </Place>
          <Place to="/service" pattern="/service">
            Service
          </Place>
          <Place to="/reference" pattern="/reference">
            API reference
          </Place>
          <a href="/docs/">Guides</a>
        </nav>
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

function Place({ to, pattern, children }: { to: string; pattern: string; children: ReactNode }) {
  const [isHere] = useRoute(pattern)
  return (
    <Link to={to} aria-current={isHere ? 'page' : undefined}>
      {children}
    </Link>
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
