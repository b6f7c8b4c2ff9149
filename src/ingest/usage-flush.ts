/**
 * Carries what ingest counted into metadata's hourly roll-ups every few seconds and at shutdown, and makes good at
 * start what a crash left out: the buffer's running totals less the totals that the roll-ups were marked with.
 */
import type { PipeTotals } from '../buffer/buffer.ts'
import type { Logger } from '../log.ts'
import type { IngestCounts, Metadata, UsageMark } from '../metadata/store.ts'
import type { Directory } from './directory.ts'
import type { UsageCounter, UsageSnapshot } from './usage.ts'

const hourMs = 3_600_000

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
  let last: Promise<void> = Promise.resolve()

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
  // One after the other: two flushes at once could store the older marks last.
  const flush = () => {
    last = last.catch(() => {}).then(flushOnce)
    return last
  }
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

/** A pipe deleted meanwhile has no roll-ups any more; its counts must not keep the others from being stored. */
function ofKnownPipes(snapshot: UsageSnapshot, directory: Directory): UsageSnapshot {
  const isKnown = ({ pipeId }: { pipeId: string }) => directory.pipe(pipeId) !== undefined
  return { counts: snapshot.counts.filter(isKnown), marks: snapshot.marks.filter(isKnown) }
}

/** At start, before anything is accepted: adds what the buffer holds and the roll-ups do not, to the current hour. */
export async function catchUpUsage(
  usage: Metadata['usage'],
  totals: ReadonlyMap<string, PipeTotals>,
  directory: Directory,
  nowMs: number,
): Promise<void> {
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
  if (counts.length > 0) await usage.addIngest(counts, marks)
}
