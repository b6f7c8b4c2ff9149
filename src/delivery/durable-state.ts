/**
 * The durable state of a lane: its row, the saved part of it, and the events since. Shared by both kinds of lane; only
 * the lane's own loop changes it.
 *
 *   change(row) ──▶ in memory ──save──▶ durable, with the counts since the last save, in one transaction
 *   detach()    ──▶ the lane no longer owns the row: nothing more is saved, and a save for another owner's row rejects
 *
 * A range is sent only after it is saved, so that a repeat has the same identity. With full batches, the ranges of the
 * batches that were read ahead are saved while a batch is under way, by the save that moves the cursor past the batches
 * before it. A batch whose range is saved needs no save of its own, so fast batches share one:
 *
 *   attempts    │ 1 under way ·········│ 2, 3 under way │ 4 under way ············│ 5, 6, …
 *   saves       │   range 1, next 2–4  │   none         │   cursor 3,             │   none
 *               │                      │                │   range 4, next 5–12    │
 *
 * The window in which delivered batches are not saved has two limits: the ranges that were read ahead (ReadAhead), and
 * `saveWithinMs`, which also holds while an attempt takes longer. So a slow destination has a save for each batch.
 *
 * The state of a push lane after a crash, line by line (every save is one fsync):
 *
 *   | the process ends …                          | the row says          | after restart                          |
 *   |---------------------------------------------|-----------------------|----------------------------------------|
 *   | before a new range is saved                 | cursor                | another range is cut; nothing was sent |
 *   | after it, before or during the attempt      | cursor, range         | the same range, the same identity      |
 *   | while batches are read ahead                | cursor, range         | the same range; the next ones are cut  |
 *   |                                             |                       |   again, none was saved or sent        |
 *   | after the next ranges are saved             | cursor, range, next   | these ranges, one after the other, each|
 *   |                                             |                       |   with its identity                    |
 *   | while one of them is sent, before the       | cursor, range, next   | the same: those before it are repeated,|
 *   |   cursor's move past those before is saved  |                       |   too, whatever the outcome of this one|
 *   | after one of them was stored, before a save | cursor, range, next   | the same: at least once                |
 *   | while more batches are read ahead, unsaved  | cursor, range, next   | the saved ranges; those after them are |
 *   |                                             |                       |   cut again, none was sent             |
 *   | while they are saved, during an attempt at  | the row before or     | before: as above; after: from the range|
 *   |   the last of the saved ranges              |   after that save     |   of the attempt on                    |
 *   | one of them has failed, before that is saved| cursor, range, next   | the same: those before it are repeated |
 *   | repeated after a crash, the first now fails | parts of range, next  | parts of the first range, none beyond  |
 *   |   permanently                               |                       |   it; then the next ones as they were  |
 *   | after the destination stored it, reply lost | cursor, range         | the same range again: at least once    |
 *   | after the reply, before the save            | cursor, range         | the same range again: at least once    |
 *   | after the save                              | cursor after it       | the next range                         |
 *   | between two parts of a bisected batch       | end of search, range  | the search continues where it was      |
 *   | during a pause                              | failure, range        | the same range, after at most 60 s     |
 *   | between two repeats of a timed-out range    | failure, range        | the same range, twice more at most     |
 *   | after halving, before the half is sent      | size limit, half      | the half                               |
 *   | between growing batches                     | size limit, successes | counting continues                     |
 *   | after a rewind, before its save             | cursor, generation    | nothing was moved, nothing was sent    |
 *   | after that save, before the next attempt    | cursor, a greater     | the earlier messages; the lane row in  |
 *   |                                             |   generation          |   a table is of an earlier generation  |
 *   | in a half-stored batch, before the failure  | cursor, range, offset | from that offset: records stored since |
 *   |   is saved                                  |   of the last save    |   then are repeated                    |
 *   | in a half-stored batch, after that save     | cursor, range, offset | from the first record not stored       |
 *   | after rejected records are parked,          | cursor, range         | the same range: parked again at the    |
 *   |   before the others are committed           |                       |   same positions, stored for the first |
 *   |                                             |                       |   time                                 |
 *   | after that commit, before the save          | cursor, range         | the same range again: at least once;   |
 *   |                                             |                       |   with exactly_once, nothing to send;  |
 *   |                                             |                       |   its parked records are looked up     |
 *   |                                             |                       |   and not counted as delivered         |
 *   | after a range was cut again, before a save  | failure, old range    | the old range, as before               |
 *   | after lost messages were found, before save | cursor before them    | found and counted again: counted once  |
 *   | after that save, before the next attempt    | cursor after them     | continues after them                   |
 *   | after a cursor was found beyond the log's   | cursor, its old mark  | found again; the mark is looked up     |
 *   |   end, before anything was delivered        |                       |   again, nothing is counted twice      |
 *   | after a damaged row was found, before its   | a failing checksum    | found again                            |
 *   |   repair                                    |                       |                                        |
 *   | after records were parked, before the        | cursor, range;        | the same range: rejected again, they are|
 *   |   destination has the others                | the records parked    |   the same parked rows, one attempt more|
 *   | after that, before the cursor's move is     | cursor, range;        | the same; if stored now, a record       |
 *   |   saved                                     | the records parked    |   can be both stored and parked         |
 *   | before a message is parked or skipped       | cursor before it,     | it is tried again                       |
 *   |                                             |   nothing parked      |                                         |
 *   | after that save                             | cursor after it,      | continues after it                      |
 *   |                                             |   the message parked  |                                         |
 *   | after its repair, before the first delivery | cursor 0              | from the earliest message kept         |
 *
 * A stale owner in a cluster checks its lease before every attempt. If it is stopped after the check, it can still send
 * the batch of that attempt, whose range the new owner has loaded and repeats under the same identity. It saves nothing:
 * each save carries its epoch. Once a save was rejected it sends nothing either, not even ranges that were saved before.
 *
 * With a replica in sync mode the row is in the bucket too before its range is sent. The machine that takes over repeats the
 * range under the same identity, and what the lost machine saved afterwards is done again:
 *
 *   | the machine is lost …                       | the row in the bucket | on the machine that takes over         |
 *   |---------------------------------------------|-----------------------|----------------------------------------|
 *   | after a range is saved, before its slot     | an earlier cursor     | another range is cut; nothing was sent |
 *   | after its slot, in or after the attempt     | cursor, range, next   | the same ranges, the same identities   |
 *   | after the cursor's move was saved, before   | cursor, range, next   | the same: at least once; exactly_once: |
 *   |   the slot that has it                      |                       |   nothing to send                      |
 *
 * A primary that was replaced and does not know it yet can end the attempt that it has begun, and begin those whose ranges
 * are in the bucket already. It saves them on its own disk alone.
 *
 * The outcome of the messages that the cursor moved past (`passedBetween`) is saved in the same transaction as the
 * cursor. So for every line above, the message lookup is consistent: after a crash before a save, the message is
 * pending and not in the history; after the save both agree. The save of a rewind moves the cursor and invalidates the
 * history after it; a repair invalidates all of it.
 */
import type { BufferReader, MarkedMessage } from '../log/buffer.ts'
import type { ReplicaBarrier } from '../log/replica-barrier.ts'
import {
  fixedThrough,
  type LaneChange,
  type LaneCounts,
  LaneOwnershipLostError,
  type LaneSpec,
  type LaneState,
  type NumberedAttempt,
  nextRanges,
  noCounts,
  type PassedMessages,
  type SeqRange,
} from '../metadata/lane-state.ts'
import type { NewParked } from '../metadata/parked-store-port.ts'
import { sharedMs } from '../platform/shared-clock.ts'
import type { DroppedMessages } from './batch-reader.ts'
import type { RewindResult } from './delivery.ts'
import type { LaneDeps } from './lane.ts'
import {
  afterAttempt,
  type CountedAttempt,
  LaneLatency,
  type LaneLog,
  type Measured,
  openLaneLog,
} from './lane-log.ts'
import { parkedMessage, skipCause } from './parking.ts'
import * as transition from './transitions.ts'

const firstOnly = { maxRecords: 1, maxBytes: 1 }
/**
 * How long a delivered batch can remain unsaved while ranges are saved ahead. A save takes about 1 ms of the thread,
 * batches of a fast endpoint not much longer.
 */
const saveWithinMs = 20

export class DurableState {
  readonly log: LaneLog
  readonly latency: LaneLatency
  readonly pipeId: string
  readonly workspaceId: string
  readonly #deps: LaneDeps
  #row: LaneState
  #counts: LaneCounts
  /** Since the last save. */
  #passed: PassedMessages[] = []
  /** Since the last save. */
  #attempts: NumberedAttempt[] = []
  #isDirty = false
  /** Since the last save. */
  #parked: LaneChange[] = []
  #isAtEnd = false
  /** The row as it was last saved or loaded. */
  #saved: LaneState
  /** The end of the ranges in the loaded row, which another process can have sent. */
  readonly #inheritedThroughSeq: number
  #behind: Promise<void> | null = null
  #hasBehindFailed = false
  /** Monotonic time of the last save. */
  #savedAt = Number.NEGATIVE_INFINITY
  #detached: 'removed' | 'handed over' | null = null
  /** The newest saves that fixed ranges which no earlier save had, oldest first, with their moments (`sharedMs`). */
  #fixed: { row: LaneState; savedMs: number }[]
  /** The moment of the last save. */
  #savedMs = sharedMs()

  constructor(spec: LaneSpec, row: LaneState, deps: LaneDeps) {
    this.log = openLaneLog(deps.log, spec)
    this.latency = new LaneLatency(deps.clock)
    this.pipeId = spec.pipeId
    this.workspaceId = spec.workspaceId
    this.#deps = deps
    this.#row = transition.afterOtherVersion(row)
    this.#saved = row
    this.#inheritedThroughSeq = fixedThrough(row)
    this.#counts = noCounts(spec)
    // The row that was loaded can be on the disk alone.
    this.#fixed = [{ row, savedMs: this.#savedMs }]
  }

  get row(): LaneState {
    return this.#row
  }

  /** The cursor that a restart would use. Retention must use only this one. */
  get savedCursorSeq(): number {
    return this.#saved.cursorSeq
  }

  /** `isParked`: the messages that the cursor moves past are parked. */
  change(row: LaneState, isParked = false): void {
    if (row === this.#row) return
    const before = this.#row
    const passed = transition.passedBetween(before, row, this.#deps.clock.now())
    if (passed !== null) this.#passed.push(isParked ? { ...passed, ...parkedRun(passed, before) } : passed)
    if (passed?.kind === 'delivered' && !isParked) this.#deliveredAgain(before, row)
    this.#row = row
    this.#isDirty = true
  }

  /** An attempt has ended. It is saved with what its outcome changes. */
  attempted(ended: CountedAttempt): void {
    const { row, attempt } = afterAttempt(this.#row, ended)
    this.change(row)
    this.#attempts.push(attempt)
    this.latency.attempted(ended.outcome.kind, ended.tookMs)
  }

  /**
   * The destination has these messages, except for `leftOut` records of each. Messages that it had before a rewind are
   * not measured: their age says nothing about the lane.
   */
  stored<Message extends Measured>(
    messages: readonly Message[],
    leftOut?: (message: Message) => number,
  ): void {
    const { rewoundFromSeq } = this.#row
    const isRepeated = rewoundFromSeq !== null && (messages[0]?.seq ?? 0) <= rewoundFromSeq
    const measured = isRepeated ? messages.filter(({ seq }) => seq > rewoundFromSeq) : messages
    this.latency.stored(measured, leftOut)
  }

  count(counts: Partial<Omit<LaneCounts, 'destinationId' | 'pipeId'>>): void {
    this.#counts.deliveredRecords += counts.deliveredRecords ?? 0
    this.#counts.failedAttempts += counts.failedAttempts ?? 0
    this.#counts.skippedRecords += counts.skippedRecords ?? 0
    this.#counts.filteredRecords += counts.filteredRecords ?? 0
  }

  /**
   * Rejects when the row cannot be saved; then the lane must not continue. For a deleted destination there is nothing to
   * save.
   */
  async save(): Promise<void> {
    await this.#behind
    if (this.#detached === 'handed over') throw new LaneOwnershipLostError([this.#row.destinationId])
    if (this.#detached === null) await this.#save()
  }

  async saveIfDirty(): Promise<void> {
    await this.#behind
    if (this.#isDirty || this.latency.dueInMs === 0) await this.save()
  }

  /** The last save: nothing is written after it. */
  async saveAtEnd(): Promise<void> {
    this.#isAtEnd = true
    await this.#behind
    if (this.#isDirty || this.latency.dueInMs < Number.POSITIVE_INFINITY) await this.save()
  }

  /**
   * Resolves when the row's range can be sent: it is saved as the current range or as one of the next. After a save that
   * failed in the background it rejects.
   */
  async saveForAttempt(): Promise<void> {
    if (!this.#hasBehindFailed && this.#isRangeSaved()) return
    await this.#behind
    if (this.#isDirty && !this.#isRangeSaved()) await this.save()
  }

  /**
   * In sync mode: true when the row's range is in the replica too, false when `signal` ends the wait. Call it after
   * `saveForAttempt`. A new primary then repeats the range under the same identity.
   */
  async replicatedForAttempt(replica: ReplicaBarrier, signal: AbortSignal): Promise<boolean> {
    const { batchFirstSeq, batchLastSeq, generation } = this.#row
    // A range of an earlier generation, before a rewind, has another identity.
    const isFixed = (row: LaneState) =>
      row.generation === generation && hasRange(row, [batchFirstSeq!, batchLastSeq!])
    const fixed = this.#isUntried && this.#fixed.find(({ row }) => isFixed(row))
    return await replica.stored(signal, fixed ? fixed.savedMs : this.#savedMs)
  }

  /** As `replicatedForAttempt`, for the last save. True if nothing waits for a replica. */
  async replicated(signal: AbortSignal): Promise<boolean> {
    const { replica } = this.#deps
    return replica === null || (await replica.stored(signal, this.#savedMs))
  }

  /** Ranges are in the replica by the time of their attempts, if the store is fast enough. */
  #noteFixed(replica: ReplicaBarrier): void {
    const last = this.#fixed.at(-1)!.row
    const { batchFirstSeq, batchLastSeq, generation } = this.#saved
    const current: SeqRange[] = batchFirstSeq === null ? [] : [[batchFirstSeq, batchLastSeq!]]
    const ranges = [...current, ...nextRanges(this.#saved)]
    if (last.generation === generation && ranges.every((range) => hasRange(last, range))) return
    this.#fixed = [...this.#fixed.slice(-2), { row: this.#saved, savedMs: this.#savedMs }]
    replica.ask()
  }

  /** Saves while an attempt is under way. The next save waits for this one, and rejects if it failed. */
  saveInBackground(onFailed: () => void): void {
    if (!this.#isDirty || this.#detached !== null || this.#behind !== null) return
    this.#behind = this.#save().then(() => {
      this.#behind = null
    })
    this.#behind.catch(() => {
      this.#hasBehindFailed = true
      onFailed()
    })
  }

  /**
   * Time until the row must be saved in the background: 0 when no range is saved that could be sent after the current
   * one, Infinity when there is nothing to save.
   */
  get saveDueInMs(): number {
    if (!this.#isDirty) return Number.POSITIVE_INFINITY
    const { nextFirstSeq } = this.#row
    if (nextFirstSeq !== null && !isNextOf(this.#saved, nextFirstSeq)) return 0
    return Math.max(0, this.#savedAt + saveWithinMs - this.#deps.clock.monotonicMs())
  }

  /** The current range fails, so this process has sent none after it. The next range is cut when it is due. */
  dropUnsentNext(): void {
    this.change(transition.withoutNext(this.#row, this.#inheritedThroughSeq))
  }

  get #isUntried(): boolean {
    const { bisectLastSeq, attempts, recordOffset } = this.#row
    return attempts === 0 && bisectLastSeq === null && recordOffset === 0
  }

  /** A failed range can differ from the saved one, because it was cut again; a range without a result cannot. */
  #isRangeSaved(): boolean {
    const { batchFirstSeq, batchLastSeq } = this.#row
    return this.#isUntried && batchFirstSeq !== null && isNextOf(this.#saved, batchFirstSeq, batchLastSeq)
  }

  async #save(): Promise<void> {
    this.#savedAt = this.#deps.clock.monotonicMs()
    const row = { ...this.#row, ownerEpoch: this.#deps.epoch }
    const latency = this.latency.take(this.#isAtEnd)
    const counts = { ...this.#counts, passed: this.#passed, attempts: this.#attempts, latency }
    this.#passed = []
    this.#attempts = []
    this.#isDirty = false
    this.#counts = noCounts({ destinationId: this.#row.destinationId, pipeId: this.pipeId })
    const parked = this.#parked
    this.#parked = []
    const { deliveredRecords, failedAttempts, skippedRecords, filteredRecords } = counts
    const hasCounts = deliveredRecords + failedAttempts + skippedRecords + filteredRecords > 0
    const isWorthSaving = hasCounts || counts.passed.length + counts.attempts.length + latency.length > 0
    await this.#deps.save(row, isWorthSaving ? counts : null, parked)
    this.#saved = row
    this.#savedMs = sharedMs()
    if (this.#deps.replica !== null) this.#noteFixed(this.#deps.replica)
    if (parked.length > 0) await this.#deps.parking.refresh()
    this.#deps.onSaved()
  }

  /** The destination was deleted or another owner has the lane: nothing more is saved. */
  detach(why: 'removed' | 'handed over'): void {
    this.#detached = why
  }

  async dropped(lost: DroppedMessages): Promise<void> {
    this.change(lost.row)
    this.log.dropped(lost)
    await this.save()
  }

  /** Records that were parked before a rewind are stored now. */
  #deliveredAgain(
    { cursorSeq: afterSeq }: LaneState,
    { cursorSeq: throughSeq, generation }: LaneState,
  ): void {
    if (generation === 0 || this.#deps.parking.counts.rows === 0) return
    this.park({ kind: 'delivered_again', afterSeq, throughSeq, generation })
  }

  /**
   * The cursor moves past delivered messages. `parked` of their records were parked and `filtered` were left out by the
   * transform.
   */
  delivered(row: LaneState, { parked, filtered }: { parked: number; filtered: number }): void {
    const left = parked + filtered
    const records = row.deliveredRecords - this.#row.deliveredRecords - left
    const deliveredRecords = row.deliveredRecords - left
    const filteredRecords = row.filteredRecords + filtered
    this.change(left === 0 ? row : { ...row, deliveredRecords, filteredRecords })
    this.count({ deliveredRecords: records, filteredRecords: filtered })
  }

  /** Parks a message that the destination permanently rejects and moves the cursor past it, in one save. */
  async parked(message: MarkedMessage, parked: NewParked): Promise<void> {
    this.change(transition.afterParked(this.#row, message), true)
    this.park({ kind: 'message', parked })
    await this.save()
  }

  /** The parked record is stored, or the transform now leaves it out. It is no longer parked, and is counted. */
  async replayed(parkedId: string, records: number, filtered: number): Promise<void> {
    const { deliveredRecords, filteredRecords } = this.#row
    const lastDeliveredMs = this.#deps.clock.now()
    this.change({
      ...this.#row,
      deliveredRecords: deliveredRecords + records,
      filteredRecords: filteredRecords + filtered,
      lastDeliveredMs,
    })
    this.count({ deliveredRecords: records, filteredRecords: filtered })
    this.park({ kind: 'replayed', parkedId })
    await this.save()
  }

  /**
   * A replay of a range has delivered messages that the lane has passed: their records are counted, and those that were
   * parked in an earlier generation are stored now.
   */
  replayedRange(
    passed: { afterSeq: number; throughSeq: number; generation: number },
    { records, filtered }: { records: number; filtered: number },
  ): void {
    const { deliveredRecords, filteredRecords } = this.#row
    this.change({
      ...this.#row,
      deliveredRecords: deliveredRecords + records,
      filteredRecords: filteredRecords + filtered,
      lastDeliveredMs: this.#deps.clock.now(),
    })
    this.count({ deliveredRecords: records, filteredRecords: filtered })
    if (this.#deps.parking.counts.rows > 0) this.park({ kind: 'delivered_again', ...passed })
  }

  /** Saved together with the next change of the row, so that neither exists without the other. */
  park(change: LaneChange): void {
    this.#parked.push(change)
    this.#isDirty = true
  }

  /**
   * Parks the message and moves the cursor past it. Returns false when there is no room for it; then nothing has
   * changed.
   */
  async skipped(message: MarkedMessage): Promise<boolean> {
    const { attempts, lastError } = this.#row
    const parked = parkedMessage(message, this.#row, attempts, skipCause(lastError))
    const isParked = await this.#deps.parking.withRoom([parked], async () => {
      this.change(transition.afterSkip(this.#row, message))
      this.park({ kind: 'message', parked })
      this.count({ skippedRecords: message.recordCount })
      await this.save()
    })
    if (isParked) this.log.skipped(message)
    return isParked
  }

  /** Moves to an earlier cursor, limited to kept messages. Never forward, which would skip messages. */
  async rewind(find: () => Promise<number>): Promise<RewindResult> {
    const { reader } = this.#deps
    const { cursorSeq } = this.#row
    const asked = await find()
    if (asked > cursorSeq) return { kind: 'ahead', cursorSeq }
    const earliest = await reader.earliest(this.pipeId)
    const to = Math.min(Math.max(asked, earliest.seq), cursorSeq)
    const { mark } = await reader.cursorAt(this.pipeId, to)
    this.change(transition.afterRewind(this.#row, { seq: to, mark }, this.#deps.clock.now()))
    await this.save()
    this.log.rewound(to)
    return { kind: 'rewound', cursorSeq: to }
  }

  /** The message that blocks the lane, if it is still kept. */
  async blockingMessage(reader: BufferReader = this.#deps.reader): Promise<MarkedMessage | null> {
    const { blockingMsgId, cursorSeq, cursorMark } = this.#row
    if (blockingMsgId === null) return null
    const run = await reader.read(this.pipeId, cursorSeq, { ...firstOnly, afterMark: cursorMark })
    const first = run.messages[0]
    return first?.msgId === blockingMsgId ? first : null
  }
}

/** The range is one of the row's next ranges. Without `lastSeq`: one that begins there. */
function isNextOf(row: LaneState, firstSeq: number, lastSeq?: number | null): boolean {
  return nextRanges(row).some(
    ([first, last]) => first === firstSeq && (lastSeq === undefined || last === lastSeq),
  )
}

/** The range is the row's current one or one of the next. */
function hasRange(row: LaneState, [first, last]: SeqRange): boolean {
  return (row.batchFirstSeq === first && row.batchLastSeq === last) || isNextOf(row, first, last)
}

/** A message that was parked as a whole is part of no batch. */
function parkedRun({ lastSeq }: PassedMessages, { attempts }: LaneState) {
  return { kind: 'parked', firstSeq: lastSeq, batchLastSeq: null, attempts: attempts + 1 } as const
}
