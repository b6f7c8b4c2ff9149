/**
 * The totals that this process has ingested, for `/metrics`: counted on the way to the usage counter, never stored.
 * Per pipe, and within it per worker: threads of ingest are numbered from 0, and main is number 0 if there are none.
 */
import type { UsageCounter } from './usage.ts'

export interface PipeTotals {
  requests: number
  records: number
  bytes: number
  rejected: number
}

export interface IngestTotals {
  /** The same counter, whose counts are added here too, as those of one worker. */
  observe(counter: UsageCounter, worker?: number): UsageCounter
  /** By pipe, then by worker. Forgets the pipes that are no longer there. */
  ofPipes(isPipe: (pipeId: string) => boolean): ReadonlyMap<string, ReadonlyMap<number, Readonly<PipeTotals>>>
}

export function createIngestTotals(): IngestTotals {
  const byPipe = new Map<string, Map<number, PipeTotals>>()
  const totalsOf = (pipeId: string, worker: number) => {
    let byWorker = byPipe.get(pipeId)
    if (byWorker === undefined) {
      byWorker = new Map()
      byPipe.set(pipeId, byWorker)
    }
    let totals = byWorker.get(worker)
    if (totals === undefined) {
      totals = { requests: 0, records: 0, bytes: 0, rejected: 0 }
      byWorker.set(worker, totals)
    }
    return totals
  }
  return {
    observe: (counter, worker = 0) => ({
      ...counter,
      accepted: (pipeId, records, bytes, atMs, messages = 1) => {
        const totals = totalsOf(pipeId, worker)
        totals.requests += messages
        totals.records += records
        totals.bytes += bytes
        counter.accepted(pipeId, records, bytes, atMs, messages)
      },
      rejected: (pipeId, atMs) => {
        totalsOf(pipeId, worker).rejected++
        counter.rejected(pipeId, atMs)
      },
    }),
    ofPipes: (isPipe) => {
      for (const pipeId of byPipe.keys()) if (!isPipe(pipeId)) byPipe.delete(pipeId)
      return byPipe
    },
  }
}
