/**
 * The counts of ingest per pipe and hour (docs/dev/contract.md#usage): in memory, carried into metadata's hourly
 * roll-ups every few seconds and at shutdown.
 *
 * Together with the counts it carries each pipe's running totals in the buffer: written together as a mark, they let
 * the next start recover the counts that a crash kept from being flushed. A snapshot is taken in one tick, so counts
 * and marks always agree.
 *
 * The totals that this process has ingested, for `/metrics`: counted on the way to the usage counter, never stored.
 * Per pipe, and within it per worker: threads of ingest are numbered from 0, and main is number 0 if there are none.
 */
import type { Backlog } from '../log/buffer.ts'
import type { Directory } from '../metadata/directory-source.ts'
import type { IngestCounts, Metadata, UsageMark } from '../metadata/store.ts'
import type { Logger } from '../platform/log.ts'
import { hourMs } from '../platform/quantities.ts'
import { SerialQueue } from '../platform/serial-queue.ts'

export interface UsageSnapshot {
  counts: IngestCounts[]
  marks: UsageMark[]
}

export interface UsageCounter {
  /** One message, or several of one hour, are in the buffer. */
  accepted(pipeId: string, records: number, bytes: number, atMs: number, messages?: number): void
  rejected(pipeId: string, atMs: number): void
  /** Counted and not yet flushed, for readers that want the newest; a copy. */
  pending(): IngestCounts[]
  /** Takes what is pending out. `restore` puts it back when it could not be stored. */
  take(): UsageSnapshot
  restore(snapshot: UsageSnapshot): void
  /** Forgets the pipes that are no longer there. */
  forget(isPipe: (pipeId: string) => boolean): void
}

/**
 * `totals`: each pipe's running totals in the buffer at start, all of them counted already. Null: in a cluster, where the owner of
 * a pipe counts what is accepted from the log (cluster/log-usage.ts); here remain when, and what was rejected.
 */
export function createUsageCounter(totals: ReadonlyMap<string, Backlog> | null): UsageCounter {
  const running = new Map<string, Backlog>()
  for (const [pipeId, { messages, records, bytes }] of totals ?? [])
    running.set(pipeId, { messages, records, bytes })
  let pending = new Map<string, IngestCounts>()
  let marked = new Set<string>()

  /** The counts of each pipe's latest hour: nearly every request adds to them. */
  let latest = new Map<string, IngestCounts>()

  const countsOf = (pipeId: string, hour: number): IngestCounts => {
    const found = latest.get(pipeId)
    if (found?.hourMs === hour) return found
    const key = `${pipeId}/${hour}`
    let counts = pending.get(key)
    if (counts === undefined) {
      counts = { pipeId, hourMs: hour, requests: 0, records: 0, bytes: 0, rejected: 0, lastIngestMs: null }
      pending.set(key, counts)
    }
    latest.set(pipeId, counts)
    return counts
  }
  const totalsOf = (pipeId: string): Backlog => {
    let total = running.get(pipeId)
    if (total === undefined) {
      total = { messages: 0, records: 0, bytes: 0 }
      running.set(pipeId, total)
    }
    return total
  }

  return {
    accepted: (pipeId, records, bytes, atMs, messages = 1) => {
      const counts = countsOf(pipeId, atMs - (atMs % hourMs))
      counts.lastIngestMs = Math.max(atMs, counts.lastIngestMs ?? 0)
      if (totals === null) return
      counts.requests += messages
      counts.records += records
      counts.bytes += bytes
      const total = totalsOf(pipeId)
      total.messages += messages
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
      latest = new Map()
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
    forget: (isPipe) => {
      for (const pipeId of running.keys()) if (!isPipe(pipeId)) running.delete(pipeId)
    },
  }
}

export interface UsageFlushOptions {
  counter: UsageCounter
  usage: Metadata['usage']
  directory: Directory
  log: Logger
  everyMs?: number
}

export interface UsageFlush {
  /** Resolves when all that was counted before the call is stored. Rejects when it could not be; it is kept then. */
  flush(): Promise<void>
  /** Last flush included. */
  close(): Promise<void>
}

export function startUsageFlush(options: UsageFlushOptions): UsageFlush {
  const { counter, usage, directory, log, everyMs = 5000 } = options
  // One after the other: two flushes at once could store the older marks last.
  const queue = new SerialQueue()

  const flushOnce = async () => {
    const snapshot = counter.take()
    const known = ofKnownPipes(snapshot, directory)
    if (known.counts.length === 0) return
    try {
      await usage.addIngest(known.counts, known.marks)
    } catch (error) {
      counter.restore(known)
      throw error
    }
  }
  const flush = () => queue.run(flushOnce)
  const timer = setInterval(() => {
    flush().catch((error) => log.error({ reason: String(error) }, 'usage.flush_failed'))
  }, everyMs)
  timer.unref()

  return {
    flush,
    close: () => {
      clearInterval(timer)
      return flush()
    },
  }
}

/** A pipe deleted meanwhile has no roll-ups; its counts must not keep the others from being stored. */
function ofKnownPipes(snapshot: UsageSnapshot, directory: Directory): UsageSnapshot {
  const isKnown = ({ pipeId }: { pipeId: string }) => directory.pipe(pipeId) !== undefined
  return { counts: snapshot.counts.filter(isKnown), marks: snapshot.marks.filter(isKnown) }
}

/**
 * At start, before anything is accepted: what the buffer holds and the roll-ups do not, for the current hour; to be added
 * like any other count.
 */
export async function missedUsage(
  usage: Metadata['usage'],
  totals: ReadonlyMap<string, Backlog>,
  directory: Directory,
  nowMs: number,
): Promise<UsageSnapshot> {
  const marked = new Map((await usage.marks()).map((mark) => [mark.pipeId, mark]))
  const counts: IngestCounts[] = []
  const marks: UsageMark[] = []
  for (const [pipeId, { messages, records, bytes }] of totals) {
    const mark = marked.get(pipeId)
    if (directory.pipe(pipeId) === undefined || mark?.messages === messages) continue
    // Fewer than marked (a buffer that was put back from elsewhere): nothing to add, and the mark follows.
    counts.push({
      pipeId,
      hourMs: nowMs - (nowMs % hourMs),
      requests: Math.max(0, messages - (mark?.messages ?? 0)),
      records: Math.max(0, records - (mark?.records ?? 0)),
      bytes: Math.max(0, bytes - (mark?.bytes ?? 0)),
      rejected: 0,
      lastIngestMs: null,
    })
    marks.push({ pipeId, messages, records, bytes })
  }
  return { counts, marks }
}

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
