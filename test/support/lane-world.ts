/**
 * One lane or a few in-process, with the real metadata store, a clock that moves when told and a destination of the
 * tests' own. `restart()` is a process that died and came back: nothing but what was saved survives.
 */

import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { fullRights } from '../../src/contract/api-key.ts'
import type { LaneStatus } from '../../src/contract/destination.ts'
import { type Epoch, firstEpochs } from '../../src/contract/epochs.ts'
import { pipeDefaults } from '../../src/contract/pipe.ts'
import type { Delivery } from '../../src/delivery/delivery.ts'
import { openLaneService } from '../../src/delivery/lane-service.ts'
import { LaneSet } from '../../src/delivery/lane-set.ts'
import type { ReplicaBarrier } from '../../src/log/replica-barrier.ts'
import type { NewDestination } from '../../src/metadata/destinations.ts'
import type { LaneOwnership } from '../../src/metadata/lane-ownership.ts'
import {
  type LaneSpec,
  type LaneState,
  ownsEverything,
  type RangeStore,
} from '../../src/metadata/lane-state.ts'
import type { ParkedStore } from '../../src/metadata/parked-store-port.ts'
import type { Metadata } from '../../src/metadata/store.ts'
import { openMetadata } from '../../src/stores/open-metadata.ts'
import { attemptSteps } from './attempt-steps.ts'
import { MemoryBuffer } from './memory-buffer.ts'
import { newEndpoint } from './new-endpoint.ts'
import { RecordingDestination } from './recording-driver.ts'
import { damageLanes } from './stored-lanes.ts'
import { TestClock } from './test-clock.ts'
import { until } from './until.ts'

export interface LogEntry {
  msg: string
  level: string
  [field: string]: unknown
}

type RecordText = Parameters<MemoryBuffer['append']>[3]

export class LaneWorld {
  readonly clock = new TestClock()
  readonly buffer = new MemoryBuffer()
  readonly logged: LogEntry[] = []
  readonly fatal: unknown[] = []
  readonly #dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-lanes-'))
  readonly #sealingKey = randomBytes(32)
  readonly #destinations = new Map<string, RecordingDestination>()
  readonly reports: (readonly { pipeId: string; seq: number }[])[] = []
  readonly deletedPipes: string[] = []
  random = () => 0.5
  ownership: LaneOwnership = ownsEverything
  maxInFlightBytes = 64 * 1024 * 1024
  epochs: readonly Epoch[] = firstEpochs
  /** Set it before a restart. */
  replica: ReplicaBarrier | null = null
  maxParkedBytes = 64 * 1024 * 1024
  metadata!: Metadata
  lanes!: LaneSet
  service!: Delivery
  workspaceId = ''
  pipeId = ''
  #committed: (pipes: [string, number][]) => void = () => {}
  #dropped = () => {}
  #erased = () => {}
  #pipes = 0

  /** The process dies at its next save: before it, or after it and before anybody hears of it. */
  dieAtSave: { isBefore: boolean; onReached(): void } | null = null
  /** `atSave`: what the store does instead of saving, e.g. throw. */
  atSave: () => void = () => {}
  /** The same before a lane's row is taken. */
  atTake: (destinationId: string) => void = () => {}

  static async open(): Promise<LaneWorld> {
    const world = new LaneWorld()
    await world.#openMetadata()
    const hash = randomBytes(32).toString('hex')
    const key = { name: 'test', prefix: 'ppl1_test', hash, rights: fullRights }
    world.workspaceId = (await world.metadata.workspaces.create('lanes', key)).workspaceId
    world.pipeId = await world.addPipe()
    await world.#openLanes()
    return world
  }

  async addPipe(): Promise<string> {
    this.#pipes += 1
    const pipe = { ...pipeDefaults, pipe_name: `pipe${this.#pipes}`, pipe_status: 'active' as const }
    const { pipe_id } = await this.metadata.pipes.create(this.workspaceId, pipe)
    await this.lanes?.refresh(pipe_id)
    return pipe_id
  }

  /** A new lane from the earliest message on, and the destination behind it. */
  async addLane(
    change: Partial<NewDestination> = {},
    pipeId = this.pipeId,
  ): Promise<{ id: string; destination: RecordingDestination }> {
    const stored = await this.metadata.destinations.create(
      { workspaceId: this.workspaceId, pipeId },
      { ...newEndpoint, ...change },
    )
    await this.lanes.refresh(pipeId)
    return { id: stored.destination_id, destination: this.#destination(stored.destination_id) }
  }

  async change(id: string, change: Parameters<Metadata['destinations']['update']>[1], pipeId = this.pipeId) {
    await this.metadata.destinations.update(
      { workspaceId: this.workspaceId, pipeId, destinationId: id },
      change,
    )
    await this.lanes.refresh(pipeId)
  }

  /** `isSeen`: false as if no process ran. */
  async limit(records: number, bytes: number, seconds: number, { isSeen = true } = {}): Promise<void> {
    await this.metadata.limits.put(
      { workspaceId: this.workspaceId, pipeId: this.pipeId },
      {
        pl_ingest_max_records_per_request: 1000,
        pl_ingest_max_records_per_second: 1000,
        pl_ingest_max_records_per_day: 1_000_000,
        pl_ingest_max_bytes_per_day: null,
        pl_delivery_max_records_per_flush: records,
        pl_delivery_max_bytes_per_flush: bytes,
        pl_delivery_max_seconds_per_flush: seconds,
      },
    )
    if (isSeen) await this.lanes.refresh(this.pipeId)
  }

  /** Appends messages of one record each and notifies the lanes. Returns their sequence numbers. */
  send(
    count = 1,
    given: Partial<{ pipeId: string; records: number; notify: boolean; recordText: RecordText }> = {},
  ): number[] {
    const { pipeId = this.pipeId, records = 1, notify = true, recordText } = given
    const seqs: number[] = []
    for (let sent = 0; sent < count; sent += 1) {
      seqs.push(this.buffer.append(pipeId, records, this.clock.now(), recordText).seq)
    }
    if (notify) this.#committed([[pipeId, seqs.at(-1)!]])
    return seqs
  }

  /** Deletes the records with this text from these messages, and notifies the lanes. */
  erase(text: string, seqs: readonly number[]): void {
    for (const seq of seqs) this.buffer.erase(this.pipeId, seq, text)
    this.#erased()
  }

  drop(throughSeq: number): void {
    this.buffer.drop(this.pipeId, throughSeq)
    this.#dropped()
  }

  async lane(id: string): Promise<LaneStatus> {
    return (await this.service.lanes([id]))[id]!
  }

  /** The row as it was last saved. */
  async saved(id: string): Promise<LaneState> {
    return (await this.metadata.laneStore.load(id))!
  }

  /** Changes the lane's row as a bad disk would: without the daemon's knowledge. */
  damageRow(id: string, change: (lane: LaneState) => Partial<LaneState>): void {
    damageLanes(this.metadataFile, change, { destinationId: id })
  }

  get metadataFile(): string {
    return path.join(this.#dir, 'metadata.db')
  }

  /** Waits (in real time, the lanes' clock standing still) for a lane to look so. */
  async untilLane(id: string, what: string, condition: (lane: LaneStatus) => boolean): Promise<LaneStatus> {
    let lane: LaneStatus | undefined
    try {
      await until(
        what,
        async () => {
          lane = await this.lane(id)
          return condition(lane)
        },
        { everyMs: 2 },
      )
    } catch (error) {
      throw new Error(`${what}; the lane is ${JSON.stringify(lane)}`, { cause: error })
    }
    return lane!
  }

  events(msg: string): LogEntry[] {
    return this.logged.filter((entry) => entry.msg === msg)
  }

  /** Starts again with only the saved state. `graceMs`: an orderly end first; otherwise the process just dies. */
  async restart(graceMs: number | null = null): Promise<void> {
    if (graceMs === null) this.#kill()
    else await this.lanes.close(graceMs)
    await this.metadata.close()
    await this.#openMetadata()
    await this.#openLanes()
  }

  async close(): Promise<void> {
    try {
      await Promise.all([this.lanes.close(0), this.clock.advance(5_000)])
    } finally {
      await this.metadata.close()
      rmSync(this.#dir, { recursive: true })
    }
    if (this.fatal.length > 0) throw this.fatal[0]
  }

  #kill: () => void = () => {}

  async #openMetadata(): Promise<void> {
    const spec = { kind: 'sqlite', file: path.join(this.#dir, 'metadata.db') } as const
    this.metadata = await openMetadata(spec, this.#sealingKey, { now: () => this.clock.now() })
  }

  async #openLanes(): Promise<void> {
    const { metadata, buffer, clock } = this
    let isAlive = true
    // A dead process saves nothing, answers nobody and is woken by nothing.
    this.#kill = () => {
      isAlive = false
    }
    const never = () => new Promise<never>(() => {})
    const log = pino(
      { level: 'debug', base: {}, formatters: { level: (level) => ({ level }) } },
      { write: (line: string) => void (isAlive && this.logged.push(JSON.parse(line))) },
    )
    this.lanes = new LaneSet({
      source: metadata.laneSource,
      store: {
        load: (id) => metadata.laneStore.load(id),
        take: async (id, epoch) => {
          this.atTake(id)
          return await metadata.laneStore.take(id, epoch)
        },
        repair: (row) => metadata.laneStore.repair(row),
        pruneHistory: (owner, throughSeq) => metadata.laneStore.pruneHistory(owner, throughSeq),
        save: async (rows, counts, parked) => {
          if (!isAlive) return never()
          this.atSave()
          const death = this.dieAtSave
          if (death?.isBefore !== true) await metadata.laneStore.save(rows, counts, parked)
          if (death === null) return
          this.dieAtSave = null
          this.#kill()
          death.onReached()
          await never()
        },
      },
      ownership: this.ownership,
      reader: buffer,
      feed: {
        onCommitted: (listener) => {
          this.#committed = listener
        },
        onDropped: (listener) => {
          this.#dropped = listener
        },
        onErased: (listener) => {
          this.#erased = listener
        },
        onReportWanted: () => {},
        reportLowWatermarks: (watermarks) => void this.reports.push(watermarks),
        pipeDeleted: (pipeId) => void this.deletedPipes.push(pipeId),
        close: () => {},
      },
      openDriver: (spec: LaneSpec) => {
        const driver = this.#destination(spec.destinationId).open()
        return {
          deliver: (...attempt) => (isAlive ? driver.deliver(...attempt) : never()),
          close: driver.close,
        }
      },
      steps: attemptSteps(metadata.driftStore, clock, log),
      clock,
      random: () => this.random(),
      log,
      maxInFlightBytes: this.maxInFlightBytes,
      epochs: this.epochs,
      replica: this.replica,
      parked: { store: this.#livingParkedStore(() => isAlive), maxBytes: this.maxParkedBytes },
      onFatal: (error) => this.fatal.push(error),
    })
    this.service = openLaneService({
      lanes: this.lanes,
      reader: buffer,
      clock,
      check: async () => [],
      infer: () => Promise.reject(new Error('there are no tables here')),
      forget: async () => {},
    })
    await this.lanes.open()
  }

  /** A dead process parks nothing. */
  #livingParkedStore(isAlive: () => boolean): ParkedStore & RangeStore {
    const { parkedStore } = this.metadata
    const never = () => new Promise<never>(() => {})
    return {
      ...parkedStore,
      park: (...given) => (isAlive() ? parkedStore.park(...given) : never()),
      replayFailed: (...given) => (isAlive() ? parkedStore.replayFailed(...given) : never()),
      replayHalfStored: (...given) => (isAlive() ? parkedStore.replayHalfStored(...given) : never()),
    }
  }

  #destination(id: string): RecordingDestination {
    let destination = this.#destinations.get(id)
    if (destination === undefined) {
      destination = new RecordingDestination()
      this.#destinations.set(id, destination)
    }
    return destination
  }
}
