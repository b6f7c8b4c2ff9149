/**
 * What ingest counts, per pipe and hour, in memory until it is flushed (contract "usage_by_pipe").
 *
 * Beside the counts it carries each pipe's running totals in the buffer: written together as a mark, they let the next
 * start see what a crash kept from being flushed. A snapshot is taken in one tick, so counts and marks always agree.
 */
import type { PipeTotals } from '../buffer/buffer.ts'
import type { IngestCounts, UsageMark } from '../metadata/store.ts'

const hourMs = 3_600_000

export interface UsageSnapshot {
  counts: IngestCounts[]
  marks: UsageMark[]
}

export interface UsageCounter {
  /** One message is in the buffer. */
  accepted(pipeId: string, records: number, bytes: number, atMs: number): void
  rejected(pipeId: string, atMs: number): void
  /** Counted and not yet flushed, for readers that want the newest; a copy. */
  pending(): IngestCounts[]
  /** Takes what is pending out. `restore` puts it back when it could not be stored. */
  take(): UsageSnapshot
  restore(snapshot: UsageSnapshot): void
}

/** `totals`: each pipe's running totals in the buffer at start, all of them counted already. */
export function createUsageCounter(totals: ReadonlyMap<string, PipeTotals>): UsageCounter {
  const running = new Map<string, PipeTotals>()
  for (const [pipeId, { messages, records, bytes }] of totals)
    running.set(pipeId, { messages, records, bytes })
  let pending = new Map<string, IngestCounts>()
  let marked = new Set<string>()

  const countsOf = (pipeId: string, hour: number): IngestCounts => {
    const key = `${pipeId}/${hour}`
    let counts = pending.get(key)
    if (counts === undefined) {
      counts = { pipeId, hourMs: hour, requests: 0, records: 0, bytes: 0, rejected: 0, lastIngestMs: null }
      pending.set(key, counts)
    }
    return counts
  }
  const totalsOf = (pipeId: string): PipeTotals => {
    let total = running.get(pipeId)
    if (total === undefined) {
      total = { messages: 0, records: 0, bytes: 0 }
      running.set(pipeId, total)
    }
    return total
  }

  return {
    accepted: (pipeId, records, bytes, atMs) => {
      const counts = countsOf(pipeId, atMs - (atMs % hourMs))
      counts.requests++
      counts.records += records
      counts.bytes += bytes
      counts.lastIngestMs = Math.max(atMs, counts.lastIngestMs ?? 0)
      const total = totalsOf(pipeId)
      total.messages++
      total.records += records
      total.bytes += bytes
      marked.add(pipeId)
    },
    rejected: (pipeId, atMs) => {
      countsOf(pipeId, atMs - (atMs % hourMs)).rejected++
    },
    pending: () => [...pending.values()].map((counts) => ({ ...counts })),
    take: () => {
      const counts = [...pending.values()]
      const marks = [...marked].map((pipeId) => ({ pipeId, ...totalsOf(pipeId) }))
      pending = new Map()
      marked = new Set()
      return { counts, marks }
    },
    restore: (snapshot) => {
      for (const lost of snapshot.counts) {
        const counts = countsOf(lost.pipeId, lost.hourMs)
        counts.requests += lost.requests
        counts.records += lost.records
        counts.bytes += lost.bytes
        counts.rejected += lost.rejected
        counts.lastIngestMs = Math.max(counts.lastIngestMs ?? 0, lost.lastIngestMs ?? 0) || null
      }
      for (const { pipeId } of snapshot.marks) marked.add(pipeId)
    },
  }
}
