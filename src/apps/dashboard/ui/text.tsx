/** Shows foreign text (names, errors, records) safely, and shows times. */
import { ago, until } from '../../../platform/quantities.ts'
import { visible } from '../../client/printable.ts'
import { useNow } from '../data/clock.ts'
import { timeStyle } from '../data/time-style.ts'

/** Control characters become symbols; the text direction is isolated. */
export function Outside({ text, lines = false }: { text: string; lines?: boolean }) {
  return <bdi>{visible(text, lines)}</bdi>
}

/** The time since then, with the exact time on hover; or the exact time (`time-style.ts`). */
export function Ago({ at, never = 'never' }: { at: string | null; never?: string }) {
  const nowMs = useNow()
  if (at === null) return <span>{never}</span>
  return <Moment at={at} words={Math.abs(nowMs - Date.parse(at)) < 1_500 ? 'just now' : ago(at, nowMs)} />
}

/** The time until then. */
export function Until({ at }: { at: string }) {
  return <Moment at={at} words={until(at, useNow())} />
}

function Moment({ at, words }: { at: string; words: string }) {
  const exact = exactTime(at)
  return (
    <time dateTime={at} title={exact}>
      {timeStyle === 'absolute' ? exact : words}
    </time>
  )
}

/** The time zone of the browser, such as `Europe/Paris`. */
export const { timeZone } = Intl.DateTimeFormat().resolvedOptions()

export function exactTime(at: string): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' })
}
