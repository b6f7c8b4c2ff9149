/**
 * Group commit of lane state: what all lanes save while one transaction is under way goes into the next, so a hundred
 * lanes cost one fsync, not a hundred.
 *
 * A full disk keeps lanes waiting, not failing: nothing is delivered beyond what could be saved, and the save is tried
 * again until there is room. Every other error is thrown to every lane that waits: the thread ends with it.
 */
import type { Logger } from '../log.ts'
import type { Clock } from './clock.ts'
import type { LaneCounts, LaneRow, LaneStore } from './delivery.ts'

export interface LaneSaver {
  /** Resolves when the row and the counts are durable. The row is taken as it is now: it must not be changed later. */
  save(row: LaneRow, counts: LaneCounts | null): Promise<void>
  /** Resolves when nothing is being saved any more. */
  settle(): Promise<void>
}

interface Group {
  rows: Map<string, LaneRow>
  counts: Map<string, LaneCounts>
  saved: PromiseWithResolvers
}
interface PromiseWithResolvers {
  promise: Promise<void>
  resolve(): void
  reject(error: unknown): void
}

const retrySaveMs = 1_000

export function openLaneSaver(store: LaneStore, clock: Clock, log: Logger): LaneSaver {
  let gathering = newGroup()
  let running: Promise<void> | null = null

  async function saveGroups(): Promise<void> {
    // The rest of this tick's saves join the first group.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (gathering.rows.size > 0) {
      const group = gathering
      gathering = newGroup()
      try {
        await saveGroup(group)
        group.saved.resolve()
      } catch (error) {
        group.saved.reject(error)
      }
    }
    running = null
  }

  async function saveGroup(group: Group): Promise<void> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await store.save([...group.rows.values()], [...group.counts.values()])
      } catch (error) {
        if (!canWait(error)) throw error
        if (tries === 1) log.error({ lanes: group.rows.size, err: error }, 'lanes.save_waits')
        await new Promise<void>((resolve) => clock.wake(retrySaveMs, resolve))
      }
    }
  }

  return {
    save(row, counts) {
      gathering.rows.set(row.destinationId, row)
      if (counts !== null) addCounts(gathering.counts, counts)
      const { promise } = gathering.saved
      running ??= saveGroups()
      return promise
    },
    async settle() {
      while (running !== null) await running
    },
  }
}

function newGroup(): Group {
  let resolve = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { rows: new Map(), counts: new Map(), saved: { promise, resolve, reject } }
}

function addCounts(into: Map<string, LaneCounts>, counts: LaneCounts): void {
  const sum = into.get(counts.pipeId)
  if (sum === undefined) {
    into.set(counts.pipeId, { ...counts })
    return
  }
  sum.deliveredRecords += counts.deliveredRecords
  sum.failedAttempts += counts.failedAttempts
  sum.skippedRecords += counts.skippedRecords
}

function canWait(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return code === 'SQLITE_FULL' || code.startsWith('SQLITE_BUSY') || code === 'ENOSPC'
}
