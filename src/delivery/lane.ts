/**
 * A lane: one destination's way through its pipe's messages, in order, one batch in flight.
 *
 * One loop owns the lane's row; whatever comes from outside (skip, retry-now, rewind, a changed destination) is a
 * command that the loop runs between two steps, after it has settled the attempt under way. So there is never a
 * question who changes the row.
 *
 *            ┌───────────────────────── nothing pending ◀────────────────┐
 *            ▼                                                           │
 *        (waiting) ──due──▶ range fixed and saved ──▶ attempt ──stored──▶ cursor moves
 *            ▲                      ▲   ▲                │
 *            │                      │   │                ├─ transient ─▶ pause (backoff), same range again
 *         command,                  │   └── narrowed ◀───┼─ permanent, several messages ─▶ first part of them
 *         notice,                   └────── pause ◀──────┼─ permanent, one message ─▶ blocked at it: every 300 s
 *         5 s at most                                    └─ interrupted ─▶ command, same range again (no attempt)
 *
 * Seen from outside: `idle` nothing pending · `flowing` · `retrying` a message is blocking · `stalled` it has been for
 * longer than destination_max_retry_seconds · `blocked` by its status: no attempts, the backlog stays.
 *
 * What a crash leaves, line by line (every save is one fsync; the cursor's move and the next range are one save):
 *
 *   | the process dies …                          | the row says     | after restart                          |
 *   |---------------------------------------------|------------------|----------------------------------------|
 *   | before a new range is saved                 | cursor           | a range is cut anew; nothing was sent  |
 *   | after it, before or during the attempt      | cursor, range    | the same range, the same identity      |
 *   | after the destination stored it, reply lost | cursor, range    | the same range again: at least once    |
 *   | after the reply, before the save            | cursor, range    | the same range again: at least once    |
 *   | after the save                              | cursor after it  | the next range                         |
 *   | between two parts of a narrowed batch       | suspects, range  | the search goes on where it was        |
 *   | during a pause                              | failure, range   | the same range, after at most 60 s     |
 */
import assert from 'node:assert'
import type { StoredMessage } from '../buffer/buffer.ts'
import type { DeliveryError } from '../destinations/driver.ts'
import { attemptDelivery, attemptLimitMs } from './attempt.ts'
import { batchOf } from './batch-identity.ts'
import { BatchReader, type DroppedMessages, type HeldBatch } from './batch-reader.ts'
import type { LaneCounts, LaneRow, LaneSpec } from './delivery.ts'
import type { LaneDeps } from './lane-deps.ts'
import { LaneDriver } from './lane-driver.ts'
import { type LaneLog, openLaneLog } from './lane-log.ts'
import * as transition from './lane-row.ts'
import { RetryWindow } from './retry-window.ts'
import { levelCheckMs, Sleeper } from './sleeper.ts'

/** How often an open batch is looked at while it gathers: notices come too often for a query each. */
const gatherCheckMs = 100

export class Lane {
  #spec: LaneSpec
  #row: LaneRow
  #savedCursorSeq: number
  #counts: LaneCounts
  #isDirty = false
  readonly #deps: LaneDeps
  readonly #log: LaneLog
  readonly #batches: BatchReader
  readonly #driver: LaneDriver
  readonly #retry: RetryWindow
  readonly #sleeper: Sleeper
  #held: HeldBatch | null = null

  readonly #commands: (() => Promise<void>)[] = []
  #interruptStep: (() => void) | null = null
  #interruptAttempt: (() => void) | null = null
  #isFloorDue = true
  #state: 'new' | 'running' | 'closing' | 'removed' | 'closed' = 'new'
  #done: Promise<void> = Promise.resolve()

  constructor(spec: LaneSpec, row: LaneRow, deps: LaneDeps) {
    this.#spec = spec
    this.#row = row
    this.#deps = deps
    this.#savedCursorSeq = row.cursorSeq
    this.#counts = noCounts(spec.pipeId)
    this.#batches = new BatchReader(spec.pipeId, deps.reader, deps.budget, deps.clock)
    this.#retry = new RetryWindow(row, deps.clock)
    this.#sleeper = new Sleeper(deps.clock)
    this.#driver = new LaneDriver(deps.clock, deps.log)
    this.#log = openLaneLog(deps.log, spec)
  }

  get spec(): LaneSpec {
    return this.#spec
  }
  get row(): LaneRow {
    return this.#row
  }
  /** What a restart would begin with: retention may go by no other cursor. */
  get savedCursorSeq(): number {
    return this.#savedCursorSeq
  }
  get batches(): BatchReader {
    return this.#batches
  }
  /** The window of eager retries is over. */
  get isStalled(): boolean {
    return this.#retry.isStalled(this.#spec.maxRetrySeconds)
  }

  /** Resolves when the lane is closed; rejects with what makes going on senseless (the thread ends with it). */
  start(): Promise<void> {
    assert(this.#state === 'new')
    this.#state = 'running'
    this.#done = this.#run()
    return this.#done
  }

  /** The pipe has new messages: an idle lane looks at once, any other when it comes to it. */
  notice(): void {
    this.#sleeper.notice()
  }

  /** Retention dropped something: whatever the lane waits for, it counts what it has lost. */
  noticeDropped(): void {
    this.#isFloorDue = true
    this.#sleeper.wake()
  }

  /** True: moved past the blocking message. */
  async skip(): Promise<boolean> {
    if (!this.#isBlocking()) return false
    return await this.#command(false, async () => {
      if (!this.#isBlocking()) return false
      const message = await this.blockingMessage()
      if (message === null) return false
      this.#change(transition.afterSkip(this.#row, message))
      this.#counts.skippedRecords += message.recordCount
      this.#retry.clear()
      await this.#save()
      this.#log.skipped(message)
      return true
    })
  }

  /** The `msg_id` that is tried again at once; null: nothing was blocking. */
  async retryNow(): Promise<string | null> {
    if (!this.#isBlocking()) return null
    return await this.#command(null, async () => {
      if (!this.#isBlocking()) return null
      this.#change(transition.afterRetryNow(this.#row))
      this.#retry.tryNow()
      return this.#row.blockingMsgId
    })
  }

  /** Back to an earlier cursor, never forward: that would pass messages over. Answers the new cursor. */
  async rewind(find: () => Promise<number>): Promise<number> {
    return await this.#command(this.#row.cursorSeq, async () => {
      const row = await this.#batches.located(this.#row)
      const floor = await this.#deps.reader.floor(this.#spec.pipeId)
      const cursorSeq = Math.min(Math.max(await find(), floor.seq), row.cursorSeq)
      const position = await this.#deps.reader.positionAt(this.#spec.pipeId, cursorSeq)
      this.#change(transition.afterRewind(row, cursorSeq, transition.totalsOf(position)))
      this.#retry.clear()
      await this.#save()
      this.#log.rewound(cursorSeq)
      return cursorSeq
    })
  }

  /** The destination was changed: its driver is opened anew and what failed is tried again at once. */
  async reconfigure(spec: LaneSpec): Promise<void> {
    await this.#command(undefined, async () => {
      this.#spec = spec
      this.#retry.tryNow()
      if (this.#row.blockingMsgId !== null) this.#change(transition.afterRetryNow(this.#row))
      await this.#driver.close()
    })
  }

  /** The message the lane stands at, if it is still kept. */
  async blockingMessage(): Promise<StoredMessage | null> {
    const { blockingMsgId, cursorSeq } = this.#row
    if (blockingMsgId === null) return null
    const run = await this.#deps.reader.read(this.#spec.pipeId, cursorSeq, { maxRecords: 1, maxBytes: 1 })
    const first = run.messages[0]
    return first?.msgId === blockingMsgId ? first : null
  }

  /**
   * No new attempt; the one under way may finish for `graceMs`, then it is aborted (which is not an attempt); the row
   * is saved. Resolves when all that is done.
   */
  async close(graceMs: number): Promise<void> {
    await this.#end('closing', graceMs)
  }

  /** The destination was deleted: like close, without saving anything. */
  async remove(): Promise<void> {
    await this.#end('removed', 0)
  }

  async #end(state: 'closing' | 'removed', graceMs: number): Promise<void> {
    if (this.#state === 'new') this.#state = 'closed'
    if (this.#state === 'running') this.#state = state
    this.#interruptStep?.()
    this.#sleeper.wake()
    const abort = () => this.#interruptAttempt?.()
    if (graceMs <= 0) abort()
    const cancel = this.#deps.clock.wake(graceMs, abort)
    await this.#done
    cancel()
  }

  async #run(): Promise<void> {
    while (this.#state === 'running') {
      const command = this.#commands.shift()
      if (command !== undefined) await command()
      else await this.#step()
    }
    this.#release()
    if (this.#state === 'closing' && this.#isDirty) await this.#save()
    await this.#driver.close()
    this.#state = 'closed'
    // Nobody waits for ever: what was asked too late is answered as not done.
    for (const command of this.#commands.splice(0)) await command()
  }

  async #step(): Promise<void> {
    if (this.#isFloorDue) await this.#countLost()
    const nowAt = this.#deps.clock.monotonicMs()
    if (this.#spec.status === 'blocked' || this.#retry.nextAttemptAt > nowAt) {
      this.#release()
      await this.#pause(this.#spec.status === 'blocked' ? levelCheckMs : this.#retry.nextAttemptAt - nowAt)
      // Whatever it waits for, what it has lost meanwhile is counted.
      this.#isFloorDue = true
      return
    }
    if (this.#held === null && !(await this.#prepare())) return
    await this.#saveIfDirty()
    // A command or the end may have come during the save: the range is fixed, it can wait.
    if (this.#commands.length === 0 && this.#state === 'running') await this.#attempt(this.#held!)
  }

  /** True: messages are held and their range is in the row. */
  async #prepare(): Promise<boolean> {
    const interrupt = new AbortController()
    this.#interruptStep = () => interrupt.abort()
    const memory = { before: () => this.#saveIfDirty(), signal: interrupt.signal }
    this.#sleeper.look()
    const next = await this.#batches.next(this.#row, this.#spec, memory)
    this.#interruptStep = null
    if (next.row !== this.#row) this.#change(next.row)
    switch (next.kind) {
      case 'batch':
        this.#held = next.held
        return true
      case 'wait':
        if (next.waitMs === Number.POSITIVE_INFINITY) await this.#idle()
        else await this.#pause(Math.min(next.waitMs, gatherCheckMs))
        return false
      case 'dropped':
        await this.#dropped(next)
        return false
      case 'interrupted':
        return false
    }
  }

  async #countLost(): Promise<void> {
    this.#isFloorDue = false
    const lost = await this.#batches.lost(this.#row)
    if (lost === null) return
    this.#release()
    this.#change(lost.row)
    await this.#dropped(lost)
  }

  async #dropped(lost: DroppedMessages): Promise<void> {
    this.#retry.clear()
    this.#log.dropped(lost)
    await this.#save()
  }

  async #attempt(held: HeldBatch): Promise<void> {
    const messages = held.messages.filter(({ seq }) => seq <= this.#row.batchLastSeq!)
    const rest = held.messages.slice(messages.length)
    const batch = batchOf(this.#spec.destinationId, messages)
    const open = () => this.#deps.openDriver(this.#spec)
    const deliver = (signal: AbortSignal) => this.#driver.deliver(batch, signal, open)
    const interrupt = new AbortController()
    this.#interruptAttempt = () => interrupt.abort()
    const startedAt = this.#deps.clock.monotonicMs()
    const limitMs = attemptLimitMs(this.#spec, batch)
    const outcome = await attemptDelivery(deliver, limitMs, interrupt.signal, this.#deps)
    this.#interruptAttempt = null
    const ms = this.#deps.clock.monotonicMs() - startedAt
    this.#log.attempted(batch, this.#row.attempts + 1, outcome, ms)
    if (outcome.isHung) await this.#driver.close()
    if (outcome.kind === 'delivered') this.#delivered(messages, rest)
    if (outcome.kind === 'failed') this.#failed(messages, rest, outcome.error)
  }

  #delivered(messages: StoredMessage[], rest: StoredMessage[]): void {
    const hadFailed = this.#row.attempts > 0
    this.#change(transition.afterDelivered(this.#row, messages, rest, this.#deps.clock.now()))
    this.#counts.deliveredRecords += transition.recordsOf(messages)
    this.#deps.onAttempt('delivered', this.#spec)
    this.#retry.answered()
    if (rest.length > 0) {
      this.#held!.messages = rest
      this.#held!.hold.resize(transition.bytesOf(rest))
      return
    }
    this.#release()
    this.#retry.clear()
    if (hadFailed) this.#log.recovered()
  }

  #failed(messages: StoredMessage[], rest: StoredMessage[], error: DeliveryError): void {
    const now = this.#deps.clock.now()
    this.#counts.failedAttempts += 1
    this.#deps.onAttempt(error.class, this.#spec)
    this.#retry.failed()
    if (error.class === 'permanent' && messages.length > 1) {
      this.#retry.answered()
      this.#change(transition.afterNarrowing(this.#row, messages, rest, error, now))
      this.#held!.messages = this.#held!.messages.filter(({ seq }) => seq <= this.#row.suspectLastSeq!)
      return
    }
    const wasStanding = this.#row.lastError?.class === 'permanent' && this.#row.suspectLastSeq === null
    const { delayMs, hasStalled } = this.#retry.pause(error, this.#spec.maxRetrySeconds, this.#deps.random)
    this.#change(transition.afterPause(this.#row, messages, error, now + delayMs, now))
    if (error.class === 'permanent' && !wasStanding) this.#log.blocked(messages[0]!, error)
    if (hasStalled) this.#log.stalled(messages[0]!, error)
  }

  #isBlocking(): boolean {
    return this.#spec.status !== 'blocked' && this.#row.blockingMsgId !== null
  }

  /** Runs between two steps, after the attempt under way was settled. `late`: the answer of a lane that is closed. */
  #command<T>(late: T, run: () => Promise<T>): Promise<T> {
    if (this.#state === 'closed') return Promise.resolve(late)
    return new Promise((resolve, reject) => {
      this.#commands.push(async () => {
        if (this.#state !== 'running') return resolve(late)
        try {
          // The range may be about to change: what is held is read again.
          this.#release()
          resolve(await run())
        } catch (error) {
          reject(error)
          throw error
        }
      })
      this.#interruptStep?.()
      this.#interruptAttempt?.()
      this.#sleeper.wake()
    })
  }

  /** Nothing to do until a notice comes; a lost one costs a level check. */
  async #idle(): Promise<void> {
    if (this.#sleeper.isNoticed) return
    await this.#beforeSleep()
    await this.#sleeper.untilNoticed()
  }

  async #pause(ms: number): Promise<void> {
    const atMs = this.#deps.clock.monotonicMs() + ms
    await this.#beforeSleep()
    await this.#sleeper.until(atMs)
  }

  async #beforeSleep(): Promise<void> {
    await this.#saveIfDirty()
    await this.#driver.closeIdle()
  }

  #change(row: LaneRow): void {
    this.#row = row
    this.#isDirty = true
  }

  #release(): void {
    this.#held?.hold.release()
    this.#held = null
  }

  async #saveIfDirty(): Promise<void> {
    if (this.#isDirty) await this.#save()
  }

  async #save(): Promise<void> {
    // Its row is gone: it must not be written again.
    if (this.#state === 'removed') return
    const row = this.#row
    const counts = this.#counts
    this.#isDirty = false
    this.#counts = noCounts(this.#spec.pipeId)
    const hasCounts = counts.deliveredRecords + counts.failedAttempts + counts.skippedRecords > 0
    await this.#deps.save(row, hasCounts ? counts : null)
    this.#savedCursorSeq = row.cursorSeq
    this.#deps.onSaved()
  }
}

function noCounts(pipeId: string): LaneCounts {
  return { pipeId, deliveredRecords: 0, failedAttempts: 0, skippedRecords: 0 }
}
