/**
 * A lane's replays of ranges of messages that it has passed, one at a time, one batch per step of the lane. A replay
 * moves through its range as the lane moves through the pipe: it has a position with the fields of a lane's state, cuts
 * and bisects its batches, parks and retries by the same rules (`batch-reader.ts`, `progress.ts`, `parking.ts`). Only the
 * end of the range, the identity of the batches and the place of the state are its own.
 *
 *   waiting ──▶ running: range of a batch fixed and saved ──▶ attempt ──▶ saved ──▶ … ──▶ no message is left: done
 *                 ▲                                              │
 *                 ├── pause (backoff) ◀── transient, or a fault of the destination, until `destination_max_retry_seconds`
 *                 ├── expired: counted ◀── retention or a damaged disk took messages of the range
 *                 └── parked ◀── rejected, by a lane that parks; failed: rejected, by a lane that blocks
 *
 * Identity: UUID version 5 of the range of the batch in the namespace of the replay. Single records (one request each)
 * have ids in the same namespace, because a batch can be cut again. Where a destination stores its own progress
 * (`exactly_once`), a batch has a number that is greater than those of all earlier replays of the destination. It is saved
 * with the range, and the next replay begins when the batch is stored or abandoned.
 *
 * The lane's own cursor, ranges and failures are not touched. A rewind does not change a replay either: each delivers
 * what it was asked for. A blocked destination pauses it. A changed destination or changed limits cut its batch again.
 *
 * The progress is saved in the transaction that saves the lane's row, with the owner's epoch. After a crash:
 *
 *   | the process ends …                          | the replay says        | after restart                         |
 *   |---------------------------------------------|------------------------|---------------------------------------|
 *   | after it was requested                      | waiting                | it starts                             |
 *   | after a number is taken (exactly_once)      | no batch               | another number; nothing was sent      |
 *   | after a range is cut, before its save       | no batch               | another range; nothing was sent       |
 *   | after that save, before or during the attempt| the range, its number | the same range, identity and number   |
 *   | after records were parked, before the       | the range              | the same range: parked again at the   |
 *   |   destination has the others                |                        |   same positions, stored for the first|
 *   |                                             |                        |   time                                |
 *   | after the destination stored it, before     | the range              | the same range: at least once;        |
 *   |   that is saved                             |                        |   exactly_once: nothing is sent, and  |
 *   |                                             |                        |   its parked records are looked up    |
 *   | after that save                             | cursor after it        | the next range                        |
 *   | half-stored or bisected                     | as for a lane          | as for a lane (`durable-state.ts`)    |
 *   | during a pause                              | failure, range         | the same range, after at most 60 s    |
 *   | after it was cancelled                      | cancelled              | the next replay                       |
 *   | during an attempt, cancelled meanwhile      | cancelled, the range   | the next replay; the batch may be     |
 *   |                                             |                        |   stored and is not counted           |
 *   | after the last batch, before `done` is saved| cursor at the end      | nothing is left: done                 |
 *
 * A stale owner in a cluster checks its lease before each attempt. If it is stopped after that check, it can send the
 * batch of that attempt, which the new owner has loaded and repeats under the same identity. It saves nothing.
 */
import { isDeepStrictEqual } from 'node:util'
import { v5 } from 'uuid'
import type { DeliveryError } from '../destinations/driver.ts'
import { descriptorOf } from '../destinations/drivers.ts'
import type { BufferReader, MarkedMessage } from '../log/buffer.ts'
import {
  type LaneCounts,
  LaneOwnershipLostError,
  type LaneSpec,
  type LaneState,
  newLaneState,
  type RangeReplay,
} from '../metadata/lane-state.ts'
import type { NewParked, ParkedPosition } from '../metadata/parked-store-port.ts'
import { batchOf } from './batch.ts'
import { BatchReader, type DroppedMessages } from './batch-reader.ts'
import { RetryWindow } from './clock.ts'
import type { DurableState } from './durable-state.ts'
import type { LaneDeps } from './lane.ts'
import type { Course, PushAttempts } from './push-attempts.ts'
import { ReadAhead } from './read-ahead.ts'
import * as transition from './transitions.ts'

type End = 'done' | 'failed'

export class RangeReplays {
  readonly #destinationId: string
  readonly #lane: DurableState
  readonly #attempts: PushAttempts
  readonly #deps: LaneDeps
  #current: RunningReplay | null = null
  /** The current replay can have been cancelled since it was loaded. */
  #isStale = true
  /** The wait while the store does not respond. */
  readonly #storeRetry: RetryWindow

  constructor(destinationId: string, lane: DurableState, attempts: PushAttempts, deps: LaneDeps) {
    this.#destinationId = destinationId
    this.#lane = lane
    this.#attempts = attempts
    this.#deps = deps
    this.#storeRetry = new RetryWindow(newLaneState(destinationId), deps.clock)
  }

  /** A batch of the current replay has begun and is not settled. */
  get hasBegun(): boolean {
    return this.#current !== null && this.#current.row.batchFirstSeq !== null
  }

  /** Infinity when no replay waits or runs. */
  get dueInMs(): number {
    if (this.#current === null && !this.#deps.parking.counts.hasRanges) return Number.POSITIVE_INFINITY
    const ownAt = this.#isStale ? 0 : (this.#current?.retry.nextAttemptAt ?? 0)
    const at = Math.max(ownAt, this.#storeRetry.nextAttemptAt)
    return Math.max(0, at - this.#deps.clock.monotonicMs())
  }

  /** A replay was requested or cancelled, or the destination was changed. */
  changed(): void {
    this.#isStale = true
    this.#storeRetry.tryNow()
    this.#current?.retry.tryNow()
  }

  /** The batch of a replay is cut again, as the lane's own. */
  reconfigured(before: LaneSpec, after: LaneSpec): void {
    const current = this.#current
    if (current === null) return
    current.course.progress.forgetTimeouts()
    if (!isDeepStrictEqual(before.transform, after.transform))
      current.course.parking.transformChanged(current.row)
    current.change(transition.afterReconfigured(current.row, before, after))
  }

  /** Removes the text of the last error, which can quote a record. Durable when it resolves. */
  async forgetErrorText(): Promise<void> {
    const current = await this.#load()
    if (current === null || current.row.lastError === null) return
    current.change(transition.withoutErrorText(current.row))
    await this.#save(current)
  }

  /** Another replay has taken a greater number. */
  numberTaken(): void {
    if (this.#current !== null) this.#current.batchNo = null
  }

  /** The store does not respond. */
  pause(error: DeliveryError, { maxRetrySeconds }: LaneSpec): void {
    this.#storeRetry.failed()
    this.#storeRetry.pause(error, maxRetrySeconds, this.#deps.random)
  }

  /** As `hasBegun`, after a look whether there is a replay. */
  async hasBegunBatch(): Promise<boolean> {
    await this.#load()
    return this.hasBegun
  }

  /** Makes one attempt, or the step instead of it. Returns false when there is no replay. */
  async run(spec: LaneSpec, interrupt: AbortSignal): Promise<boolean> {
    const current = await this.#load()
    if (current === null) return false
    this.#storeRetry.clear()
    if (current.row.cursorSeq >= current.throughSeq) {
      await this.#end(current, 'done')
      return true
    }
    const memory = { before: async () => {}, signal: interrupt }
    const next = await current.batches.next(current.row, withoutGathering(spec), memory, current.ahead)
    if (next.kind === 'dropped') await this.#expired(current, next)
    else {
      current.change(next.row)
      if (next.kind === 'wait') await this.#end(current, 'done')
      if (next.kind === 'batch')
        try {
          await this.#deliver(current, next.reserved.messages, { spec, interrupt })
        } finally {
          next.reserved.reservation.release()
        }
    }
    return true
  }

  async #load(): Promise<RunningReplay | null> {
    if (!this.#isStale && this.#current !== null) return this.#current
    this.#isStale = false
    const { store, counts } = this.#deps.parking
    if (!counts.hasRanges && this.#current === null) return null
    const found = await store.nextRange(this.#destinationId)
    const before = this.#current
    if (found?.replayId === before?.replayId) return before
    if (before !== null) this.#lane.log.rangeEnded(before.replayId, { state: 'cancelled', ...before.counts })
    this.#current = found === null ? null : await this.#opened(found)
    return this.#current
  }

  async #opened(found: RangeReplay): Promise<RunningReplay> {
    const opened = new RunningReplay(found, this.#lane, this.#attempts, {
      deps: this.#deps,
      inherited: await this.#inherited(found.progress.position),
    })
    if (found.state === 'waiting') {
      opened.startedMs = this.#deps.clock.now()
      // Records that it parks have a greater generation than those that it delivers again.
      const { store, owner } = this.#deps.parking
      const generation = Math.max(await store.numberRange(owner), this.#lane.row.generation + 1)
      opened.change({ ...opened.row, generation })
      this.#lane.log.rangeStarted(found.replayId)
    }
    return opened
  }

  /** The positions that an earlier process has parked in the batch that it attempted. */
  async #inherited({ cursorSeq, batchLastSeq, generation }: LaneState): Promise<readonly ParkedPosition[]> {
    const { store, counts } = this.#deps.parking
    if (batchLastSeq === null || counts.rows === 0) return []
    return await store.parkedIn(this.#destinationId, {
      afterSeq: cursorSeq,
      throughSeq: batchLastSeq,
      generation,
    })
  }

  async #deliver(
    current: RunningReplay,
    messages: readonly MarkedMessage[],
    { spec, interrupt }: { spec: LaneSpec; interrupt: AbortSignal },
  ): Promise<void> {
    const { store, owner } = this.#deps.parking
    if (descriptorOf(spec.type).isExactlyOnce(spec.config)) current.batchNo ??= await store.numberRange(owner)
    if (!current.isSaved) await this.#save(current)
    // A command, or the end of the lane, can have arrived meanwhile. The fixed range can wait.
    if (interrupt.aborted || !(await this.#lane.replicated(interrupt))) return
    if (!this.#deps.isOwned()) throw new LaneOwnershipLostError([this.#destinationId])
    const { attempts } = current.row
    await this.#attempts.run(messages, spec, current.course)
    const isPaused = current.row.attempts > attempts && current.row.nextAttemptMs !== null
    if (isPaused && current.isHopeless(spec)) await this.#end(current, 'failed')
    else await this.#save(current)
  }

  async #expired(current: RunningReplay, { row, reason, firstSeq, lastSeq }: DroppedMessages): Promise<void> {
    const { records } = await current.batches.backlogThrough(current.row, row.cursorSeq)
    current.expiredRecords += records
    current.change(row)
    current.retry.clear()
    this.#lane.log.rangeExpired(current.replayId, { reason, records, first_seq: firstSeq, last_seq: lastSeq })
    await this.#save(current)
  }

  async #end(current: RunningReplay, state: End): Promise<void> {
    // Saved first: until then the replay is the current one.
    await this.#save(current, state)
    this.#current = null
    const { lastError } = current.row
    const error = state === 'failed' ? { code: lastError?.code, message: lastError?.message } : {}
    this.#lane.log.rangeEnded(current.replayId, { state, ...current.counts, ...error })
  }

  async #save(current: RunningReplay, state: 'running' | End = 'running'): Promise<void> {
    await current.countDone(this.#deps.reader)
    this.#lane.park({ kind: 'range', replayId: current.replayId, state, progress: current.progress })
    current.saved()
    await this.#lane.save()
  }
}

/** The replay that runs: its position, in the form in which attempts change that of a lane. */
class RunningReplay {
  readonly replayId: string
  readonly throughSeq: number
  readonly course: Course
  readonly retry: RetryWindow
  readonly batches: BatchReader
  /** Holds nothing: batches of a replay are not read ahead. */
  readonly ahead: ReadAhead
  startedMs: number | null
  expiredRecords: number
  readonly log: Course['state']['log']
  readonly #lane: DurableState
  readonly #pipeId: string
  readonly #after: RangeReplay['after']
  #row: LaneState
  #batchNo: number | null
  #doneMessages: number
  #parkedRecords: number
  #isSaved = false

  constructor(
    { replayId, throughSeq, after, progress }: RangeReplay,
    lane: DurableState,
    attempts: PushAttempts,
    { deps, inherited }: { deps: LaneDeps; inherited: readonly ParkedPosition[] },
  ) {
    this.replayId = replayId
    this.throughSeq = throughSeq
    this.#after = after
    this.#lane = lane
    this.#row = progress.position
    this.startedMs = progress.startedMs
    this.expiredRecords = progress.expiredRecords
    this.#doneMessages = progress.doneMessages
    this.#parkedRecords = progress.parkedRecords
    // Between two batches, another replay can have taken a greater number.
    this.#batchNo = progress.position.batchFirstSeq === null ? null : progress.batchNo
    this.retry = new RetryWindow(progress.position, deps.clock)
    const { pipeId, workspaceId } = lane
    this.#pipeId = pipeId
    const memory = deps.budget.of(workspaceId)
    this.batches = new BatchReader(pipeId, readerUpTo(deps.reader, throughSeq), memory, deps.clock)
    this.ahead = new ReadAhead(pipeId, deps.reader, memory)
    this.log = {
      parked: (parked) => lane.log.parked(parked),
      // These lines are about the lane's own position.
      recovered: () => {},
      stuck: () => {},
      stalled: () => {},
    }
    this.course = attempts.replayCourse(this, this.retry, inherited, (messages, row) => ({
      ...batchOf(row.destinationId, messages, row.recordOffset, this.#batchNo ?? 0),
      identity: v5(`${messages[0]!.seq}-${messages.at(-1)!.seq}`, replayId),
      isReplay: true,
      replayId,
    }))
  }

  get row(): LaneState {
    return this.#row
  }

  get isSaved(): boolean {
    return this.#isSaved
  }

  get batchNo(): number | null {
    return this.#batchNo
  }

  set batchNo(batchNo: number | null) {
    if (batchNo !== this.#batchNo) this.#isSaved = false
    this.#batchNo = batchNo
  }

  get progress() {
    return {
      position: this.#row,
      startedMs: this.startedMs,
      doneMessages: this.#doneMessages,
      parkedRecords: this.#parkedRecords,
      expiredRecords: this.expiredRecords,
      batchNo: this.#batchNo,
    }
  }

  /** For the log. */
  get counts() {
    return {
      messages: this.#doneMessages,
      replayed_records: this.#row.deliveredRecords,
      parked_records: this.#parkedRecords,
      filtered_records: this.#row.filteredRecords,
      expired_records: this.expiredRecords,
    }
  }

  /** Its last error will not pass: a lane that blocks needs a decision, or it has lasted for too long. */
  isHopeless({ maxRetrySeconds }: LaneSpec): boolean {
    const { lastError } = this.#row
    const isRejected = lastError?.class === 'permanent' && lastError.fault !== 'destination'
    return isRejected || this.retry.isStalled(maxRetrySeconds)
  }

  async countDone(reader: BufferReader): Promise<void> {
    const { seq } = this.#after
    const throughSeq = Math.min(this.#row.cursorSeq, this.throughSeq)
    if (throughSeq <= seq) return
    this.#doneMessages = (await reader.backlog(this.#pipeId, this.#after, throughSeq)).messages
  }

  saved(): void {
    this.#isSaved = true
  }

  change(row: LaneState): void {
    if (row === this.#row) return
    this.#row = row
    this.#isSaved = false
  }

  count(counts: Partial<Omit<LaneCounts, 'destinationId' | 'pipeId'>>): void {
    this.#lane.count(counts)
  }

  /** The age of these messages says nothing about the lane. */
  stored(): void {}

  /** No range after the current one is fixed. */
  dropUnsentNext(): void {}

  delivered(row: LaneState, { parked, filtered }: { parked: number; filtered: number }): void {
    const { cursorSeq: afterSeq, deliveredRecords, filteredRecords } = this.#row
    const records = row.deliveredRecords - deliveredRecords - parked - filtered
    this.#parkedRecords += parked
    this.change({
      ...row,
      deliveredRecords: deliveredRecords + records,
      filteredRecords: filteredRecords + filtered,
    })
    const { cursorSeq: throughSeq, generation } = row
    if (throughSeq === afterSeq) return
    this.#lane.replayedRange({ afterSeq, throughSeq, generation }, { records, filtered })
  }

  /** Saved with the progress. Until then the message is attempted again. */
  async parked(message: MarkedMessage, parked: NewParked): Promise<void> {
    const { recordOffset, deliveredRecords } = this.#row
    const moved = transition.afterParked(this.#row, message)
    this.change({ ...moved, deliveredRecords: deliveredRecords + recordOffset })
    this.#parkedRecords += parked.recordCount
    this.#lane.park({ kind: 'message', parked })
    this.#lane.park({ kind: 'range', replayId: this.replayId, state: 'running', progress: this.progress })
    await this.#lane.save()
  }
}

/** The messages are all there: a batch does not wait for more. */
function withoutGathering(spec: LaneSpec): LaneSpec {
  return { ...spec, flush: { ...spec.flush, maxSeconds: 0 } }
}

/** Reads the pipe as if this message were its last one. */
function readerUpTo(reader: BufferReader, lastSeq: number): BufferReader {
  const upTo = (seq = lastSeq) => Math.min(seq, lastSeq)
  return {
    read: (pipeId, afterSeq, limits) =>
      reader.read(pipeId, afterSeq, { ...limits, throughSeq: upTo(limits.throughSeq) }),
    backlog: (pipeId, after, throughSeq) => reader.backlog(pipeId, after, upTo(throughSeq)),
    head: (pipeId) => reader.cursorAt(pipeId, lastSeq),
    heads: (afterSeq) => reader.heads(afterSeq),
    earliest: (pipeId) => reader.earliest(pipeId),
    cursorAt: (pipeId, seq) => reader.cursorAt(pipeId, upTo(seq)),
    cursorAtTime: (pipeId, timeMs) => reader.cursorAtTime(pipeId, timeMs),
    relocate: (pipeId, cursor) => reader.relocate(pipeId, cursor),
    pipeIds: () => reader.pipeIds(),
    close: async () => {},
  }
}
