/** Latencies and success rates in words. */
import { duration } from '../../platform/quantities.ts'

/** Milliseconds as `≤ 1 ms`, `12 ms`, `1.4 s` or `2m 5s`; `–` if nothing was measured. 0 is only on axes. */
export function latencyText(ms: number | undefined): string {
  if (ms === undefined) return '–'
  if (ms === 0) return '0'
  if (ms <= 1) return '≤ 1 ms'
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  return duration(ms / 1_000)
}

/** A share as a percentage. Only what is complete is shown as 100 %, and only nothing as 0 %. */
export function shareText(share: number | null): string {
  if (share === null) return '–'
  const hundredths = share * 10_000
  const shown = share > 0.5 ? Math.floor(hundredths + 1e-6) : Math.ceil(hundredths - 1e-6)
  return `${shown / 100} %`
}
