/** The state of a lane, pipe or message as shape, color and word: ● good, ▲ warn, ■ bad, ○ off. */
import type { Destination } from '../../../contract/destination.ts'
import type { Pipe } from '../../../contract/pipe.ts'
import { type LaneWord, laneWord, type MessageState } from '../../../contract/state-words.ts'
import styles from './state.module.css'

export type Tone = 'good' | 'warn' | 'bad' | 'off' | 'none'
export const marks: Record<Tone, string> = { good: '●', warn: '▲', bad: '■', off: '○', none: '–' }

/** The states of lanes and of messages in them, the worst first. */
export const tones: Record<LaneWord | MessageState, Tone> = {
  stuck: 'bad',
  dropped: 'bad',
  blocked: 'off',
  parked: 'off',
  retrying: 'warn',
  delivering: 'good',
  delivered: 'good',
  idle: 'none',
  pending: 'none',
  skipped: 'none',
}
export const worstFirst = Object.keys(tones) as (keyof typeof tones)[]

export function LaneState({ destination }: { destination: Pick<Destination, 'lane'> }) {
  const word = laneWord(destination)
  return <Word word={word} text={destination.lane.stale === true ? `${word} (last saved state)` : word} />
}

/** `text` is shown instead of the word. */
export function Word({ word, text = word }: { word: LaneWord | MessageState; text?: string }) {
  return <Marked tone={tones[word]}>{text}</Marked>
}

export function PipeStatus({ pipe }: { pipe: Pick<Pipe, 'pipe_status'> }) {
  return <Marked tone={pipe.pipe_status === 'paused' ? 'off' : 'good'}>{pipe.pipe_status}</Marked>
}

export function Marked({ tone, children }: { tone: Tone; children: string }) {
  return (
    <span className={`${styles.state} ${styles[tone]}`}>
      <span className={styles.mark} aria-hidden="true">
        {marks[tone]}
      </span>
      {children}
    </span>
  )
}
