/**
 * The range of hours that the charts of a page show. It is part of the address: `?range=7d`, or a range of whole hours
 * (UTC) as `?from=2027-01-30T08&to=2027-01-30T11`, both included. Anything else is the last 24 hours.
 */
import { useMemo } from 'react'
import { useSearch } from 'wouter'
import type { usageHours } from '../../../contract/usage.ts'
import { hourMs } from '../../../platform/quantities.ts'
import { useSetParams } from './address.ts'

/** One hour alone would be empty at its beginning. */
const hoursOf: Record<string, readonly [label: string, words: string, hours: number]> = {
  '1h': ['1 h', 'of the last hour', 2],
  '24h': ['24 h', 'of the last 24 hours', 24],
  '7d': ['7 d', 'of the last 7 days', 168],
  '30d': ['30 d', 'of the last 30 days', 720],
}
/** Not imported: the schemas of that module are not part of a page. */
export const maxHours: (typeof usageHours)['max'] = 720

export interface HourRange {
  /** A key of `hourRanges`; null: from one hour to another. */
  name: string | null
  /** Follows "Records per hour". */
  words: string
  /** The parameters of the API. */
  query: Record<string, string>
}

export const hourRanges = Object.entries(hoursOf).map(([name, [label]]) => [name, label] as const)

export function useHourRange(): HourRange {
  const search = useSearch()
  return useMemo(() => rangeIn(new URLSearchParams(search)), [search])
}

/** Returns a function that sets the range in the address, which stays one step of the browser's history. */
export function useSetHourRange(): (search: Record<string, string>) => void {
  const setParams = useSetParams()
  return (search) => setParams({ range: null, from: null, to: null, ...search })
}

export function hourText(ms: number): string {
  return new Date(ms).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })
}

/** NaN for any other text. Date.parse alone takes `x:00Z` for a time in 2000. */
function hourIn(text: string | null): number {
  return /^\d{4}-\d\d-\d\dT\d\d$/.test(text ?? '') ? Date.parse(`${text}:00Z`) : Number.NaN
}

function rangeIn(search: URLSearchParams): HourRange {
  const [fromMs, toMs] = [hourIn(search.get('from')), hourIn(search.get('to'))]
  if (fromMs <= toMs) {
    const hours = Math.min(maxHours, (toMs - fromMs) / hourMs + 1)
    const endMs = toMs + hourMs
    return {
      name: null,
      words: `from ${hourText(endMs - hours * hourMs)} to ${hourText(endMs)}`,
      query: { hours: String(hours), until: new Date(toMs).toISOString() },
    }
  }
  const given = search.get('range') ?? ''
  const name = Object.hasOwn(hoursOf, given) ? given : '24h'
  const [, words, hours] = hoursOf[name]!
  return { name, words, query: { hours: String(hours) } }
}
