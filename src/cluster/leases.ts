/**
 * Decides which pipes this node delivers: the delivery thread's part of the cluster.
 *
 * The thread has one lease, renewed every second for six seconds, under which it holds all of its pipes. It trusts the
 * lease for five seconds, measured on the monotonic clock from before the renewal was sent. So it stops a second before
 * another node can take over, and after a pause of any length its first check finds that it owns nothing.
 *
 *   free ──claimed: epoch + 1──▶ owned ──no longer its share, draining──▶ being released ──lanes saved──▶ free
 *                                  │                                            │
 *                                  └────────── lease late or gone ──────────────┘──▶ lost: lanes stop without saving
 *
 * Two independent steps each second:
 *   renew the lease, or join under a new one
 *   remove expired leases · read the list of nodes · release pipes of other nodes' shares · claim free pipes of its own share
 *
 * A node that loses the buffer while another one reaches it (sharers.ts) ends its lease, which releases all of its
 * pipes immediately: their lanes wait for the buffer and could not be handed over in time. It joins again without a
 * share.
 *
 * Every node computes the owner of a pipe in the same way (`sharers.ts`). A short disagreement costs a hand-over but
 * never causes two owners, because a claim compares the holder with the one that was read.
 *
 * A crash between any two statements leaves either a row whose lease is gone or will expire (taken over after six
 * seconds), or a row of this lease that the node does not know (detected by the count at the next renewal, and
 * released).
 *
 * A lease that was late is never used again, even if no node took over: pending saves carry its epochs, and every
 * reopened lane gets a greater one.
 */
import { randomUUID } from 'node:crypto'
import type { BufferContact } from '../log/buffer.ts'
import { type ClusterStore, leaseMarginMs, leaseMs, type OwnedPipe } from '../metadata/cluster-store.ts'
import type { LaneOwnership } from '../metadata/lane-ownership.ts'
import type { Logger } from '../platform/log.ts'
import { Repeated } from '../platform/repeated.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import { slices } from '../platform/slices.ts'
import { monotonicNs, msOf, nsOf } from './clock.ts'
import { isCutOff, ownerOf, sharersOf } from './sharers.ts'

export interface PipeLeasesOptions {
  /** Uses the thread's own metadata connection. */
  store: Pick<ClusterStore, 'pipes'>
  /** `ClusterNode.nodeId`, passed by main. */
  nodeId: string
  /** This node's current contact with the buffer; undefined when it is not known. */
  buffer?(): BufferContact
  log: Logger
}

/**
 * Resolves when the node holds its share of the pipes; then the lanes are opened. Rejects when the database cannot be
 * reached.
 */
export async function openPipeLeases(options: PipeLeasesOptions): Promise<PipeLeases> {
  const leases = new PipeLeases(options)
  await leases.open()
  return leases
}

const everyMs = 1_000
/** The time for the current batch before its pipe goes to another node. */
const releaseGraceMs = 4_000
const releasedAtOnce = 16
/** Pipes per statement: their lanes start while the next pipes are claimed. */
const claimedAtOnce = 500
/**
 * After a database outage all nodes rejoin, one slightly before the others. It waits for them instead of taking every
 * pipe and giving most of them back.
 */
const settleMs = 1_500

export class PipeLeases implements LaneOwnership {
  readonly #store: ClusterStore['pipes']
  readonly #nodeId: string
  readonly #buffer: () => BufferContact | null
  readonly #log: Logger
  readonly #owned = new Map<string, number>()
  /** Pipes being released, with their epochs. */
  readonly #releasing = new Map<string, number>()
  readonly #gained: ((pipeId: string) => void)[] = []
  readonly #lost: ((pipeId: string) => void)[] = []
  readonly #released: ((pipeId: string, graceMs: number) => Promise<void>)[] = []
  /** Null when the node has none. */
  #leaseId: string | null = null
  #untilNs = 0n
  /** The nodes that share the pipes, as of the last read. */
  #sharers: readonly string[] = []
  /** Owned pipes that belong to another node's share since the sharers changed. */
  #toRelease: string[] = []
  #claimsFromNs = 0n
  #isClaiming = true
  #isClosing = false
  #hasFailed = false
  /** Statements that change the node's pipes run one after the other. */
  readonly #queue = new SerialQueue()
  /** Independent of all other work: taking over thousands of pipes must not delay the renewal. */
  #renewals: Repeated | null = null
  #rounds: Repeated | null = null
  #endTimer: NodeJS.Timeout | undefined

  constructor({ store, nodeId, buffer, log }: PipeLeasesOptions) {
    this.#store = store.pipes
    this.#nodeId = nodeId
    this.#buffer = buffer ?? (() => null)
    this.#log = log
  }

  async open(): Promise<void> {
    await this.#join()
    this.#renewals = new Repeated(everyMs, () => this.#renewOrJoin())
    await this.#queue.run(() => this.#share())
    // After a failure the renewal fails and logs too, or the next round repeats this.
    this.#rounds = new Repeated(everyMs, () => this.#queue.run(() => this.#share()).catch(this.#notShared))
  }

  /** The pipes that this node delivers now, with their epochs. */
  get ownedPipes(): ReadonlyMap<string, number> {
    return this.#isValid ? new Map(this.#owned) : new Map()
  }

  owned(pipeId: string): number | null {
    return this.#isValid ? (this.#owned.get(pipeId) ?? null) : null
  }

  holds(pipeId: string, epoch: number): boolean {
    if (!this.#isValid) return false
    return this.#owned.get(pipeId) === epoch || this.#releasing.get(pipeId) === epoch
  }

  onGained(listener: (pipeId: string) => void): void {
    this.#gained.push(listener)
  }

  onLost(listener: (pipeId: string) => void): void {
    this.#lost.push(listener)
  }

  onReleased(listener: (pipeId: string, graceMs: number) => Promise<void>): void {
    this.#released.push(listener)
  }

  async changed(givenId: string): Promise<void> {
    const pipeId = givenId.toLowerCase()
    if (this.#owned.has(pipeId) || this.#releasing.has(pipeId) || !this.#isMine(pipeId)) return
    try {
      await this.#queue.run(() => this.#claim(pipeId))
    } catch (err) {
      // The next periodic claim finds it.
      this.#log.warn({ err, pipe_id: pipeId }, 'cluster.pipe_not_claimed')
    }
  }

  /** Stops claiming pipes: the thread is about to close its lanes. */
  stopClaiming(): void {
    this.#isClaiming = false
  }

  /** Releases every pipe. Call it after the lanes are closed, so that their rows are saved. */
  async close(): Promise<void> {
    this.#isClosing = true
    this.#isClaiming = false
    await Promise.all([this.#renewals?.close(), this.#rounds?.close()])
    clearTimeout(this.#endTimer)
    const leaseId = this.#leaseId
    this.#forgetLease()
    if (leaseId === null) return
    try {
      await this.#queue.run(() => this.#store.leave(leaseId))
    } catch (err) {
      // The other nodes find it expired in a few seconds.
      this.#log.warn({ err }, 'cluster.lease_not_ended')
    }
  }

  get #isValid(): boolean {
    return this.#leaseId !== null && monotonicNs() < this.#untilNs
  }

  /** True when the pipe is in this node's share, as far as the nodes are known. */
  #isMine(pipeId: string): boolean {
    return ownerOf(pipeId, this.#sharers) === this.#nodeId
  }

  async #renewOrJoin(): Promise<void> {
    try {
      if (this.#leaseId === null || !(await this.#renew(this.#leaseId))) await this.#join()
      this.#hasFailed = false
    } catch (err) {
      if (!this.#hasFailed) this.#log.warn({ err, pipes: this.#owned.size }, 'cluster.lease_renewal_failed')
      this.#hasFailed = true
    }
  }

  readonly #notShared = (err: unknown): void => this.#log.debug({ err }, 'cluster.share_not_claimed')

  async #share(): Promise<void> {
    if (this.#isClosing || !this.#isValid) return
    await this.#store.removeExpired()
    const workers = await this.#store.workers()
    const sharers = sharersOf(workers)
    const own = workers.find(({ leaseId }) => leaseId === this.#leaseId)
    if (own !== undefined && isCutOff(own, workers)) await this.#endLease(own.leaseId)
    if (sharers.join() !== this.#sharers.join()) {
      this.#sharers = sharers
      this.#toRelease = [...this.#owned.keys()].filter((pipeId) => !this.#isMine(pipeId))
    }
    this.#releaseOthers()
    await this.#claim()
  }

  async #join(): Promise<void> {
    const isFirst = this.#untilNs === 0n
    const leaseId = randomUUID()
    const sentAtNs = monotonicNs()
    await this.#store.join({ nodeId: this.#nodeId, leaseId }, this.#buffer())
    this.#leaseId = leaseId
    this.#believeFrom(sentAtNs)
    if (!isFirst) this.#claimsFromNs = sentAtNs + nsOf(settleMs)
  }

  /** Returns false when the lease is over, and with it all of its pipes. */
  async #renew(leaseId: string): Promise<boolean> {
    const sentAtNs = monotonicNs()
    // A lease that this node stopped trusting must not be used again.
    const held = sentAtNs < this.#untilNs ? await this.#store.renew(leaseId, this.#buffer()) : null
    if (held === null || this.#leaseId !== leaseId || !this.#isValid) {
      this.#loseAll()
      return false
    }
    this.#believeFrom(sentAtNs)
    if (held !== this.#owned.size + this.#releasing.size) {
      this.#queue.run(() => this.#compare(leaseId)).catch(this.#notShared)
    }
    return true
  }

  /** A pipe was deleted, or a statement whose reply was lost has run. Nothing is claimed meanwhile. */
  async #compare(leaseId: string): Promise<void> {
    if (this.#leaseId !== leaseId) return
    const before = new Map([...this.#owned, ...this.#releasing])
    const rows = new Map((await this.#store.held(leaseId)).map(({ pipeId, epoch }) => [pipeId, epoch]))
    if (this.#leaseId !== leaseId) return
    for (const [pipeId, epoch] of this.#owned) {
      if (rows.get(pipeId) === epoch) continue
      this.#owned.delete(pipeId)
      this.#tell(this.#lost, pipeId)
    }
    for (const [pipeId, epoch] of rows) {
      // Released again, so that the next claim gets an epoch of its own.
      if (!before.has(pipeId)) await this.#store.release(leaseId, { pipeId, epoch })
    }
  }

  #believeFrom(sentAtNs: bigint): void {
    this.#untilNs = sentAtNs + nsOf(leaseMs - leaseMarginMs)
    clearTimeout(this.#endTimer)
    const leftMs = Math.max(0, msOf(this.#untilNs - monotonicNs()))
    this.#endTimer = setTimeout(() => {
      if (!this.#isValid) this.#loseAll()
    }, Math.ceil(leftMs) + 1)
  }

  /** Ends the lease, so that another node takes its pipes immediately. Does nothing without pipes. */
  async #endLease(leaseId: string): Promise<void> {
    if (this.#leaseId !== leaseId || this.#owned.size + this.#releasing.size === 0) return
    this.#log.warn({ node_id: this.#nodeId, pipes: this.#owned.size }, 'cluster.buffer_lost')
    this.#loseAll()
    await this.#store.leave(leaseId)
  }

  /** Stops the lanes immediately, whatever they wait for. */
  #loseAll(): void {
    const lost = this.#forgetLease()
    if (lost.length === 0) return
    this.#log.warn({ node_id: this.#nodeId, pipes: lost.length }, 'cluster.pipes_lost')
    for (const pipeId of lost) this.#tell(this.#lost, pipeId)
  }

  #forgetLease(): string[] {
    const lost = [...this.#owned.keys(), ...this.#releasing.keys()]
    this.#leaseId = null
    this.#owned.clear()
    this.#releasing.clear()
    return lost
  }

  /** With `pipeId`, claims only that pipe. */
  async #claim(pipeId?: string): Promise<void> {
    const leaseId = this.#leaseId
    if (leaseId === null || !this.#isClaiming || monotonicNs() < this.#claimsFromNs) return
    const free = await this.#store.free(pipeId)
    const mine = free.filter((pipe) => this.#isMine(pipe.pipeId))
    for (const some of slices(mine, claimedAtOnce)) {
      const claimed = await this.#store.claim(leaseId, some)
      // The lease was lost during the statement: the rows belong to a lease that will expire.
      if (this.#leaseId !== leaseId || !this.#isValid) return
      for (const { pipeId, epoch } of claimed) this.#owned.set(pipeId, epoch)
      for (const { pipeId } of claimed) this.#tell(this.#gained, pipeId)
    }
  }

  #releaseOthers(): void {
    while (this.#isClaiming && this.#releasing.size < releasedAtOnce) {
      const pipeId = this.#toRelease.pop()
      if (pipeId === undefined) return
      const epoch = this.#owned.get(pipeId)
      if (epoch === undefined || this.#isMine(pipeId)) continue
      this.#owned.delete(pipeId)
      this.#releasing.set(pipeId, epoch)
      void this.#release({ pipeId, epoch })
    }
  }

  async #release(pipe: OwnedPipe): Promise<void> {
    const { pipeId, epoch } = pipe
    const leaseId = this.#leaseId
    try {
      await Promise.all(this.#released.map((listener) => listener(pipeId, releaseGraceMs)))
      // If the lease was lost meanwhile, the pipe is free in any case.
      while (leaseId !== null && this.#leaseId === leaseId) {
        if (await this.#isReleased(leaseId, pipe)) break
        await new Promise((resolve) => setTimeout(resolve, everyMs))
      }
    } catch (err) {
      this.#log.error({ err, pipe_id: pipeId }, 'cluster.pipe_not_released')
    }
    if (this.#releasing.get(pipeId) === epoch) this.#releasing.delete(pipeId)
    // The next pipe is released now, without waiting for the next round.
    if (!this.#isClosing) this.#releaseOthers()
  }

  async #isReleased(leaseId: string, pipe: OwnedPipe): Promise<boolean> {
    try {
      await this.#store.release(leaseId, pipe)
      return true
    } catch (err) {
      this.#log.warn({ err, pipe_id: pipe.pipeId }, 'cluster.release_failed')
      return false
    }
  }

  #tell(listeners: readonly ((pipeId: string) => void)[], pipeId: string): void {
    for (const listener of listeners) listener(pipeId)
  }
}
