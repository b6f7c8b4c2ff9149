/** The form for a range of whole hours, in the time zone of the browser. */
import { useState } from 'react'
import { hourMs } from '../../../platform/quantities.ts'
import { useNow } from '../data/clock.ts'
import { maxHours, useHourRange } from '../data/hour-range.ts'
import styles from './chart.module.css'
import { Button } from './controls.tsx'
import { TextField } from './fields.tsx'
import { timeZone } from './text.tsx'

/** `onRange` gets the parameters of the address; null: nothing was changed. */
export function CustomRange({ onRange }: { onRange: (search: Record<string, string> | null) => void }) {
  const nowMs = useNow()
  const { query } = useHourRange()
  const lastMs = query.until === undefined ? hourOf(nowMs) : Date.parse(query.until)
  const [from, setFrom] = useState(() => fieldText(lastMs - (Number(query.hours) - 1) * hourMs))
  const [to, setTo] = useState(() => fieldText(lastMs + hourMs))
  const [fromMs, toMs] = [hourOf(Date.parse(from)), Math.ceil(Date.parse(to) / hourMs) * hourMs]
  const error = problemOf(fromMs, toMs)
  return (
    <form
      className={styles.custom}
      onSubmit={(event) => {
        event.preventDefault()
        if (error === undefined) onRange({ from: hourName(fromMs), to: hourName(toMs - hourMs) })
      }}
    >
      <TextField label="From" type="datetime-local" step={3_600} value={from} onValue={setFrom} autoFocus />
      <TextField
        label="To"
        type="datetime-local"
        step={3_600}
        value={to}
        onValue={setTo}
        error={error}
        hint={`Whole hours, ${timeZone}. Figures are kept for ${maxHours / 24} days.`}
      />
      <div>
        <Button type="submit" look="primary">
          Show
        </Button>{' '}
        <Button onClick={() => onRange(null)}>Cancel</Button>
      </div>
    </form>
  )
}

function problemOf(fromMs: number, toMs: number): string | undefined {
  if (Number.isNaN(fromMs) || Number.isNaN(toMs)) return 'Enter both times.'
  if (fromMs >= toMs) return 'This must be later than the other time.'
  if ((toMs - fromMs) / hourMs > maxHours) return `At most ${maxHours / 24} days can be shown.`
  return undefined
}

function hourOf(ms: number): number {
  return Math.floor(ms / hourMs) * hourMs
}

function hourName(ms: number): string {
  return new Date(ms).toISOString().slice(0, 13)
}

/** The value of a field, which has no time zone. */
function fieldText(ms: number): string {
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}
