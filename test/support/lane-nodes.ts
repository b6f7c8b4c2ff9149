/**
 * Nodes of a cluster in one process: real lanes over one metadata database and one buffer, a real connection to NATS each. Who
 * owns what is told by the test.
 */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { pino } from 'pino'
import { type NodeLink, openNodeLink } from '../../src/cluster/node-link.ts'
import { clusterDelivery } from '../../src/cluster/remote-delivery.ts'
import { type ServedDelivery, serveDelivery } from '../../src/cluster/serve-delivery.ts'
import { fullRights } from '../../src/contract/api-key.ts'
import { firstEpochs } from '../../src/contract/epochs.ts'
import { pipeDefaults } from '../../src/contract/pipe.ts'
import { type Clock, systemClock } from '../../src/delivery/clock.ts'
import type { DeliveryHandle } from '../../src/delivery/delivery-proxy.ts'
import { openLaneService } from '../../src/delivery/lane-service.ts'
import { LaneSet } from '../../src/delivery/lane-set.ts'
import { ownedLanes } from '../../src/delivery/owned-lanes.ts'
import { StoredLanes } from '../../src/delivery/stored-lanes.ts'
import type { NewDestination } from '../../src/metadata/destinations.ts'
import type { LaneOwnership } from '../../src/metadata/lane-ownership.ts'
import type { Metadata } from '../../src/metadata/store.ts'
import { openMetadata } from '../../src/stores/open-metadata.ts'
import { attemptSteps } from './attempt-steps.ts'
import type { LogEntry } from './lane-world.ts'
import { MemoryBuffer } from './memory-buffer.ts'
import { newEndpoint } from './new-endpoint.ts'
import { RecordingDestination } from './recording-driver.ts'

class Owner implements LaneOwnership {
  readonly epochs = new Map<string, number>()
  #gained: (pipeId: string) => void = () => {}
  #lost: (pipeId: string) => void = () => {}

  owned(pipeId: string): number | null {
    return this.epochs.get(pipeId) ?? null
  }
  holds(pipeId: string, epoch: number): boolean {
    return this.epochs.get(pipeId) === epoch
  }
  onGained(listener: (pipeId: string) => void): void {
    this.#gained = listener
  }
  onLost(listener: (pipeId: string) => void): void {
    this.#lost = listener
  }
  onReleased(): void {}
  async changed(): Promise<void> {}
  gain(pipeId: string, epoch: number): void {
    this.epochs.set(pipeId, epoch)
    this.#gained(pipeId)
  }
  lose(pipeId: string): void {
    this.epochs.delete(pipeId)
    this.#lost(pipeId)
  }
}

export interface LaneNode {
  nodeId: string
  owner: Owner
  lanes: LaneSet
  link: NodeLink
  nats: NatsConnection
  /** The handle that its lane service serves. */
  local: DeliveryHandle
  /** As its HTTP side has it. */
  delivery: DeliveryHandle
  /** It says, hears and saves nothing any more. */
  kill(): Promise<void>
}

export class LaneNodes {
  readonly buffer = new MemoryBuffer()
  readonly nodes: LaneNode[] = []
  readonly logged: LogEntry[] = []
  readonly fatal: unknown[] = []
  /** As the database has it. */
  readonly owners = new Map<string, string>()
  readonly #dir = mkdtempSync(path.join(os.tmpdir(), 'pipectl-nodes-'))
  readonly #destinations = new Map<string, RecordingDestination>()
  readonly #committed: ((pipes: [string, number][]) => void)[] = []
  readonly #closing: (() => Promise<void>)[] = []
  readonly #url: string
  #epoch = 0
  metadata!: Metadata
  workspaceId = ''

  private constructor(url: string) {
    this.#url = url
  }

  static async open(url: string, count: number): Promise<LaneNodes> {
    const world = new LaneNodes(url)
    const file = path.join(world.#dir, 'metadata.db')
    world.metadata = await openMetadata({ kind: 'sqlite', file }, Buffer.alloc(32, 7))
    const key = { name: 'test', prefix: 'ppl1_test', hash: '00', rights: fullRights }
    world.workspaceId = (await world.metadata.workspaces.create('lanes', key)).workspaceId
    for (let index = 0; index < count; index += 1) await world.#openNode()
    return world
  }

  async addPipe(owner: LaneNode | null): Promise<string> {
    const pipe = { ...pipeDefaults, pipe_name: `p${randomUUID()}`, pipe_status: 'active' as const }
    const { pipe_id } = await this.metadata.pipes.create(this.workspaceId, pipe)
    if (owner !== null) this.give(pipe_id, owner)
    return pipe_id
  }

  /** It is this node's from now on, and no other's. */
  give(pipeId: string, owner: LaneNode | null): void {
    for (const node of this.nodes) if (node.owner.owned(pipeId) !== null) node.owner.lose(pipeId)
    this.#epoch += 1
    if (owner === null) this.owners.delete(pipeId)
    else this.owners.set(pipeId, owner.nodeId)
    owner?.owner.gain(pipeId, this.#epoch)
  }

  async addLane(
    pipeId: string,
    change: Partial<NewDestination> = {},
  ): Promise<{ id: string; destination: RecordingDestination }> {
    const { destination_id } = await this.metadata.destinations.create(
      { workspaceId: this.workspaceId, pipeId },
      { ...newEndpoint, ...change },
    )
    for (const node of this.nodes) await node.lanes.refresh(pipeId)
    return { id: destination_id, destination: this.#destination(destination_id) }
  }

  async addPull(pipeId: string, config: Record<string, unknown> = {}): Promise<string> {
    const { id } = await this.addLane(pipeId, {
      destination_type: 'destination_pull',
      destination_config: config,
    })
    return id
  }

  send(pipeId: string, recordText = '{"a":1}'): number {
    const { seq } = this.buffer.append(pipeId, 1, Date.now(), recordText)
    for (const tell of this.#committed) tell([[pipeId, seq]])
    return seq
  }

  async close(): Promise<void> {
    for (const close of this.#closing.splice(0)) await close()
    await this.metadata.close()
    rmSync(this.#dir, { recursive: true })
    if (this.fatal.length > 0) throw this.fatal[0]
  }

  async #openNode(): Promise<LaneNode> {
    const { metadata, buffer } = this
    const nodeId = randomUUID()
    const owner = new Owner()
    let isAlive = true
    const timers = new Set<() => void>()
    // A node that is killed wakes up no more; its timers would keep the test's process.
    const clock: Clock = {
      ...systemClock,
      wake(afterMs, callback) {
        if (!isAlive) return () => {}
        const cancel = systemClock.wake(afterMs, () => {
          timers.delete(cancel)
          callback()
        })
        timers.add(cancel)
        return cancel
      },
    }
    const never = () => new Promise<never>(() => {})
    const log = pino(
      { base: { node: nodeId } },
      { write: (line: string) => void this.logged.push(JSON.parse(line)) },
    )
    const store = metadata.laneStore
    const lanes = new LaneSet({
      source: metadata.laneSource,
      store: { ...store, save: (...given) => (isAlive ? store.save(...given) : never()) },
      ownership: owner,
      reader: buffer,
      feed: {
        onCommitted: (listener) => void this.#committed.push(listener),
        onDropped: () => {},
        onErased: () => {},
        onReportWanted: () => {},
        reportLowWatermarks: () => {},
        pipeDeleted: () => {},
        close: () => {},
      },
      openDriver: (spec) => this.#destination(spec.destinationId).open(),
      steps: attemptSteps(metadata.driftStore, clock, log),
      clock,
      random: () => 0.5,
      log,
      maxInFlightBytes: 256 * 1024 * 1024,
      epochs: firstEpochs,
      replica: null,
      parked: { store: metadata.parkedStore, maxBytes: 64 * 1024 * 1024 },
      onFatal: (error) => this.fatal.push(error),
    })
    const service = openLaneService({
      ...{ lanes, reader: buffer, clock },
      check: async () => [],
      infer: () => Promise.reject(new Error('there are no tables here')),
      forget: async () => {},
    })
    await lanes.open()
    const local: DeliveryHandle = {
      ...ownedLanes(service, lanes, owner),
      workerRestarts: 0,
      silentMs: () => 0,
      close: (graceMs) => lanes.close(graceMs ?? 0),
    }
    const nats = await connect({ servers: this.#url, name: nodeId })
    const link = openNodeLink({ nats, cluster: 'test', nodeId, log })
    const served: ServedDelivery = serveDelivery(local)
    link.server.serve(served.methods)
    await nats.flush()
    const delivery = clusterDelivery({
      ...{ local, log, requests: link.requests },
      owners: async () => this.owners,
      pipesOf: (ids) => metadata.laneSource.pipesOf(ids),
      stored: new StoredLanes({
        source: metadata.laneSource,
        store,
        parked: metadata.parkedStore,
        openReader: async () => buffer,
      }),
    })
    const stop = async () => {
      served.close()
      link.close()
      if (!nats.isClosed()) await nats.close()
    }
    const node: LaneNode = {
      ...{ nodeId, owner, lanes, link, nats, local, delivery },
      kill: async () => {
        isAlive = false
        for (const cancel of timers) cancel()
        await stop()
      },
    }
    this.nodes.push(node)
    this.#closing.push(async () => {
      await stop()
      if (isAlive) await delivery.close(0)
    })
    return node
  }

  #destination(id: string): RecordingDestination {
    const destination = this.#destinations.get(id) ?? new RecordingDestination()
    this.#destinations.set(id, destination)
    return destination
  }
}
