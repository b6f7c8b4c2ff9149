/** A lane's or pipe's state, by shape and colour and word: ● flowing, ▲ retrying, ■ failing or stuck, ○ blocked. */
import type { Destination } from '../../../contract/destination.ts'
import type { Pipe } from '../../../contract/pipe.ts'
import { severity, stateWord } from '../../client/workspace.ts'
import { useNow } from '../data/clock.ts'
import styles from './state.module.css'

type Kind = 'flowing' | 'retrying' | 'failing' | 'stuck' | 'blocked' | 'idle'
const marks: Record<Kind, string> = {
  flowing: '●',
  retrying: '▲',
  failing: '■',
  stuck: '■',
  blocked: '○',
  idle: '–',
}

/**
 * The state that a person has to know, whatever its name in the API: a lane that retries a permanently rejected
 * message is stuck, one that has retried in vain for a minute is failing.
 */
export function laneKind(destination: Pick<Destination, 'lane'>, nowMs: number): Kind {
  const word = stateWord(destination, nowMs)
  if (word === 'stalled') return 'stuck'
  return word === 'flowing' && severity(destination, nowMs) > 0 ? 'retrying' : word
}

export function LaneState({ destination }: { destination: Pick<Destination, 'lane'> }) {
  const nowMs = useNow()
  const word = stateWord(destination, nowMs)
  const isStale = destination.lane.stale === true
  return <Marked kind={laneKind(destination, nowMs)}>{isStale ? `${word} (as last saved)` : word}</Marked>
}

export function PipeStatus({ pipe }: { pipe: Pick<Pipe, 'pipe_status'> }) {
  return <Marked kind={pipe.pipe_status === 'paused' ? 'blocked' : 'flowing'}>{pipe.pipe_status}</Marked>
}

export function Marked({ kind, children }: { kind: Kind; children: string }) {
  return (
    <span className={`${styles.state} ${styles[kind]}`}>
      <span className={styles.mark} aria-hidden="true">
        {marks[kind]}
      </span>
      {children}
    </span>
  )
}
