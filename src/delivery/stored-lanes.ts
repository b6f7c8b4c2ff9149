/**
 * Shows lanes as they were last saved, while the delivery worker is being restarted or does not respond. Rows and backlogs
 * are read here, without the worker. The result is marked `stale`, because changes since the last save are missing.
 *
 * The buffer is open only during a request: an open file takes disk space even after retention has removed it.
 */
import type { LaneStatus } from '../contract/destination.ts'
import type { BufferReader } from '../log/buffer.ts'
import {
  type LaneSource,
  type LaneSpec,
  type LaneState,
  LaneStateDamagedError,
  type LaneStore,
  newLaneState,
  type PipeLanes,
} from '../metadata/lane-state.ts'
import type { ParkedStore } from '../metadata/parked-store-port.ts'
import { BatchReader } from './batch-reader.ts'
import { RetryWindow, systemClock } from './clock.ts'
import type { BlockingMessage, BlockingPage, ChangedLanes, PipeBacklog } from './delivery.ts'
import { pipeBacklog, shownBlockingMessage } from './lane-service.ts'
import { laneBacklog, laneStatus } from './lane-status.ts'
import { MemoryBudget } from './memory-budget.ts'

export interface StoredLanesOptions {
  source: LaneSource
  store: LaneStore
  parked: Pick<ParkedStore, 'counts'>
  openReader(): Promise<BufferReader>
}

const specsKeptMs = 1_000

export class StoredLanes {
  readonly #options: StoredLanesOptions
  #reader: Promise<BufferReader> | null = null
  #readers = 0
  #specs: { specs: Map<string, LaneSpec>; readAt: number } | null = null

  constructor(options: StoredLanesOptions) {
    this.#options = options
  }

  lanes(destinationIds: readonly string[]): Promise<Record<string, LaneStatus>> {
    return this.#reading(async (reader) => {
      const found: Record<string, LaneStatus> = {}
      for (const id of destinationIds) {
        const spec = (await this.#lanes()).get(id.toLowerCase())
        if (spec !== undefined) found[id] = { ...(await this.#status(spec, reader)), stale: true }
      }
      return found
    })
  }

  /** Returns all of them, because nothing here remembers earlier reads. */
  async lanesSince(destinationIds: readonly string[]): Promise<ChangedLanes> {
    return { revision: '', lanes: await this.lanes(destinationIds) }
  }

  backlogs(pipeIds: readonly string[]): Promise<Record<string, PipeBacklog>> {
    return this.#reading((reader) => this.#backlogs(pipeIds, reader))
  }

  blockingMessage(destinationId: string, page?: BlockingPage): Promise<BlockingMessage | null> {
    return this.#reading((reader) => this.#blockingMessage(destinationId, page, reader))
  }

  async #reading<T>(read: (reader: BufferReader) => Promise<T>): Promise<T> {
    this.#reader ??= this.#options.openReader()
    const opened = this.#reader
    this.#readers += 1
    try {
      return await read(await opened)
    } finally {
      this.#readers -= 1
      if (this.#readers === 0) {
        this.#reader = null
        await opened.then((reader) => reader.close())
      }
    }
  }

  async #backlogs(pipeIds: readonly string[], reader: BufferReader): Promise<Record<string, PipeBacklog>> {
    const specs = [...(await this.#lanes()).values()]
    const found: Record<string, PipeBacklog> = {}
    for (const pipeId of pipeIds) {
      const lanes = specs.filter((spec) => spec.pipeId === pipeId.toLowerCase())
      const backlogs = lanes.map(async (spec) =>
        laneBacklog(spec, await this.#row(spec), batchesOf(spec, reader)),
      )
      found[pipeId] = await pipeBacklog(pipeId.toLowerCase(), await Promise.all(backlogs), reader)
    }
    return found
  }

  async #blockingMessage(
    destinationId: string,
    page: BlockingPage | undefined,
    reader: BufferReader,
  ): Promise<BlockingMessage | null> {
    const spec = (await this.#lanes()).get(destinationId.toLowerCase())
    if (spec === undefined) return null
    const { blockingMsgId, cursorSeq, lastError } = await this.#row(spec)
    if (blockingMsgId === null) return null
    const run = await reader.read(spec.pipeId, cursorSeq, { maxRecords: 1, maxBytes: 1 })
    const first = run.messages[0]
    return first?.msgId === blockingMsgId ? shownBlockingMessage(first, lastError, page) : null
  }

  async #status(spec: LaneSpec, reader: BufferReader): Promise<LaneStatus> {
    const row = await this.#row(spec)
    const isStalled = new RetryWindow(row, systemClock).isStalled(spec.maxRetrySeconds)
    return await laneStatus({
      spec,
      row,
      batches: batchesOf(spec, reader),
      isStalled,
      parked: await this.#options.parked.counts(spec.destinationId),
      unmappedKeys: 0,
      nowMs: systemClock.now(),
    })
  }

  /** A damaged row is shown as a new lane, which is the state after a worker has repaired it. */
  async #row({ destinationId }: LaneSpec): Promise<LaneState> {
    try {
      return (await this.#options.store.load(destinationId)) ?? newLaneState(destinationId)
    } catch (error) {
      if (!(error instanceof LaneStateDamagedError)) throw error
      return newLaneState(destinationId)
    }
  }

  /** By destination. Cached because a page makes several requests in a row. */
  async #lanes(): Promise<Map<string, LaneSpec>> {
    const now = systemClock.monotonicMs()
    if (this.#specs === null || now - this.#specs.readAt > specsKeptMs) {
      const pipes = await this.#options.source.allPipes()
      const specs = pipes.flatMap(({ lanes }) => lanes.map((spec) => [spec.destinationId, spec] as const))
      this.#specs = { specs: new Map(specs), readAt: now }
    }
    return this.#specs.specs
  }
}

function batchesOf({ pipeId, workspaceId }: LaneSpec, reader: BufferReader): BatchReader {
  return new BatchReader(pipeId, reader, new MemoryBudget(1).of(workspaceId), systemClock)
}

/**
 * `serve --safe`: every lane runs as if its destination were blocked, so that nothing is attempted while an operator
 * searches for the cause of crashes. It is not stored: the next start without the flag delivers again.
 */
export function allBlocked(source: LaneSource): LaneSource {
  return {
    ...source,
    allPipes: async () => (await source.allPipes()).map(blocked),
    pipe: async (pipeId) => {
      const pipe = await source.pipe(pipeId)
      return pipe && blocked(pipe)
    },
  }
}

function blocked(pipe: PipeLanes): PipeLanes {
  return { ...pipe, lanes: pipe.lanes.map((spec) => ({ ...spec, status: 'blocked' as const })) }
}
