/**
 * Copies the log and the metadata of this machine into the bucket, as slots, segments and snapshots.
 *
 *   metadata.db ──changed rows──▶ ┐ 1
 *   segments ─────rows by seq────▶ ├─▶ slot ─▶ slot ─▶ …            (one group: everything of one moment)
 *                                 ┘ 2
 *   sealed segments ─▶ segments/…     copy of metadata.db ─▶ snapshots/…     what no snapshot needs is removed
 *
 * The changed rows of metadata are read first, then the log up to its newest message. So metadata in a complete group never
 * refers to a message after the group. What was sent is known from the newest slot and from the rows that are not released, so
 * a restart needs nothing else. A bucket that is away delays this thread only; it continues from the segments.
 */
import { setMaxListeners } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import type { LogRows } from '../log/segments/replicated-rows.ts'
import type { RowChanges } from '../metadata/sqlite/row-changes.ts'
import { hourMs } from '../platform/quantities.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import { sharedMs } from '../platform/shared-clock.ts'
import { Waits } from '../platform/waits.ts'
import { BucketError } from './bucket.ts'
import { Keeper, type StoredObjects } from './keeper.ts'
import type { ReplicatorParts } from './replicator-parts.ts'
import { ReplacedError } from './writer.ts'

export interface ReplicaStatus {
  /** `ok`: everything older than the lag is stored. `failing`: the last request failed and is repeated. */
  state: 'ok' | 'failing'
  slot: number
  headSeq: number
  generation: number
  /** Everything that was acknowledged before this moment is in the bucket. */
  storedThroughMs: number
  /** When the newest snapshot was stored; null: none yet, so nothing can be restored. */
  snapshotMs: number | null
  /** In the bucket, when the newest snapshot was stored; null: not counted yet. */
  stored: StoredObjects | null
  error: { code: string; message: string; sinceMs: number } | null
}

/** A group while it is sent. `target`: the newest message of its moment; null until all changed rows are read. */
interface Group {
  target: number | null
  isComplete: boolean
}

interface NextSlot extends Group {
  log: ReturnType<LogRows['read']>
  headSeq: number
}

type TakenRows = NonNullable<ReturnType<RowChanges['take']>>

const nothing = Buffer.alloc(0)
/** The rows in a slot have at most this size, unless a single message is larger. */
const slotBytes = 4 * 1024 * 1024
const snapshotEveryMs = hourMs
const snapshotEverySlots = 10_000
/** A snapshot that failed is tried again after this time. */
const snapshotRetryMs = 30_000
/** How often newly sealed segments are looked for. */
const keepEveryMs = 1_000

export class Replicator {
  readonly #parts: ReplicatorParts
  readonly #keeper: Keeper
  readonly #shipping = new SerialQueue()
  /** A group that waits for its turn: everything until it begins is in it. */
  #next: Promise<void> | null = null
  readonly #waits = new Waits()
  readonly #keeping = new Waits()
  readonly #abort = new AbortController()
  #storedThroughMs = 0
  #error: ReplicaStatus['error'] = null
  /** The last slot of the newest complete group. */
  #completeSlot: number
  /** When the newest slot was sent. */
  #provenMs = Number.NEGATIVE_INFINITY
  #isEnding = false
  #isWoken = false

  constructor(parts: ReplicatorParts) {
    this.#parts = parts
    this.#completeSlot = parts.writer.position.slot
    // Requests in progress listen to it.
    setMaxListeners(0, this.#abort.signal)
    parts.writer.onAttempt = (error) => this.#note(error)
    const scratch = path.join(parts.spec.root, 'replica-snapshot')
    rmSync(scratch, { recursive: true, force: true })
    mkdirSync(scratch, { mode: 0o700 })
    this.#keeper = new Keeper({
      ...parts,
      scratch,
      signal: this.#abort.signal,
      completeSlot: () => this.#completeSlot,
      ship: () => this.ship(),
      prove: () => this.#shipping.run(() => this.#shipGroup(true)),
    })
  }

  status(): ReplicaStatus {
    const { writer } = this.#parts
    const { slot, headSeq } = writer.position
    return {
      state: this.#error === null ? 'ok' : 'failing',
      slot,
      headSeq,
      generation: writer.file.generation,
      storedThroughMs: this.#storedThroughMs,
      snapshotMs: this.#keeper.snapshotMs,
      stored: this.#keeper.stored,
      error: this.#error,
    }
  }

  /** Runs until `close`. Throws ReplacedError, and errors of the disk. */
  async run(): Promise<void> {
    const keeping = this.#keep()
    try {
      while (!this.#isEnding) {
        this.#isWoken = false
        await this.ship()
        if (!this.#isEnding && !this.#isWoken) await this.#waits.wait(this.#parts.intervalMs)
      }
    } catch (error) {
      if (!(this.#isEnding && isAbort(error))) throw error
    } finally {
      this.#isEnding = true
      this.#abort.abort()
      this.#keeping.end()
      await keeping
    }
  }

  /** Stores everything of this moment, if the bucket answers within `withinMs`, and ends `run`. */
  async close(withinMs: number): Promise<void> {
    const timer = setTimeout(() => this.#abort.abort(), withinMs)
    try {
      await this.ship()
    } catch (error) {
      if (!isAbort(error)) throw error
    } finally {
      clearTimeout(timer)
      this.#isEnding = true
      this.#abort.abort()
      this.#waits.end()
      this.#keeping.end()
    }
  }

  /**
   * Stores everything that was written before the call, as one group of slots, or none if nothing has changed. Calls
   * that wait for their turn share a group. Throws ReplacedError, errors of the disk, and of an aborted signal.
   */
  async ship(): Promise<void> {
    this.#next ??= this.#shipping.run(() => {
      this.#next = null
      return this.#shipGroup()
    })
    await this.#next
  }

  /** Something was written: it is stored without waiting for the interval. */
  wake(): void {
    this.#isWoken = true
    this.#waits.end()
  }

  /** `isForced`: also if nothing has changed. */
  async #shipGroup(isForced = this.#isHeartbeatDue()): Promise<void> {
    const { changes, writer, onStored } = this.#parts
    const beganMs = Date.now()
    const begunMs = sharedMs()
    for (let group: Group = { target: null, isComplete: false }; !group.isComplete; ) {
      const { headSeq } = writer.position
      const changed = group.target === null ? changes.take(slotBytes) : null
      const next = this.#nextOf(group, changed)
      group = next
      if (changed === null && next.log === null && next.headSeq === headSeq && !isForced) break
      await this.#create(next, changed, beganMs)
      if (changed !== null) changes.release(changed.through)
    }
    this.#storedThroughMs = beganMs
    // Without a snapshot, nothing that is in slots can be restored.
    if (this.#keeper.hasSnapshot)
      onStored(writer.position.headSeq, { provenMs: this.#provenMs, beforeMs: begunMs })
  }

  /** The part of the log that goes into the next slot: none until all changed rows of this moment are read. */
  #nextOf({ target }: Group, changed: TakenRows | null): NextSlot {
    const { rows, writer } = this.#parts
    const { headSeq: before } = writer.position
    if (changed?.more === true) return { target, log: null, headSeq: before, isComplete: false }
    // The newest message after the last changed row was read.
    const through = target ?? rows.headSeq()
    const room = slotBytes - (changed?.rows.length ?? 0)
    if (room <= 0) return { target: through, log: null, headSeq: before, isComplete: before >= through }
    const log = before < through ? rows.read(before, room) : null
    // Messages that retention or a damaged disk took away are passed over.
    const headSeq = log?.lastSeq ?? Math.max(before, through)
    return { target: through, log, headSeq, isComplete: headSeq >= through }
  }

  async #create(next: NextSlot, changed: TakenRows | null, createdMs: number): Promise<void> {
    const { rows, writer } = this.#parts
    const { log, headSeq, isComplete } = next
    const sentMs = sharedMs()
    await writer.create(
      {
        logRows: log?.rows ?? nothing,
        log: log && {
          firstSeq: log.firstSeq,
          lastSeq: log.lastSeq,
          messages: log.messages,
          bytes: log.bytes,
        },
        metadataRows: changed?.rows ?? nothing,
        metadataCount: changed?.count ?? 0,
        headSeq,
        keptFromSeq: rows.keptFromSeq(),
        complete: isComplete,
        createdMs,
      },
      this.#abort.signal,
    )
    this.#provenMs = sentMs
    const { slot } = writer.position
    if (log !== null) this.#keeper.noteSlot(slot, log.lastSeq)
    if (isComplete) this.#completeSlot = slot
  }

  #isHeartbeatDue(): boolean {
    const { heartbeatMs } = this.#parts
    return heartbeatMs !== null && sharedMs() - this.#provenMs >= heartbeatMs
  }

  /** Segments, snapshots and removals, beside the slots. A failure is repeated and delays nothing else. */
  async #keep(): Promise<void> {
    const schedule = { dueMs: 0, atSlot: 0 }
    while (!this.#isEnding) {
      try {
        await this.#keepOnce(schedule)
      } catch (error) {
        if (isAbort(error) || error instanceof ReplacedError) return
        if (!(error instanceof BucketError)) throw error
        this.#note(error)
        schedule.dueMs = Math.max(schedule.dueMs, Date.now() + snapshotRetryMs)
        this.#parts.log.warn({ err: error }, 'replica.snapshot_delayed')
      }
      if (!this.#isEnding) await this.#keeping.wait(keepEveryMs)
    }
  }

  async #keepOnce(schedule: { dueMs: number; atSlot: number }): Promise<void> {
    const { slot } = this.#parts.writer.position
    await this.#keeper.findSnapshot()
    await this.#keeper.uploadSegments()
    if (Date.now() < schedule.dueMs && slot - schedule.atSlot < snapshotEverySlots) return
    await this.#keeper.snapshot()
    await this.ship()
    schedule.dueMs = Date.now() + snapshotEveryMs
    schedule.atSlot = this.#parts.writer.position.slot
  }

  #note(error: BucketError | null): void {
    if (error === null) {
      if (this.#error !== null)
        this.#parts.log.info({ for_ms: Date.now() - this.#error.sinceMs }, 'replica.recovered')
      this.#error = null
      return
    }
    const sinceMs = this.#error?.sinceMs ?? Date.now()
    if (this.#error === null) this.#parts.log.warn({ err: error }, 'replica.failing')
    this.#error = { code: error.code, message: error.message, sinceMs }
  }
}

/** It ends because it was asked to. */
function isAbort(error: unknown): boolean {
  if (error instanceof BucketError) return error.code === 'aborted'
  return error instanceof Error && error.name === 'AbortError'
}
