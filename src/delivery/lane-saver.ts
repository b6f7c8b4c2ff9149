/**
 * Group commit of lane state: everything that lanes save while one transaction is under way goes into the next one, so a
 * hundred lanes cost one fsync instead of a hundred.
 *
 * On a full disk lanes wait and do not fail: nothing is delivered beyond the saved state, and the save is repeated until
 * there is room. A process that stops does not wait, not even for a store that does not respond: unsaved progress is
 * delivered again after the next start, under the same identity. A lane that another owner has taken over fails alone.
 * Every other error rejects for all lanes of the group, and the thread ends with it.
 */
import {
  type LaneCounts,
  LaneOwnershipLostError,
  type LaneState,
  type LaneStore,
  LaneStoreUnavailableError,
} from '../metadata/lane-state.ts'
import type { ParkedChange } from '../metadata/parked-store-port.ts'
import type { Logger } from '../platform/log.ts'
import type { Clock } from './clock.ts'

/** One lane's part of a group. */
interface Entry {
  row: LaneState
  counts: LaneCounts[]
  parked: ParkedChange[]
  saved: Promise<void>
  resolve(): void
  reject(error: unknown): void
}

const retrySaveMs = 1_000
/** How long a stopping process waits for disk space, and for each save. */
const closingMs = 3_000

export class LaneSaver {
  readonly #store: LaneStore
  readonly #clock: Clock
  readonly #log: Logger
  #gathering = new Map<string, Entry>()
  #running: Promise<void> | null = null
  #givesUpAtMs = Number.POSITIVE_INFINITY
  /** Starts the time limit of the current save. */
  #limitSave: () => void = () => {}

  constructor(store: LaneStore, clock: Clock, log: Logger) {
    this.#store = store
    this.#clock = clock
    this.#log = log
  }

  /** Resolves when the row, the counts and the parked records are durable. The row must not be changed in place. */
  save(row: LaneState, counts: LaneCounts | null, parked: readonly ParkedChange[] = []): Promise<void> {
    const entry = this.#gathering.get(row.destinationId) ?? newEntry(row)
    entry.row = row
    if (counts !== null) entry.counts.push(counts)
    entry.parked.push(...parked)
    this.#gathering.set(row.destinationId, entry)
    this.#running ??= this.#saveGroups()
    return entry.saved
  }

  /** From now on, saves that find no room soon reject with LaneStoreUnavailableError. */
  stopWaiting(): void {
    this.#givesUpAtMs = this.#clock.monotonicMs() + closingMs
    this.#limitSave()
  }

  /** Resolves when no save is in progress. */
  async drain(): Promise<void> {
    while (this.#running !== null) await this.#running
  }

  async #saveGroups(): Promise<void> {
    // Other saves of this turn of the event loop join the first group.
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#gathering.size > 0) {
      const group = this.#gathering
      this.#gathering = new Map()
      try {
        await this.#saveGroup(group)
        for (const entry of group.values()) entry.resolve()
      } catch (error) {
        for (const entry of group.values()) entry.reject(error)
      }
    }
    this.#running = null
  }

  async #saveGroup(group: Map<string, Entry>): Promise<void> {
    for (let tries = 1; group.size > 0; tries += 1) {
      try {
        const entries = [...group.values()]
        const saving = this.#store.save(
          entries.map(({ row }) => row),
          entries.flatMap(({ counts }) => counts),
          new Map(entries.map(({ row, parked }) => [row.destinationId, parked])),
        )
        if (await this.#isAnswered(saving)) return
      } catch (error) {
        if (!rejectLost(group, error)) await this.#pauseAfter(error, group.size, tries)
        continue
      }
      // Not repeated: the save can still succeed, and its counts would be added twice.
      throw new LaneStoreUnavailableError(new Error(`no answer within ${closingMs} ms`))
    }
  }

  /** Waits before the save is repeated. Rethrows the error when repeating cannot help or the process is stopping. */
  async #pauseAfter(error: unknown, lanes: number, tries: number): Promise<void> {
    if (!(error instanceof LaneStoreUnavailableError)) throw error
    if (this.#clock.monotonicMs() >= this.#givesUpAtMs) throw error
    if (tries === 1) this.#log.error({ lanes, err: error.cause }, 'lanes.save_delayed')
    await new Promise<void>((resolve) => this.#clock.wake(retrySaveMs, resolve))
  }

  /**
   * Returns false when the process is stopping and waits no longer. A late success of the save is harmless: a restart
   * begins with its row.
   */
  async #isAnswered(saving: Promise<void>): Promise<boolean> {
    let cancel = () => {}
    const late = new Promise<false>((resolve) => {
      this.#limitSave = () => {
        cancel = this.#clock.wake(closingMs, () => resolve(false))
      }
    })
    if (this.#givesUpAtMs < Number.POSITIVE_INFINITY) this.#limitSave()
    try {
      return await Promise.race([saving.then(() => true), late])
    } finally {
      cancel()
      this.#limitSave = () => {}
      saving.catch(() => {})
    }
  }
}

function newEntry(row: LaneState): Entry {
  let resolve = () => {}
  let reject: (error: unknown) => void = () => {}
  const saved = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { row, counts: [], parked: [], saved, resolve, reject }
}

/** Returns true when lanes of other owners were removed, so that the group can be saved without them. */
function rejectLost(group: Map<string, Entry>, error: unknown): boolean {
  if (!(error instanceof LaneOwnershipLostError)) return false
  const lost = error.destinationIds.filter((id) => group.has(id))
  for (const id of lost) {
    group.get(id)!.reject(error)
    group.delete(id)
  }
  return lost.length > 0
}
