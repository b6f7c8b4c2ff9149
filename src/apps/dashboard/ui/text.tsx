/** Shows foreign text (names, errors, records) safely, and shows times. */
import { ago, until } from '../../../platform/quantities.ts'
import { visible } from '../../client/printable.ts'
import { useNow } from '../data/clock.ts'

/** Control characters become symbols; the text direction is isolated. */
export function Outside({ text, lines = false }: { text: string; lines?: boolean }) {
  return <bdi>{visible(text, lines)}</bdi>
}

/** The time since then, with the exact time on hover. */
export function Ago({ at, never = 'never' }: { at: string | null; never?: string }) {
  const nowMs = useNow()
  if (at === null) return <span>{never}</span>
  return (
    <time dateTime={at} title={exactTime(at)}>
      {Math.abs(nowMs - Date.parse(at)) < 1_500 ? 'just now' : ago(at, nowMs)}
    </time>
  )
}

/** The time until then. */
export function Until({ at }: { at: string }) {
  return (
    <time dateTime={at} title={exactTime(at)}>
      {until(at, useNow())}
    </time>
  )
}

export function exactTime(at: string): string {
  return new Date(at).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' })
}
