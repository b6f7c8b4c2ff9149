/**
 * Lanes as the delivery thread composes them, in-process and on the system's clock; the destination alone is the tests' own.
 * `kill()` is a process that died: it saves, sends and hears nothing any more.
 */
import { pino } from 'pino'
import type { LaneStatus } from '../../src/contract/destination.ts'
import { firstEpochs } from '../../src/contract/epochs.ts'
import { systemClock } from '../../src/delivery/clock.ts'
import type { Delivery } from '../../src/delivery/delivery.ts'
import { openLaneService } from '../../src/delivery/lane-service.ts'
import { LaneSet } from '../../src/delivery/lane-set.ts'
import type { BufferFeed, BufferReader } from '../../src/log/buffer.ts'
import type { BufferSpec } from '../../src/log/buffer-spec.ts'
import type { LaneOwnership } from '../../src/metadata/lane-ownership.ts'
import type { LaneStore } from '../../src/metadata/lane-state.ts'
import type { Metadata } from '../../src/metadata/store.ts'
import type { Logger } from '../../src/platform/log.ts'
import { openBufferFeed, openBufferReader } from '../../src/stores/open-log.ts'
import { attemptSteps } from './attempt-steps.ts'
import type { LogEntry } from './lane-world.ts'
import type { RecordingDestination } from './recording-driver.ts'
import type { TcpProxy } from './tcp-proxy.ts'
import { until } from './until.ts'

/** The stores that the lanes run on. */
export interface LaneBackEnd {
  buffer: BufferSpec
  workspaceId: string
  /** One more connection. The caller closes it. */
  openMetadata(): Promise<Metadata>
  /** One that the test can cut. Closed by itself. */
  openCuttable?(): Promise<{ metadata: Metadata; proxy: TcpProxy }>
  /** Opens the ownership of one process, over its own metadata. `close` frees its resources. */
  openOwnership(metadata: Metadata, log: Logger): Promise<LaneOwnership & { close(): Promise<void> }>
}

type Open = (destinationId: string) => ReturnType<RecordingDestination['open']>

export class LaneProcess {
  readonly logged: LogEntry[] = []
  readonly fatal: unknown[] = []
  lanes!: LaneSet
  service!: Delivery
  reader!: BufferReader
  ownership!: LaneOwnership & { close(): Promise<void> }
  /** Saves are counted, and may be told to be the last thing that the process does. */
  saves = 0
  dieAtSave: 'before' | 'after' | null = null
  /** Pipes that it believes to own although it does not: as a process that was paused and has not checked since. */
  readonly believes = new Map<string, number>()
  #isAlive = true
  #isClosed = false
  #metadata!: Metadata
  #feed!: BufferFeed
  readonly #timers = new Set<() => void>()

  static async open({ buffer, openMetadata, openOwnership }: LaneBackEnd, open: Open): Promise<LaneProcess> {
    const process = new LaneProcess()
    const log: Logger = pino(
      { level: 'debug', base: {}, formatters: { level: (level) => ({ level }) } },
      { write: (line: string) => void process.logged.push(JSON.parse(line)) },
    )
    const metadata = await openMetadata()
    const ownership = await openOwnership(metadata, log)
    process.#metadata = metadata
    process.ownership = ownership
    process.reader = await openBufferReader(buffer, log, { owns: (id) => ownership.owned(id) !== null })
    process.#feed = await openBufferFeed(buffer, { reader: process.reader, log })
    await process.#openLanes(log, open)
    return process
  }

  get isAlive(): boolean {
    return this.#isAlive
  }

  events(msg: string): LogEntry[] {
    return this.logged.filter((entry) => entry.msg === msg)
  }

  async status(id: string): Promise<LaneStatus> {
    return (await this.service.lanes([id]))[id]!
  }

  async untilLane(id: string, what: string, condition: (lane: LaneStatus) => boolean): Promise<LaneStatus> {
    let lane: LaneStatus | undefined
    try {
      await until(what, async () => {
        lane = await this.status(id)
        return condition(lane)
      })
    } catch (error) {
      throw new Error(`${what}; the lane is ${JSON.stringify(lane)}`, { cause: error })
    }
    return lane!
  }

  /** At once. What it owned is free: how long others wait for that is another test's. */
  async kill(): Promise<void> {
    this.die()
    await this.#release()
  }

  /** As `kill`, and its leases are as they were. */
  die(): void {
    this.#isAlive = false
    for (const cancel of this.#timers) cancel()
  }

  /** In order; rejects when a lane has failed. */
  async close(): Promise<void> {
    if (this.#isAlive) await this.lanes.close(0)
    this.die()
    await this.#release()
    if (this.fatal.length > 0) throw this.fatal[0]
  }

  async #release(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.ownership.close()
    this.#feed.close()
    await this.reader.close()
    await this.#metadata.close()
  }

  async #openLanes(log: Logger, open: Open): Promise<void> {
    const { driftStore, laneSource, laneStore, parkedStore } = this.#metadata
    const clock = {
      ...systemClock,
      wake: (afterMs: number, callback: () => void) => this.#wake(afterMs, callback),
    }
    const reader = this.#mortal(this.reader)
    this.lanes = new LaneSet({
      source: this.#mortal(laneSource),
      store: this.#mortal({ ...laneStore, save: (...given) => this.#save(laneStore, ...given) }),
      ownership: this.#believing(this.ownership),
      reader,
      feed: this.#feed,
      openDriver: ({ destinationId }) => this.#mortal(open(destinationId)),
      steps: attemptSteps(driftStore, clock, log),
      clock,
      random: () => 0.5,
      log,
      maxInFlightBytes: 64 * 1024 * 1024,
      epochs: firstEpochs,
      replica: null,
      parked: { store: this.#mortal(parkedStore), maxBytes: 64 * 1024 * 1024 },
      onFatal: (error) => {
        if (this.#isAlive) this.fatal.push(error)
      },
    })
    this.service = openLaneService({
      ...{ lanes: this.lanes, reader, clock },
      check: async () => [],
      infer: () => Promise.reject(new Error('there are no tables here')),
      forget: async () => {},
    })
    await this.lanes.open()
  }

  async #save(store: LaneStore, ...given: Parameters<LaneStore['save']>): Promise<void> {
    if (this.dieAtSave === 'before') this.die()
    if (!this.#isAlive) return
    await store.save(...given)
    this.saves += 1
    if (this.dieAtSave === 'after') this.die()
  }

  #believing(ownership: LaneOwnership): LaneOwnership {
    const { believes } = this
    return {
      owned: (pipeId) => believes.get(pipeId) ?? ownership.owned(pipeId),
      holds: (pipeId, epoch) => believes.get(pipeId) === epoch || ownership.holds(pipeId, epoch),
      onGained: (listener) => ownership.onGained((id) => void (believes.has(id) || listener(id))),
      onLost: (listener) => ownership.onLost((id) => void (believes.has(id) || listener(id))),
      onReleased: (listener) => ownership.onReleased(listener),
      changed: (pipeId) => ownership.changed(pipeId),
    }
  }

  #wake(afterMs: number, callback: () => void): () => void {
    if (!this.#isAlive) return () => {}
    const end = systemClock.wake(afterMs, () => {
      this.#timers.delete(end)
      callback()
    })
    this.#timers.add(end)
    return () => {
      this.#timers.delete(end)
      end()
    }
  }

  /** Nobody hears what a dead process asked for, and it asks for nothing more. */
  #mortal<T extends object>(target: T): T {
    const never = () => new Promise<never>(() => {})
    return new Proxy(target, {
      get: (from, name) => {
        const value: unknown = Reflect.get(from, name)
        if (typeof value !== 'function') return value
        return (...given: unknown[]) => {
          if (!this.#isAlive) return never()
          const returned: unknown = Reflect.apply(value, from, given)
          if (!(returned instanceof Promise)) return returned
          const heard = <V>(settle: () => V) => (this.#isAlive ? settle() : never())
          return returned.then(
            (result: unknown) => heard(() => result),
            (error: unknown) => heard(() => Promise.reject(error)),
          )
        }
      },
    })
  }
}
