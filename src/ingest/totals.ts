/** What this process has ingested, for `/metrics`: counted on the way to the usage counter, never stored. */
import type { UsageCounter } from './usage.ts'

export interface PipeTotals {
  requests: number
  records: number
  bytes: number
  rejected: number
}

/** What this process has ingested, per pipe. */
export interface IngestTotals {
  /** The same counter, whose counts are added here too. */
  observe(counter: UsageCounter): UsageCounter
  /** Forgets the pipes that are no longer there. */
  ofPipes(isPipe: (pipeId: string) => boolean): ReadonlyMap<string, Readonly<PipeTotals>>
}

export function createIngestTotals(): IngestTotals {
  const byPipe = new Map<string, PipeTotals>()
  const totalsOf = (pipeId: string) => {
    let totals = byPipe.get(pipeId)
    if (totals === undefined) {
      totals = { requests: 0, records: 0, bytes: 0, rejected: 0 }
      byPipe.set(pipeId, totals)
    }
    return totals
  }
  return {
    observe: (counter) => ({
      ...counter,
      accepted: (pipeId, records, bytes, atMs, messages = 1) => {
        const totals = totalsOf(pipeId)
        totals.requests += messages
        totals.records += records
        totals.bytes += bytes
        counter.accepted(pipeId, records, bytes, atMs, messages)
      },
      rejected: (pipeId, atMs) => {
        totalsOf(pipeId).rejected++
        counter.rejected(pipeId, atMs)
      },
    }),
    ofPipes: (isPipe) => {
      for (const pipeId of byPipe.keys()) if (!isPipe(pipeId)) byPipe.delete(pipeId)
      return byPipe
    },
  }
}
