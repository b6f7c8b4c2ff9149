/**
 * This node in the cluster: it joins, renews its heartbeat every two seconds, follows changes, and leaves. Main has it;
 * the delivery thread has its own part (leases.ts), with its own metadata connection.
 *
 *   opened ──join()──▶ valid ──▶ … ──close()──▶ left
 *                       │  ▲
 *     heartbeat late or │  │ joins again under a new lease, having applied every change since
 *     changes not read  ▼  │
 *                     invalid: accepts nothing, has no duty
 *
 * A node becomes invalid before the others treat it as gone: `liveness` expires a second before the database's row,
 * measured on the monotonic clock from before the renewal was sent. So after a pause of the process of any length
 * (SIGSTOP, swapping), the first check fails. That clock (CLOCK_MONOTONIC) stops while the machine is suspended, and
 * possibly while a virtual machine is frozen. Such a node can accept for the rest of its lease, at most 5 s. Saves of
 * its lanes are then rejected because of the epoch.
 */
import { randomUUID } from 'node:crypto'
import {
  type ClusterStore,
  type LostNode,
  leaseMarginMs,
  leaseMs,
  type NodeRecord,
} from '../metadata/cluster-store.ts'
import { endsWithin } from '../platform/deadline.ts'
import type { Logger } from '../platform/log.ts'
import { ChangeFollower } from './changes.ts'
import { MeasuredClock, monotonicNs, msOf, nsOf } from './clock.ts'

const heartbeatEveryMs = 2_000
const measureEveryMs = 60_000
const pruneEveryMs = 600_000
const changesKeptMs = 3_600_000
const ownersKeptMs = 1_000
/** Below the deadline of the step in shutdown-steps.ts. */
const leaveMs = 1_500

export interface ClusterNodeOptions {
  store: ClusterStore
  /** `node.name`. */
  name: string
  version: string
  /** The address of its listener, for people. */
  address: string | null
  log: Logger
  /** The node must be restarted: it was away for longer than changes are kept. */
  onFatal(error: Error): void
  /** This machine's clock, ms since the epoch. Default: Date.now. */
  now?: () => number
}

/**
 * Records the newest change, so that everything read afterwards is at least as new. Rejects when the database cannot be
 * reached.
 */
export async function openClusterNode(options: ClusterNodeOptions): Promise<ClusterNode> {
  const { store, log, now = Date.now } = options
  const clock = new MeasuredClock(store, log, now)
  await clock.measure()
  return new ClusterNode(options, clock, await store.changes.newest())
}

export class ClusterNode {
  /** The id of this run of the process. It stays the same when the node has to join again. */
  readonly nodeId: string = randomUUID()
  readonly name: string
  /**
   * One BigInt64, read with Atomics by every thread: the time (`process.hrtime.bigint()`) until which this node can
   * accept requests; 0 when it cannot.
   */
  readonly liveness = new SharedArrayBuffer(BigInt64Array.BYTES_PER_ELEMENT)
  readonly clock: MeasuredClock
  /** `publish` resolves when every valid node, starting with this one, has seen the change. */
  readonly changes: ChangeFollower
  readonly #options: ClusterNodeOptions
  readonly #store: ClusterStore
  readonly #log: Logger
  readonly #until = new BigInt64Array(this.liveness)
  readonly #duties = new Map<string, Duty>()
  #leaseId = randomUUID() as string
  #isDraining = false
  #isClosing = false
  #hasFailed = false
  #beating: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #measuredAt = performance.now()
  #prunedAt = performance.now()
  #owners: { atMs: number; map: Promise<ReadonlyMap<string, string>> } | null = null

  constructor(options: ClusterNodeOptions, clock: MeasuredClock, seen: number) {
    this.#options = options
    this.#store = options.store
    this.#log = options.log
    this.name = options.name
    this.clock = clock
    const onMissed = () =>
      options.onFatal(new Error('cluster: this node was away for so long that changes are no longer kept'))
    const { store, log } = options
    this.changes = new ChangeFollower({ store, log, leaseId: () => this.#leaseId, onMissed }, seen)
  }

  /** `liveness`, checked now. */
  get isLive(): boolean {
    return monotonicNs() < Atomics.load(this.#until, 0)
  }

  /** Resolves when it has applied every change and is valid. Rejects when the database cannot be reached. */
  async join(): Promise<void> {
    await this.#join()
    this.changes.start()
    this.#beating = this.#beat()
    const others = (await this.nodes()).filter(({ nodeId }) => nodeId !== this.nodeId)
    this.#log.info({ node_id: this.nodeId, node: this.name, others: others.length }, 'cluster.joined')
    if (others.some(({ name, leftMs }) => name === this.name && leftMs > 0)) {
      this.#log.warn({ node: this.name }, 'cluster.name_taken')
    }
  }

  /** The other nodes wait for this node from the first statement on; it accepts requests after the last one. */
  async #join(): Promise<void> {
    const { name, version, address } = this.#options
    const { nodeId } = this
    this.#leaseId = randomUUID()
    await this.#store.nodes.join(
      { nodeId, name, version, address },
      this.#leaseId,
      this.changes.seen,
      this.#isDraining,
    )
    await this.changes.catchUp()
    await this.#renew()
  }

  /** The delivering node by pipe; at most a second old, and never older than `freshSinceMs` (performance.now()). */
  owners(freshSinceMs = 0): Promise<ReadonlyMap<string, string>> {
    const nowMs = performance.now()
    const known = this.#owners
    if (known !== null && known.atMs >= Math.max(nowMs - ownersKeptMs, freshSinceMs)) return known.map
    const owners = { atMs: nowMs, map: this.#store.pipes.owners() }
    this.#owners = owners
    owners.map.catch(() => {
      if (this.#owners === owners) this.#owners = null
    })
    return owners.map
  }

  /** All nodes including this one. */
  nodes(): Promise<NodeRecord[]> {
    return this.#store.nodes.list()
  }

  /** Nodes that ended without leaving. */
  lostNodes(): Promise<LostNode[]> {
    return this.#store.nodes.lost()
  }

  /** A duty that one node does for all while it is valid, such as housekeeping and alerts. Equal names share one lease. */
  lease(duty: string): Duty {
    const known = this.#duties.get(duty)
    if (known !== undefined) return known
    const state = () => (this.isLive ? this.#leaseId : null)
    const made = new Duty(duty, this.#store.duties, state, this.#log)
    this.#duties.set(duty, made)
    return made
  }

  /** Leaves the cluster: other nodes take over immediately. */
  async close(): Promise<void> {
    this.#isClosing = true
    clearTimeout(this.#timer)
    try {
      if (!(await endsWithin(leaveMs, this.#leave())))
        this.#log.warn({ limit_ms: leaveMs }, 'cluster.leave_failed')
    } catch (err) {
      // The other nodes find its lease expired in a few seconds.
      this.#log.warn({ err }, 'cluster.leave_failed')
    }
  }

  async #leave(): Promise<void> {
    await this.#beating
    Atomics.store(this.#until, 0, 0n)
    await this.changes.close()
    await this.#store.nodes.leave(this.#leaseId)
  }

  async #beat(): Promise<void> {
    if (this.#isClosing) return
    const startedAt = performance.now()
    try {
      await this.#heartbeat()
      this.#hasFailed = false
    } catch (err) {
      if (!this.#hasFailed && !this.#isClosing) this.#log.warn({ err }, 'cluster.heartbeat_failed')
      this.#hasFailed = true
    }
    if (this.#isClosing) return
    // An invalid node has nothing to wait for.
    const everyMs = this.isLive ? heartbeatEveryMs : heartbeatEveryMs / 4
    const waitMs = Math.max(0, everyMs - (performance.now() - startedAt))
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
    }, waitMs)
  }

  async #heartbeat(): Promise<void> {
    if (!(await this.#renew())) {
      Atomics.store(this.#until, 0, 0n)
      await this.#join()
      this.#log.warn({ node_id: this.nodeId, node: this.name }, 'cluster.joined_again')
    }
    await this.#store.nodes.removeExpired()
    const nowMs = performance.now()
    if (nowMs - this.#measuredAt >= measureEveryMs) {
      this.#measuredAt = nowMs
      await this.clock.measure()
    }
    if (nowMs - this.#prunedAt >= pruneEveryMs) {
      this.#prunedAt = nowMs
      await this.#store.changes.prune(changesKeptMs)
    }
  }

  /** Returns false when the lease is gone. */
  async #renew(): Promise<boolean> {
    const sentAtNs = monotonicNs()
    // Valid for at most leaseMs after the last time at which all changes had been read.
    const ageMs = Math.max(0, msOf(sentAtNs - this.changes.readAtNs))
    const forMs = Math.floor(leaseMs - ageMs)
    if (forMs <= 0) return true
    const renewed = await this.#store.nodes.renew(this.#leaseId, forMs)
    if (renewed === null) return false
    this.#isDraining = renewed.isDraining
    Atomics.store(this.#until, 0, sentAtNs + nsOf(forMs - leaseMarginMs))
    return true
  }
}

/** Held by the lease with which it was claimed: while that is valid, no other node can have the duty. */
class Duty {
  readonly #name: string
  readonly #store: ClusterStore['duties']
  readonly #leaseId: () => string | null
  readonly #log: Logger
  #claimedBy: string | null = null

  constructor(name: string, store: ClusterStore['duties'], leaseId: () => string | null, log: Logger) {
    this.#name = name
    this.#store = store
    this.#leaseId = leaseId
    this.#log = log
  }

  /** True when this node has the duty; tries to take a free one. Call it before each run. */
  async isMine(): Promise<boolean> {
    const leaseId = this.#leaseId()
    if (leaseId === null) return false
    if (this.#claimedBy !== leaseId) {
      try {
        if (!(await this.#store.claim(this.#name, leaseId))) return false
      } catch (err) {
        this.#log.warn({ err, duty: this.#name }, 'cluster.duty_not_claimed')
        return false
      }
      this.#claimedBy = leaseId
      this.#log.info({ duty: this.#name }, 'cluster.duty_taken')
    }
    return this.#leaseId() === leaseId
  }
}
