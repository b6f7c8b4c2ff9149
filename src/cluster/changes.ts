/**
 * Changes of metadata that any node made, applied here in their order; and the wait for the others after one that was made
 * here.
 *
 *   notified, or a second has passed ─▶ read what is after `seen` ─▶ every listener ─▶ `seen` in this node's row
 *
 * A listener that fails is asked again: nothing after it counts as seen. A node that cannot read or apply changes stops being
 * valid (`readAtNs`), so nobody waits for it longer than that.
 */
import type { Change, Changes } from '../metadata/changes.ts'
import type { ClusterStore } from '../metadata/cluster-store.ts'
import type { Logger } from '../platform/log.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import { monotonicNs, nsOf } from './clock.ts'

const pollMs = 1_000
const atOnce = 200
/** A listener has deadlines of its own, the longest of 10 s. While it works, this node follows. */
const applyLimitNs = nsOf(15_000)
/** How often somebody who waits for the others looks, where no notification comes. */
const awaitedPollMs = 200
/** Longer than that the database was away: the change is stored, and who has seen it is not known. */
const publishLimitMs = 15_000

export interface FollowerOptions {
  store: Pick<ClusterStore, 'nodes' | 'changes'>
  log: Logger
  /** This node's lease as it is now. */
  leaseId(): string
  /** Changes are missing that are no longer kept: every copy must be read again. */
  onMissed(): void
}

export class ChangeFollower implements Changes {
  readonly #options: FollowerOptions
  readonly #listeners = new Set<(change: Change) => Promise<void>>()
  #seen: number
  #readAtNs = 0n
  #applyingSinceNs: bigint | null = null
  #hasFailed = false
  #isClosing = false
  #wake: () => void = () => {}
  #isWoken = false
  #endListening: () => Promise<void> = async () => {}
  /** Those who wait for the others, and look again when a notification comes. */
  readonly #waiting = new Set<() => void>()
  #running: Promise<void> = Promise.resolve()
  readonly #reading = new SerialQueue()

  /** `seen`: read before anything that the listeners keep copies of. */
  constructor(options: FollowerOptions, seen: number) {
    this.#options = options
    this.#seen = seen
  }

  get seen(): number {
    return this.#seen
  }

  /** As of when (`monotonicNs`) every change had been read and applied, or is being applied. */
  get readAtNs(): bigint {
    const now = monotonicNs()
    const isApplying = this.#applyingSinceNs !== null && now - this.#applyingSinceNs < applyLimitNs
    return isApplying ? now : this.#readAtNs
  }

  subscribe(listener: (change: Change) => Promise<void>): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  async publish(change: Change): Promise<void> {
    // Here at once; it is read once more in its turn, which changes nothing.
    await this.#apply([change])
    const givesUpAt = performance.now() + publishLimitMs
    for (;;) {
      try {
        await this.#untilSeen()
        return
      } catch (error) {
        if (performance.now() >= givesUpAt) throw error
        await this.#pause(pollMs)
      }
    }
  }

  /** Every change up to now, in order. Rejects when they cannot be read or applied. One at a time. */
  catchUp(): Promise<void> {
    return this.#reading.run(() => this.#catchUp())
  }

  async #catchUp(): Promise<void> {
    const { store, leaseId, onMissed } = this.#options
    for (;;) {
      const askedAtNs = monotonicNs()
      const found = await store.changes.since(this.#seen, atOnce)
      if (found === null) {
        onMissed()
        throw new Error('cluster: changes are missing that are no longer kept')
      }
      const last = found.at(-1)
      if (last !== undefined) {
        this.#applyingSinceNs = monotonicNs()
        try {
          await this.#apply(distinct(found.map(({ change }) => change)))
        } finally {
          this.#applyingSinceNs = null
        }
        this.#seen = last.seq
        await store.nodes.seen(leaseId(), last.seq)
      }
      if (found.length < atOnce) {
        this.#readAtNs = askedAtNs
        return
      }
    }
  }

  /** Follows from now on. */
  start(): void {
    this.#endListening = this.#options.store.changes.listen(() => this.#notified())
    this.#running = this.#run()
  }

  async close(): Promise<void> {
    this.#isClosing = true
    this.#notified()
    await this.#endListening()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#isClosing) {
      try {
        await this.catchUp()
        this.#hasFailed = false
      } catch (err) {
        if (!this.#hasFailed && !this.#isClosing) this.#options.log.warn({ err }, 'cluster.changes_wait')
        this.#hasFailed = true
        // Not at the pace of notifications.
        this.#isWoken = false
      }
      await this.#sleep()
    }
  }

  #notified(): void {
    this.#isWoken = true
    this.#wake()
    for (const look of this.#waiting) look()
  }

  /** Until something is notified, at most a second. */
  async #sleep(): Promise<void> {
    if (!this.#isWoken && !this.#isClosing) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pollMs)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#isWoken = false
    this.#wake = () => {}
  }

  async #apply(changes: readonly Change[]): Promise<void> {
    const results = await Promise.allSettled(
      changes.flatMap((change) => [...this.#listeners].map((listener) => listener(change))),
    )
    const failed = results.find((result) => result.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }

  /** Every valid node has seen what is committed now. */
  async #untilSeen(): Promise<void> {
    const { store, leaseId } = this.#options
    const newest = await store.changes.newest()
    while (!this.#isClosing && (await store.changes.isAwaited(newest, leaseId()))) {
      await this.#pause(awaitedPollMs)
    }
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer)
        this.#waiting.delete(done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      this.#waiting.add(done)
    })
  }
}

/** Copies are read again whole, so of several changes of one thing one is enough. */
function distinct(changes: readonly Change[]): Change[] {
  return [...new Map(changes.map((change) => [JSON.stringify(change), change])).values()]
}
