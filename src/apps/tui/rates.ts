/** How fast records have moved, for the charts of the board. Pure. */
import type { Overview } from '../../contract/overview.ts'
import { ratesBetween } from '../client/overview.ts'

/** Records per second, oldest first, by pipe id (taken in) and destination id (delivered). */
export type Rates = ReadonlyMap<string, readonly number[]>

const keptRates = 30

/** The rates with one more value each; without those of pipes and lanes that are gone. */
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
