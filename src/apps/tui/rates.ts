/** The recent rates of records, for the charts of the board. Pure. */
import type { Overview } from '../../contract/overview.ts'
import { ratesBetween } from '../client/overview.ts'

/** Records per second, oldest first, by pipe id (accepted) and destination id (delivered). */
export type Rates = ReadonlyMap<string, readonly number[]>

const keptRates = 30

/** Appends one value to each rate and removes the rates of deleted pipes and lanes. */
export function nextRates(rates: Rates, before: Overview | null, now: Overview): Rates {
  const latest = before === null ? null : ratesBetween(before, now)
  const ids = now.pipes.flatMap((pipe) => [pipe.pipe_id, ...pipe.lanes.map((one) => one.destination_id)])
  const next = ids.map((id): [string, readonly number[]] => {
    const rate = latest?.byId.get(id)
    const known = rates.get(id) ?? []
    return [id, rate === undefined ? known : [...known, rate].slice(-keptRates)]
  })
  return new Map(next)
}

/** A row of small bars. The newest value is at the right; the largest one has full height. */
const bars = '▁▂▃▄▅▆▇█'

/** Exactly `width` characters. Missing values at the left are blank. */
export function sparkline(values: readonly number[], width: number): string {
  const shown = values.slice(-width)
  const top = Math.max(...shown, 0)
  const text = shown.map((value) => bars[top === 0 ? 0 : Math.ceil((value / top) * (bars.length - 1))] ?? '▁')
  return text.join('').padStart(width)
}
