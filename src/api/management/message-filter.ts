/** Filters messages by their lane and its state: where such messages can be, and whether a message is one. */
import { validationError } from '../../contract/errors.ts'
import type { MessageLane } from '../../contract/message.ts'
import type { MessageState } from '../../contract/state-words.ts'
import { type FoundRuns, type LaneRecord, union } from '../../metadata/lane-records.ts'
import type { PipeRef } from '../../metadata/tables.ts'
import type { ManagementDeps } from './deps.ts'

export interface LaneFilter {
  /** Null: any lane of the pipe. */
  destinationId: string | null
  /** Null: any state. */
  state: MessageState | null
}

const newest = Number.MAX_SAFE_INTEGER

export class MessageFilter {
  readonly #deps: Pick<ManagementDeps, 'metadata' | 'history'>
  readonly #pipe: PipeRef
  readonly #filter: LaneFilter
  readonly #lanes: readonly LaneRecord[]

  /** Throws `validation_error` for a destination of another pipe. */
  static async open(
    deps: Pick<ManagementDeps, 'metadata' | 'history'>,
    pipe: PipeRef,
    filter: LaneFilter,
  ): Promise<MessageFilter> {
    const { destinationId } = filter
    // The run of the first message tells which messages came before the lane.
    const all = await deps.metadata.laneRecords(pipe, [1])
    const lanes = all.filter(({ state }) => destinationId === null || state.destinationId === destinationId)
    if (destinationId !== null && lanes.length === 0)
      throw validationError({ destination_id: 'This pipe has no destination with this id.' })
    return new MessageFilter(deps, pipe, filter, lanes)
  }

  private constructor(
    deps: Pick<ManagementDeps, 'metadata' | 'history'>,
    pipe: PipeRef,
    filter: LaneFilter,
    lanes: readonly LaneRecord[],
  ) {
    this.#deps = deps
    this.#pipe = pipe
    this.#filter = filter
    this.#lanes = lanes
  }

  /** Every message before `beforeSeq` that passes is in these ranges; not every message there passes. */
  async candidates(beforeSeq: number): Promise<FoundRuns> {
    return union(await Promise.all(this.#lanes.map((lane) => this.#ofLane(lane, beforeSeq))))
  }

  passes(lanes: readonly MessageLane[]): boolean {
    const { destinationId, state } = this.#filter
    return lanes.some(
      (one) =>
        (destinationId === null || one.destination_id === destinationId) &&
        (state === null || one.state === state),
    )
  }

  async #ofLane({ state: lane, runs }: LaneRecord, beforeSeq: number): Promise<FoundRuns> {
    const { state: kind } = this.#filter
    const before = runs.find((run) => run.kind === 'before')
    const firstSeq = before === undefined ? 1 : before.lastSeq + 1
    switch (kind) {
      case null:
        return between(firstSeq, newest)
      case 'delivered':
        return between(firstSeq, lane.cursorSeq)
      case 'pending':
        return between(Math.max(firstSeq, lane.cursorSeq + 1), newest)
      case 'stuck': {
        const { blockingMsgId } = lane
        const found = blockingMsgId === null ? null : await this.#deps.history.find(blockingMsgId)
        return found === null ? between(1, 0) : between(found.seq, found.seq)
      }
      default: {
        const { destinationId } = lane
        return await this.#deps.metadata.runsOfKind(this.#pipe, { destinationId, kind, beforeSeq })
      }
    }
  }
}

function between(firstSeq: number, lastSeq: number): FoundRuns {
  return { ranges: firstSeq <= lastSeq ? [[firstSeq, lastSeq]] : [], fromSeq: 1 }
}
