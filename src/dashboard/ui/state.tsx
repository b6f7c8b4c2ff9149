/** A lane's or pipe's state, by shape and colour and word: ● flowing, ▲ retrying, ■ stuck, ○ blocked. */
import { severity } from '../../client/workspace.ts'
import type { Destination } from '../../contract/destination.ts'
import type { Pipe } from '../../contract/pipe.ts'
import styles from './state.module.css'

type Kind = 'flowing' | 'retrying' | 'stuck' | 'blocked' | 'idle'
const marks: Record<Kind, string> = { flowing: '●', retrying: '▲', stuck: '■', blocked: '○', idle: '–' }

/** What a person has to know: a lane that retries what is rejected for good is stuck, whatever its state is called. */
export function laneKind(destination: Pick<Destination, 'lane'>): Kind {
  const { lane_state: state } = destination.lane
  if (state === 'blocked' || state === 'idle') return state
  if (severity(destination) > 1) return 'stuck'
  return severity(destination) === 1 ? 'retrying' : 'flowing'
}

export function LaneState({ destination }: { destination: Pick<Destination, 'lane'> }) {
  const kind = laneKind(destination)
  const { lane_state: state, stale } = destination.lane
  const words = kind === 'stuck' && state !== 'stalled' ? 'stuck' : state
  return <Marked kind={kind}>{stale === true ? `${words} (as last saved)` : words}</Marked>
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
