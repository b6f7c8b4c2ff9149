/**
 * One pipe whose lanes this process runs, with the queue of all work that changes its set of lanes.
 *
 *   idle ──reconcile, owned──▶ opening ──every wanted lane runs──▶ complete ──a lane is missing──▶ opening
 *    ▲                            │                                   │
 *    └──release: lanes close──────┴───────────────────────────────────┘
 *    └──reconcile, no longer owned or deleted: lanes end without saving
 *
 * Invariants:
 *   1. `reconcile` and `release` run in the queue, one after the other. The last state of metadata that was read wins.
 *   2. All lanes in `lanes` were opened under `epoch`. A pipe that was lost and gained again gets new lanes.
 *   3. The pipe is complete while every wanted destination has its lane. Only then is its low watermark known: it is the
 *      smallest saved cursor of all of them, and a missing lane can be behind the others.
 *   4. A lane that the queue ends leaves `lanes` first, and has ended before another lane of its destination is opened. One that
 *      `handOverAll` ends leaves when it has ended.
 *
 * At each `await` in the queue only the following can happen: the pipe is lost (`handOverAll`, which does not wait for
 * the queue); a lane ends because a save found a newer owner (`forget`); messages are committed; the low watermark is
 * read; the set closes all lanes. None of these adds a lane. A lane that is being opened while the pipe is lost detects
 * it at its first step, because its epoch is no longer valid.
 */
import type { LowWatermark } from '../log/buffer.ts'
import type { LaneOwnership } from '../metadata/lane-ownership.ts'
import { LaneOwnershipLostError, type LaneSpec, type PipeLanes } from '../metadata/lane-state.ts'
import type { Logger } from '../platform/log.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import type { Lane } from './lane.ts'
import { namesOf } from './lane-log.ts'

export interface OwnedPipeDeps {
  ownership: Pick<LaneOwnership, 'owned' | 'holds'>
  /** Takes the lane's row with this epoch. The lane is not started yet. */
  openLane(spec: LaneSpec, epoch: number): Promise<Lane>
  /** The lane was added to `lanes`: start it. */
  onAdded(lane: Lane): void
  /** The lane was removed from `lanes`. */
  onForgotten(lane: Lane): void
  /** Metadata does not know the pipe. */
  onGone(pipeId: string): Promise<void>
  log: Logger
}

export class OwnedPipe {
  readonly pipeId: string
  readonly #deps: OwnedPipeDeps
  readonly #lanes = new Map<string, Lane>()
  /** The epoch of the ownership with which the lanes were opened; null when this process does not own the pipe. */
  #epoch: number | null = null
  /** The pipe in metadata at the start of the last reconciliation; null when not owned. */
  #wanted: PipeLanes | null = null
  /** Lanes that finish their current work before another process gets the pipe. */
  #releasing: readonly Lane[] = []
  #committedSeq = 0
  readonly #queue = new SerialQueue()

  constructor(pipeId: string, deps: OwnedPipeDeps) {
    this.pipeId = pipeId
    this.#deps = deps
  }

  get isOwned(): boolean {
    return this.#epoch !== null
  }

  /** True when nothing about this pipe has to be remembered. */
  get isIdle(): boolean {
    return !this.isOwned && this.#queue.size === 0
  }

  /** True when every wanted destination has its lane. */
  get isComplete(): boolean {
    return this.#wanted?.lanes.every(({ destinationId }) => this.#lanes.has(destinationId)) ?? false
  }

  /** The newest message reported by the feed; 0 when there was none since the pipe is owned. */
  get committedSeq(): number {
    return this.#committedSeq
  }

  /** See `PipeLanes`. */
  get retentionHours(): number | null {
    return this.#wanted?.retentionHours ?? null
  }

  lanes(): Lane[] {
    return [...this.#lanes.values()]
  }

  /** Runs after all earlier work. Rejects with the error of `work`, which does not stop the queue. */
  async inTurn(work: () => Promise<void>): Promise<void> {
    await this.#queue.run(work)
  }

  /** Resolves when all earlier work has ended. */
  async settled(): Promise<void> {
    await this.#queue
  }

  /** Runs in the queue. `wanted` is the pipe in metadata; null when metadata does not have it. */
  async reconcile(wanted: PipeLanes | null): Promise<void> {
    const epoch = this.#deps.ownership.owned(this.pipeId)
    await this.#endLanes(wanted, epoch)
    if (wanted === null || epoch === null) {
      this.#loseOwnership()
      // A pipe of another owner is unknown here, but not deleted.
      if (wanted === null) await this.#deps.onGone(this.pipeId)
      return
    }
    this.#publish(wanted, epoch)
    await this.#openLanes(wanted, epoch)
  }

  /** Runs in the queue. When it resolves, everything that the lanes did is saved and another process can take the pipe. */
  async release(graceMs: number): Promise<void> {
    if (this.#deps.ownership.owned(this.pipeId) !== null) return
    const lanes = this.lanes()
    this.#releasing = lanes
    for (const lane of lanes) this.forget(lane)
    this.#loseOwnership()
    await Promise.all(lanes.map((lane) => lane.end('closed', graceMs)))
    this.#releasing = []
  }

  /** The pipe is lost: no lane can save any more, not even those that were being released. Does not wait for the queue. */
  handOverAll(): void {
    // `start()` has rejected with the same error.
    for (const lane of [...this.#lanes.values(), ...this.#releasing]) lane.end('handed over').catch(() => {})
  }

  /** The lane has ended or is about to end. */
  forget(lane: Lane): void {
    if (this.#lanes.get(lane.spec.destinationId) !== lane) return
    this.#lanes.delete(lane.spec.destinationId)
    this.#deps.onForgotten(lane)
  }

  committed(seq: number): void {
    if (!this.isOwned) return
    this.#committedSeq = seq
    for (const lane of this.#lanes.values()) lane.notify()
  }

  /**
   * The smallest saved cursor, for retention; 0 without lanes. Null while it is unknown: a lane is missing, or another
   * owner has the pipe and can have added destinations or rewound a lane.
   */
  lowWatermark(): Omit<LowWatermark, 'pipeId'> | null {
    if (this.#wanted === null || this.#epoch === null || !this.isComplete) return null
    if (!this.#deps.ownership.holds(this.pipeId, this.#epoch)) return null
    const { workspaceId, retentionHours } = this.#wanted
    const cursors = this.lanes().map((lane) => lane.savedCursorSeq)
    return { workspaceId, seq: cursors.length === 0 ? 0 : Math.min(...cursors), retentionHours }
  }

  /**
   * First step: hands over lanes of an earlier epoch, which cannot save any more, and removes lanes of deleted
   * destinations.
   */
  async #endLanes(wanted: PipeLanes | null, epoch: number | null): Promise<void> {
    const types = new Map(wanted?.lanes.map(({ destinationId, type }) => [destinationId, type]))
    const isOurs = epoch !== null && (this.#epoch ?? epoch) === epoch
    for (const lane of this.lanes()) {
      const { destinationId, type } = lane.spec
      if (isOurs && types.get(destinationId) === type) continue
      this.forget(lane)
      await lane.end(isOurs ? 'removed' : 'handed over')
    }
  }

  /** Second step: from now on the running lanes can be found, and the low watermark waits for the missing ones. */
  #publish(wanted: PipeLanes, epoch: number): void {
    this.#wanted = wanted
    this.#epoch = epoch
  }

  /** Third step. After a failure, the next reconciliation continues with the running lanes. */
  async #openLanes({ lanes }: PipeLanes, epoch: number): Promise<void> {
    for (const spec of lanes) {
      const lane = this.#lanes.get(spec.destinationId)
      if (lane === undefined) await this.#openLane(spec, epoch)
      else if (lane.spec.revision !== spec.revision) await lane.reconfigure(spec)
    }
  }

  /** A lane that another process has taken is skipped, because this process is about to lose the whole pipe. */
  async #openLane(spec: LaneSpec, epoch: number): Promise<void> {
    try {
      const lane = await this.#deps.openLane(spec, epoch)
      this.#lanes.set(spec.destinationId, lane)
      this.#deps.onAdded(lane)
    } catch (error) {
      if (!(error instanceof LaneOwnershipLostError)) throw error
      this.#deps.log.warn(namesOf(spec), 'lane.ownership_lost')
    }
  }

  #loseOwnership(): void {
    this.#epoch = null
    this.#wanted = null
    this.#committedSeq = 0
  }
}
