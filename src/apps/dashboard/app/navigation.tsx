/** The pages in the navigation. On narrow screens it is a bar at the bottom: three pages, and a button for the others. */
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Link, useLocation, useRoute } from 'wouter'
import { needsAttention } from '../../../contract/state-words.ts'
import { counted } from '../../../platform/quantities.ts'
import { useNow } from '../data/clock.ts'
import { useOverview } from '../data/overview.ts'
import { otherPages } from './pages.ts'
import styles from './shell.module.css'

export function Navigation() {
  const [place] = useLocation()
  const [openAt, setOpenAt] = useState<string | null>(null)
  const nav = useRef<HTMLElement>(null)
  // Another page closes the list.
  const isOpen = openAt === place
  const close = () => setOpenAt(null)
  useEffect(() => {
    if (!isOpen) return
    const onPress = ({ target }: Event) => {
      if (!nav.current?.contains(target as Node)) setOpenAt(null)
    }
    addEventListener('pointerdown', onPress)
    return () => removeEventListener('pointerdown', onPress)
  }, [isOpen])
  return (
    <nav
      ref={nav}
      className={styles.nav}
      aria-label="Pages"
      onKeyDown={(event) => {
        if (event.key === 'Escape') close()
      }}
    >
      <Place to="/">
        Overview
        <Troubled />
      </Place>
      <Place to="/pipes" pattern="/pipes/*?">
        Pipes
      </Place>
      <Place to="/messages" pattern="/messages/*?">
        Messages
      </Place>
      <button
        type="button"
        className={styles.moreButton}
        aria-expanded={isOpen}
        aria-controls="more-pages"
        data-current={otherPages.some(([to]) => to === place) || undefined}
        onClick={() => setOpenAt(isOpen ? null : place)}
      >
        More
      </button>
      <div id="more-pages" className={styles.more} data-open={isOpen || undefined}>
        {otherPages.map(([to, name]) => (
          <Place key={to} to={to}>
            {name}
          </Place>
        ))}
        <a href="/docs/">Guides</a>
      </div>
    </nav>
  )
}

function Place({ to, pattern = to, children }: { to: string; pattern?: string; children: ReactNode }) {
  const [isHere] = useRoute(pattern)
  return (
    <Link to={to} aria-current={isHere ? 'page' : undefined}>
      {children}
    </Link>
  )
}

/** The number of lanes that need attention. */
function Troubled() {
  const { data: overview } = useOverview()
  const nowMs = useNow()
  const lanes = overview?.pipes.flatMap((pipe) => pipe.lanes) ?? []
  const troubled = lanes.filter((lane) => needsAttention(lane, nowMs)).length
  if (troubled === 0) return null
  return (
    <span
      className={styles.count}
      title={`${counted(troubled, 'lane')} ${troubled === 1 ? 'needs' : 'need'} attention`}
    >
      ■ {troubled}
    </span>
  )
}
