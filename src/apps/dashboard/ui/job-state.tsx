/** The state of a job that runs in the background, such as a replay or a deletion. */
import { Marked, type Tone } from './state.tsx'

const tones: Readonly<Record<string, Tone>> = {
  waiting: 'none',
  running: 'good',
  done: 'good',
  cancelled: 'off',
  failed: 'bad',
}

export function isOpen({ state }: { state: string }): boolean {
  return state === 'waiting' || state === 'running'
}

export function JobState({ state, isRetrying = false }: { state: string; isRetrying?: boolean }) {
  return <Marked tone={isRetrying ? 'warn' : (tones[state] ?? 'none')}>{state}</Marked>
}

/** For a button that is about to be removed: its row, or the dialog, shows the new state. */
export function focusAround(button: HTMLElement): void {
  const part = button.closest<HTMLElement>('tr, section, [role="dialog"]')
  if (part === null || document.activeElement !== button) return
  part.tabIndex = -1
  part.focus()
}
