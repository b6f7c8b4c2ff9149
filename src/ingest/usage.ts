/**
 * Counts ingest per pipe and hour (docs/dev/contract.md#usage): in memory, flushed into metadata's hourly roll-ups
 * every few seconds and at shutdown.
 *
 * Each flush also stores the pipe's running totals in the buffer as a mark. With it, the next start recovers counts
 * that were not flushed before a crash. A snapshot is taken synchronously, so counts and marks always agree.
 *
 * The totals for `/metrics` are counted separately and never stored, per pipe and worker. Ingest threads are numbered
 * from 0; without them, main is number 0.
 */
import { addMismatches, type Mismatches } from '../contract/schema-words.ts'
import { addRejectedHooks, type HookRefusal, type RejectedHooks } from '../contract/source-words.ts'
import type { Backlog } from '../log/buffer.ts'
import type { Directory } from '../metadata/directory-source.ts'
import type { Metadata } from '../metadata/store.ts'
import type { IngestCounts, UsageMark } from '../metadata/usage.ts'
import type { Logger } from '../platform/log.ts'
import { hourMs } from '../platform/quantities.ts'
import { SerialQueue } from '../platform/serial-queue.ts'

export interface UsageSnapshot {
  counts: IngestCounts[]
  marks: UsageMark[]
}

export class UsageCounter {
  /** Each pipe's running totals in the buffer; null in a cluster: see the constructor. */
  readonly #running: Map<string, Backlog> | null
  #pending = new Map<string, IngestCounts>()
  /** The counts of each pipe's latest hour, which nearly every request updates. */
  #latest = new Map<string, IngestCounts>()
  #marked = new Set<string>()

  /**
   * `totals`: each pipe's running totals in the buffer at the start, all of them already counted. Null in a cluster,
   * where the owner of a pipe counts accepted messages from the log (cluster/log-usage.ts); then only the time of the
   * last message and rejections are counted here.
   */
  constructor(totals: ReadonlyMap<string, Backlog> | null) {
    this.#running = totals && new Map([...totals].map(([pipeId, total]) => [pipeId, { ...total }]))
  }

  /** One message, or several received in the same hour, are in the buffer. */
  accepted(pipeId: string, atMs: number, { messages, records, bytes }: Backlog): void {
    const counts = this.#countsOf(pipeId, atMs - (atMs % hourMs))
    counts.lastIngestMs = Math.max(atMs, counts.lastIngestMs ?? 0)
    if (this.#running === null) return
    counts.requests += messages
    counts.records += records
    counts.bytes += bytes
    const total = totalOf(this.#running, pipeId)
    total.messages += messages
    total.records += records
    total.bytes += bytes
    this.#marked.add(pipeId)
  }

  /** `hook`: why a webhook was rejected. */
  rejected(pipeId: string, atMs: number, hook: HookRefusal | null = null): void {
    const counts = this.#countsOf(pipeId, atMs - (atMs % hourMs))
    counts.rejected++
    if (hook === null) return
    counts.rejectedHooks ??= {}
    addRejectedHooks(counts.rejectedHooks, { [hook]: 1 })
  }

  /** Records that did not match the schema of the pipe. */
  mismatched(pipeId: string, atMs: number, added: Mismatches): void {
    const counts = this.#countsOf(pipeId, atMs - (atMs % hourMs))
    counts.mismatches ??= {}
    addMismatches(counts.mismatches, added)
  }

  /** A copy of the counts that are not flushed yet. */
  pending(): IngestCounts[] {
    return [...this.#pending.values()].map(({ rejectedHooks, mismatches, ...counts }) => ({
      ...counts,
      ...(rejectedHooks && { rejectedHooks: { ...rejectedHooks } }),
      ...(mismatches && { mismatches: { ...mismatches } }),
    }))
  }

  /** Takes the pending counts. `restore` returns them when they could not be stored. */
  take(): UsageSnapshot {
    const running = this.#running ?? new Map()
    const counts = [...this.#pending.values()]
    const marks = [...this.#marked].map((pipeId) => ({ pipeId, ...totalOf(running, pipeId) }))
    this.#pending = new Map()
    this.#latest = new Map()
    this.#marked = new Set()
    return { counts, marks }
  }

  restore(snapshot: UsageSnapshot): void {
    for (const lost of snapshot.counts) {
      const counts = this.#countsOf(lost.pipeId, lost.hourMs)
      counts.requests += lost.requests
      counts.records += lost.records
      counts.bytes += lost.bytes
      counts.rejected += lost.rejected
      if (lost.rejectedHooks !== undefined) {
        counts.rejectedHooks ??= {}
        addRejectedHooks(counts.rejectedHooks, lost.rejectedHooks)
      }
      if (lost.mismatches !== undefined) {
        counts.mismatches ??= {}
        addMismatches(counts.mismatches, lost.mismatches)
      }
      counts.lastIngestMs = Math.max(counts.lastIngestMs ?? 0, lost.lastIngestMs ?? 0) || null
    }
    for (const { pipeId } of snapshot.marks) this.#marked.add(pipeId)
  }

  /** Forgets pipes that no longer exist. */
  forget(isPipe: (pipeId: string) => boolean): void {
    for (const pipeId of this.#running?.keys() ?? []) if (!isPipe(pipeId)) this.#running?.delete(pipeId)
  }

  #countsOf(pipeId: string, hour: number): IngestCounts {
    const latest = this.#latest.get(pipeId)
    if (latest?.hourMs === hour) return latest
    const key = `${pipeId}/${hour}`
    let counts = this.#pending.get(key)
    if (counts === undefined) {
      counts = { pipeId, hourMs: hour, requests: 0, records: 0, bytes: 0, rejected: 0, lastIngestMs: null }
      this.#pending.set(key, counts)
    }
    this.#latest.set(pipeId, counts)
    return counts
  }
}

function totalOf(running: Map<string, Backlog>, pipeId: string): Backlog {
  let total = running.get(pipeId)
  if (total === undefined) {
    total = { messages: 0, records: 0, bytes: 0 }
    running.set(pipeId, total)
  }
  return total
}

export interface UsageFlushOptions {
  counter: UsageCounter
  usage: Metadata['usage']
  directory: Directory
  log: Logger
  everyMs?: number
}

export interface UsageFlush {
  /** Resolves when everything counted before the call is stored. Rejects when it could not be; the counts are kept. */
  flush(): Promise<void>
  /** Flushes and stops. */
  close(): Promise<void>
}

export function startUsageFlush(options: UsageFlushOptions): UsageFlush {
  const { counter, usage, directory, log, everyMs = 5000 } = options
  // Serial, because of two concurrent flushes the older marks could be stored last.
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
    flush().catch((error) => log.warn({ err: error }, 'usage.flush_failed'))
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

/** Leaves out deleted pipes, which have no roll-ups and would make the whole flush fail. */
function ofKnownPipes(snapshot: UsageSnapshot, directory: Directory): UsageSnapshot {
  const isKnown = ({ pipeId }: { pipeId: string }) => directory.pipe(pipeId) !== undefined
  return { counts: snapshot.counts.filter(isKnown), marks: snapshot.marks.filter(isKnown) }
}

/**
 * Called at the start, before anything is accepted. Returns messages of the current hour that are in the buffer but not
 * in the roll-ups, to be added like other counts.
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
    // Fewer than the mark (the buffer was replaced): there is nothing to add, and the mark is corrected.
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
  /** Webhooks that were rejected, by reason. They are in `rejected` as well. */
  rejectedHooks: RejectedHooks
  /** Records that did not match the schema, by result. */
  mismatches: Mismatches
}

/** Counts requests as they are accepted or rejected. */
export type UsageObserver = Pick<UsageCounter, 'accepted' | 'rejected' | 'mismatched'>

export class IngestTotals {
  readonly #byPipe = new Map<string, Map<number, PipeTotals>>()

  /** Wraps the counter and also counts for one worker. */
  observe(counter: UsageObserver, worker = 0): UsageObserver {
    return {
      accepted: (pipeId, atMs, added) => {
        const totals = this.#totalsOf(pipeId, worker)
        totals.requests += added.messages
        totals.records += added.records
        totals.bytes += added.bytes
        counter.accepted(pipeId, atMs, added)
      },
      rejected: (pipeId, atMs, hook = null) => {
        const totals = this.#totalsOf(pipeId, worker)
        totals.rejected++
        if (hook !== null) addRejectedHooks(totals.rejectedHooks, { [hook]: 1 })
        counter.rejected(pipeId, atMs, hook)
      },
      mismatched: (pipeId, atMs, added) => {
        addMismatches(this.#totalsOf(pipeId, worker).mismatches, added)
        counter.mismatched(pipeId, atMs, added)
      },
    }
  }

  /** By pipe, then by worker. Forgets pipes that no longer exist. */
  ofPipes(
    isPipe: (pipeId: string) => boolean,
  ): ReadonlyMap<string, ReadonlyMap<number, Readonly<PipeTotals>>> {
    for (const pipeId of this.#byPipe.keys()) if (!isPipe(pipeId)) this.#byPipe.delete(pipeId)
    return this.#byPipe
  }

  #totalsOf(pipeId: string, worker: number): PipeTotals {
    const byWorker = this.#byPipe.get(pipeId) ?? new Map<number, PipeTotals>()
    this.#byPipe.set(pipeId, byWorker)
    const totals = byWorker.get(worker) ?? {
      requests: 0,
      records: 0,
      bytes: 0,
      rejected: 0,
      rejectedHooks: {},
      mismatches: {},
    }
    byWorker.set(worker, totals)
    return totals
  }
}
