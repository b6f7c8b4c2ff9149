/** Processes with lanes over one real buffer and one real metadata store, and who appends to it: see lane-process.ts. */
import '../unit/buffer/typescript-workers.ts'
import { v7 } from 'uuid'
import type { Appender, OpenBuffer } from '../../src/log/buffer.ts'
import type { NewDestination } from '../../src/metadata/destinations.ts'
import type { LaneState } from '../../src/metadata/lane-state.ts'
import type { Metadata } from '../../src/metadata/store.ts'
import { openBuffer, openPortAppender } from '../../src/stores/open-log.ts'
import { newPipe } from '../unit/metadata/fixture.ts'
import { type LaneBackEnd, LaneProcess } from './lane-process.ts'
import { newEndpoint } from './new-endpoint.ts'
import { RecordingDestination } from './recording-driver.ts'
import { until } from './until.ts'

/** As it was acknowledged. */
export interface Sent {
  seq: number
  msgId: string
  records: number
  bytes: number
}

const quiet = { level: 'fatal', format: 'json' } as const

export class LaneStack {
  readonly backEnd: LaneBackEnd
  readonly metadata: Metadata
  readonly buffer: OpenBuffer
  /** The first is the process's that writes the buffer, the others are of other threads. */
  readonly appenders: readonly Appender[]
  readonly #destinations = new Map<string, RecordingDestination>()
  readonly #processes: LaneProcess[] = []

  private constructor(
    backEnd: LaneBackEnd,
    metadata: Metadata,
    buffer: OpenBuffer,
    appenders: readonly Appender[],
  ) {
    this.backEnd = backEnd
    this.metadata = metadata
    this.buffer = buffer
    this.appenders = appenders
  }

  static async open(backEnd: LaneBackEnd): Promise<LaneStack> {
    const onFatal = (error: Error) => {
      throw error
    }
    const buffer = await openBuffer(backEnd.buffer, { log: quiet, onFatal })
    const others = await Promise.all([1, 2].map(() => openPortAppender(buffer.shareAppender())))
    return new LaneStack(backEnd, await backEnd.openMetadata(), buffer, [buffer.appender, ...others])
  }

  /** `metadata`: its way to it, when that is another. It closes it. */
  async start(metadata?: Metadata): Promise<LaneProcess> {
    const { backEnd } = this
    const openMetadata = metadata === undefined ? backEnd.openMetadata : async () => metadata
    const process = await LaneProcess.open({ ...backEnd, openMetadata }, (id) => this.#destination(id).open())
    this.#processes.push(process)
    return process
  }

  async pipe(...running: LaneProcess[]): Promise<string> {
    const { pipe_id } = await newPipe(this.metadata, this.backEnd.workspaceId, `p-${v7()}`)
    for (const { lanes } of running) await lanes.refresh(pipe_id)
    return pipe_id
  }

  /** From the earliest message on. `batch`: the most records of one; what has come is due at once. */
  async lane(
    pipeId: string,
    running: readonly LaneProcess[],
    { batch = 500, ...change }: Partial<NewDestination> & { batch?: number } = {},
  ): Promise<{ id: string; destination: RecordingDestination }> {
    const { destination_id: id } = await this.metadata.destinations.create(
      { workspaceId: this.backEnd.workspaceId, pipeId },
      {
        ...newEndpoint,
        flush: { max_records: batch, max_bytes: 10_000_000, max_seconds: 0 },
        ...change,
      },
    )
    const destination = this.#destination(id)
    for (const { lanes } of running) await lanes.refresh(pipeId)
    return { id, destination }
  }

  /** At once, so that they share frames. `size`: bytes of each record, about. */
  async send(
    pipeId: string,
    count: number,
    { appender = this.appenders[0]!, records = 1, size = 10 } = {},
  ): Promise<Sent[]> {
    const body = Buffer.from(
      Array(records)
        .fill(`{"a":"${'x'.repeat(size)}"}`)
        .join('\n'),
    )
    const { workspaceId } = this.backEnd
    const append = async () => {
      const message = { pipeId, workspaceId, msgId: v7(), receivedMs: Date.now(), recordCount: records, body }
      const { seq, msgId } = await appender.append(message)
      return { seq, msgId, records, bytes: body.length }
    }
    const sent = await Promise.all(Array.from({ length: count }, append))
    return sent.sort((a, b) => a.seq - b.seq)
  }

  /** The lane's row as it was last saved. */
  async saved(id: string): Promise<LaneState> {
    return (await this.metadata.laneStore.load(id))!
  }

  async untilSaved(id: string, what: string, condition: (row: LaneState) => boolean): Promise<LaneState> {
    let row: LaneState | undefined
    try {
      await until(what, async () => {
        row = await this.saved(id)
        return condition(row)
      })
    } catch (error) {
      const warned = this.#processes.flatMap(({ logged }) => logged.filter(({ level }) => level === 'warn'))
      const found = { saved: row, warned: warned.slice(-10) }
      throw new Error(`${what}: ${JSON.stringify(found)}`, { cause: error })
    }
    return row!
  }

  async close(): Promise<void> {
    for (const process of this.#processes) await process.close()
    for (const appender of this.appenders.slice(1)) await appender.drain()
    await this.buffer.close()
    await this.metadata.close()
  }

  #destination(id: string): RecordingDestination {
    const destination = this.#destinations.get(id) ?? new RecordingDestination()
    this.#destinations.set(id, destination)
    return destination
  }
}
