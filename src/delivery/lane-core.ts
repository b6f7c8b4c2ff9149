/**
 * The part that push and pull lanes share: the durable state, the mailbox, the loop, which is the only code that
 * changes the state, and the ways in which a lane ends.
 *
 *   new ──start──▶ running: a command, if there is one, else a step ──end──▶ ending ──▶ ended
 *                     │                                                         ▲
 *                     └── a save or a read fails ─▶ only a lost ownership, or an unavailable store or buffer, ends
 *                                                   the lane alone; anything else rejects `start()`
 *
 *   asked to end | its row                    | commands that were queued before | later ones
 *   -------------|----------------------------|----------------------------------|------------
 *   closed       | saved                      | are run                          | late result
 *   removed      | not saved, it is gone      | late result                      | late result
 *   handed over  | not saved, another owner's | late result                      | late result
 *
 * `end` waits for the loop and posts no command, so it rejects only with the unrecoverable error of `start()`, never
 * because of a lost ownership. A command that is under way during a hand-over rejects with LaneOwnershipLostError when
 * it saves, so its caller never gets a success.
 */
import assert from 'node:assert'
import type { LaneStatus } from '../contract/destination.ts'
import { BufferReadUnavailableError, type MarkedMessage } from '../log/buffer.ts'
import {
  LaneOwnershipLostError,
  type LaneSpec,
  type LaneState,
  LaneStoreUnavailableError,
} from '../metadata/lane-state.ts'
import type { ParkedCounts } from '../metadata/parked-store-port.ts'
import { StorageUnavailableError } from '../platform/error-code.ts'
import type { HistogramCounts } from '../platform/histogram.ts'
import { BatchReader } from './batch-reader.ts'
import { type Clock, RetryWindow } from './clock.ts'
import type { AttemptCounts, RewindResult, SkipResult } from './delivery.ts'
import { DurableState } from './durable-state.ts'
import type { Lane, LaneBacklog, LaneDeps, LaneEnd, LaneView, PullConsumers } from './lane.ts'
import { isBlocking, laneBacklog, laneStatus } from './lane-status.ts'
import { withoutErrorText } from './transitions.ts'

export abstract class LaneCore implements Lane {
  abstract readonly consumers: PullConsumers | null
  abstract readonly attempts: AttemptCounts
  readonly view: LaneView
  protected readonly deps: LaneDeps
  protected readonly state: DurableState
  protected readonly batches: BatchReader
  protected readonly retry: RetryWindow
  protected readonly mailbox: Mailbox
  #spec: LaneSpec
  #end: LaneEnd | null = null
  #ended: Promise<void> | null = null

  constructor(spec: LaneSpec, row: LaneState, deps: LaneDeps) {
    this.#spec = spec
    this.deps = deps
    this.state = new DurableState(spec, row, deps)
    const memory = deps.budget.of(spec.workspaceId)
    this.batches = new BatchReader(spec.pipeId, deps.reader, memory, deps.clock)
    this.view = new View(this, this.state, deps)
    this.retry = new RetryWindow(row, deps.clock)
    this.mailbox = new Mailbox(deps.clock, () => this.interrupt())
  }

  get spec(): LaneSpec {
    return this.#spec
  }
  get epoch(): number {
    return this.deps.epoch
  }
  get savedCursorSeq(): number {
    return this.state.savedCursorSeq
  }
  get row(): LaneState {
    return this.state.row
  }
  get isStalled(): boolean {
    return this.retry.isStalled(this.#spec.maxRetrySeconds)
  }
  get latency(): HistogramCounts {
    return this.state.latency.seconds
  }
  get parked(): ParkedCounts {
    return this.deps.parking.counts
  }

  start(): Promise<void> {
    assert(this.#ended === null)
    this.#ended = this.#run()
    return this.#ended
  }

  abstract notify(): void
  abstract notifyHead(seq: number): void
  abstract notifyErased(): void
  abstract notifyDropped(): void

  async skip(): Promise<SkipResult> {
    if (!isBlocking(this.spec, this.row)) return false
    return await this.ask<SkipResult>(false, async () => {
      const message = isBlocking(this.spec, this.row) ? await this.state.blockingMessage() : null
      if (message === null) return false
      if (!(await this.state.skipped(message))) return 'parked_full'
      this.moved()
      return true
    })
  }

  abstract retryNow(): Promise<string | null>

  async rewind(find: () => Promise<number>): Promise<RewindResult> {
    const unmoved: RewindResult = { kind: 'rewound', cursorSeq: this.row.cursorSeq }
    return await this.ask(unmoved, async () => {
      this.state.change(await this.batches.located(this.row))
      const result = await this.state.rewind(find)
      if (result.kind === 'rewound') this.moved()
      return result
    })
  }

  async parkedChanged(): Promise<void> {
    await this.deps.parking.refresh()
  }

  async reread(): Promise<void> {
    await this.ask(undefined, async () => {
      this.state.change(withoutErrorText(this.row))
      await this.forgetRecords()
      await this.state.save()
    })
  }

  async reconfigure(spec: LaneSpec): Promise<void> {
    await this.command(undefined, async () => {
      const before = this.#spec
      this.#spec = spec
      this.state.log.renamed(spec)
      await this.reconfigured(before)
    })
  }

  async end(how: LaneEnd, graceMs = 0): Promise<void> {
    // A lane that loses its pipe while it closes must not save any more.
    if (this.#end === null || how !== 'closed') this.#end = how
    if (how !== 'closed') this.state.detach(how)
    if (this.#ended === null) this.mailbox.close()
    this.deps.reader.stopWaiting()
    this.wake()
    if (graceMs <= 0) this.abortAttempt()
    const cancel = this.deps.clock.wake(graceMs, () => this.abortAttempt())
    await this.#ended
    cancel()
  }

  /** How the lane was asked to end; null when it was not. */
  protected get requestedEnd(): LaneEnd | null {
    return this.#end
  }

  /** One step of the lane when no command is waiting. It waits for `wake` while there is nothing to do. */
  protected abstract step(): Promise<void>
  /** Ends a wait of `step`. */
  protected abstract wake(): void
  /** Called when the lane moved past its blocking message, or its cursor moved back. */
  protected moved(): void {
    this.retry.clear()
  }
  /** Called within the command that changed the destination. */
  protected async reconfigured(_before: LaneSpec): Promise<void> {}
  /** Called within the command that makes the lane read again. */
  protected async forgetRecords(): Promise<void> {}
  /** Aborts the current work, which then does not count as an attempt. */
  protected abortAttempt(): void {}
  /** Wraps every command. */
  protected around<T>(run: () => Promise<T>): Promise<T> {
    return run()
  }
  /** Called when the loop ends. */
  protected release(): void {}
  /** The last call of the loop. */
  protected async closed(): Promise<void> {}

  /** Runs between two steps, after the current attempt has ended. */
  protected command<T>(late: T, run: () => Promise<T>): Promise<T> {
    return this.mailbox.post(late, () => this.around(run))
  }

  /** Like `command`, for a caller that waits for the outcome. */
  protected ask<T>(late: T, run: () => Promise<T>): Promise<T> {
    return this.mailbox.ask(late, () => this.around(run))
  }

  protected interrupt(): void {
    this.wake()
    this.abortAttempt()
  }

  async #run(): Promise<void> {
    try {
      while (this.#end === null) if (!(await this.mailbox.runNext())) await this.step()
      this.release()
      if (this.#end === 'closed') {
        await this.mailbox.drain()
        await this.state.saveAtEnd()
      }
      this.mailbox.close()
    } catch (error) {
      this.release()
      await this.#failed(error)
    } finally {
      await this.closed()
    }
  }

  /** Rejects with errors that must not be ignored. */
  async #failed(error: unknown): Promise<void> {
    if (isUnavailable(error)) this.mailbox.close()
    else this.mailbox.fail(error)
    // Both occur only while closing: a restart continues from the last save.
    if (error instanceof BufferReadUnavailableError) await this.#saveAtEnd()
    else if (error instanceof LaneStoreUnavailableError) this.state.log.notSaved()
    else if (error instanceof LaneOwnershipLostError) this.state.log.ownershipLost()
    else throw error
  }

  async #saveAtEnd(): Promise<void> {
    try {
      await this.state.saveAtEnd()
    } catch (error) {
      if (error instanceof LaneOwnershipLostError) this.state.log.ownershipLost()
      else if (error instanceof LaneStoreUnavailableError) this.state.log.notSaved()
      else throw error
    }
  }
}

function isUnavailable(error: unknown): boolean {
  return error instanceof LaneStoreUnavailableError || error instanceof BufferReadUnavailableError
}

/** Reads without the lane's loop. It rejects where the loop would wait for the buffer. */
class View implements LaneView {
  readonly #lane: LaneCore
  readonly #state: DurableState
  readonly #deps: LaneDeps
  readonly #batches: BatchReader

  constructor(lane: LaneCore, state: DurableState, deps: LaneDeps) {
    this.#lane = lane
    this.#state = state
    this.#deps = deps
    const { pipeId, workspaceId } = lane.spec
    this.#batches = new BatchReader(pipeId, deps.viewReader, deps.budget.of(workspaceId), deps.clock)
  }

  async status(): Promise<LaneStatus> {
    const { spec, row, isStalled, parked } = this.#lane
    const nowMs = this.#deps.clock.now()
    const unmappedKeys = this.#deps.steps.drift.unmapped(spec)?.keys ?? 0
    return laneStatus({ spec, row, batches: this.#batches, isStalled, parked, unmappedKeys, nowMs })
  }

  backlog(): Promise<LaneBacklog> {
    return laneBacklog(this.#lane.spec, this.#lane.row, this.#batches)
  }

  blockingMessage(): Promise<MarkedMessage | null> {
    return this.#state.blockingMessage(this.#deps.viewReader)
  }
}

/**
 * Queues requests to a lane (skip, retry-now, rewind, a pull, …) as commands. The lane's own loop runs them one after
 * the other, so that only the loop changes the lane's state.
 *
 *   open ──post──▶ queued ──runNext──▶ run: the caller gets the result; an error goes to the caller and to the loop
 *    ├──close──▶ closed: queued and later commands resolve with their `late` value
 *    ├──drain──▶ closed for new commands: queued ones are run
 *    └──fail───▶ failed: the same, but rejects: the lane has ended on an error
 *
 * A lane that cannot save (a full disk) runs no command until it can. Callers do not wait that long: a command that was
 * not started in time is withdrawn, so that a repeated request does not run it twice. A started command continues
 * without its caller.
 */
type Ending = 'late' | { error: unknown }

/** How long the caller of `ask` waits. */
const commandDeadlineMs = 10_000

interface Command {
  run(): Promise<void>
  end(how: Ending): void
}

class Mailbox {
  readonly #commands: Command[] = []
  readonly #clock: Clock
  readonly #onPost: () => void
  #ending: Ending | null = null

  /** `onPost` is called when a command is waiting. */
  constructor(clock: Clock, onPost: () => void) {
    this.#clock = clock
    this.#onPost = onPost
  }

  get isEmpty(): boolean {
    return this.#commands.length === 0
  }

  /** `late` is the result when the lane ends before the command runs. */
  post<T>(late: T, run: () => Promise<T>): Promise<T> {
    return this.#post(late, run).done
  }

  /** Rejects with StorageUnavailableError when the command has not ended in time. */
  async ask<T>(late: T, run: () => Promise<T>): Promise<T> {
    const { command, done } = this.#post(late, run)
    let cancel = () => {}
    const overdue = new Promise<never>((_, reject) => {
      cancel = this.#clock.wake(commandDeadlineMs, () => {
        const at = this.#commands.indexOf(command)
        if (at >= 0) this.#commands.splice(at, 1)
        reject(new StorageUnavailableError('the state of the lane could not be saved in time'))
      })
    })
    try {
      return await Promise.race([done, overdue])
    } finally {
      cancel()
    }
  }

  #post<T>(late: T, run: () => Promise<T>): { command: Command; done: Promise<T> } {
    const { promise, resolve, reject } = withResolvers<T>()
    const end = (how: Ending) => (how === 'late' ? resolve(late) : reject(how.error))
    const runAndReport = async () => {
      try {
        resolve(await run())
      } catch (error) {
        reject(error)
        throw error
      }
    }
    const command = { run: runAndReport, end }
    if (this.#ending !== null) end(this.#ending)
    else {
      this.#commands.push(command)
      this.#onPost()
    }
    return { command, done: promise }
  }

  /** Runs the oldest command. Returns false when there is none. Rejects with the command's error. */
  async runNext(): Promise<boolean> {
    const command = this.#commands.shift()
    await command?.run()
    return command !== undefined
  }

  /** Runs the queued commands. Later ones are not run. */
  async drain(): Promise<void> {
    this.#ending ??= 'late'
    while (await this.runNext()) {}
  }

  close(): void {
    this.#end('late')
  }

  fail(error: unknown): void {
    this.#end({ error })
  }

  #end(how: Ending): void {
    this.#ending ??= how
    for (const command of this.#commands.splice(0)) command.end(how)
  }
}

function withResolvers<T>() {
  let resolve: (value: T) => void = () => {}
  let reject: (error: unknown) => void = () => {}
  const promise = new Promise<T>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}
