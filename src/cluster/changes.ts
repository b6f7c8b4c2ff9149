/**
 * Applies the metadata changes of all nodes in order, and waits until the other nodes have applied a change made here.
 *
 *   notified, or a second has passed ─▶ read changes after `seen` ─▶ every listener ─▶ `seen` in this node's row
 *
 * A failed listener is called again, and nothing after that change counts as seen. A node that cannot read or apply
 * changes becomes invalid (`readAtNs`), and then no node waits for it.
 */
import type { Change, Changes } from '../metadata/changes.ts'
import type { ClusterStore } from '../metadata/cluster-store.ts'
import type { Logger } from '../platform/log.ts'
import { SerialQueue } from '../platform/serial-queue.ts'
import { Waits } from '../platform/waits.ts'
import { monotonicNs, nsOf } from './clock.ts'

const pollMs = 1_000
const atOnce = 200
/** Listeners have their own deadlines, of at most 10 s. While one works, this node counts as up to date. */
const applyLimitNs = nsOf(15_000)
/** The poll interval of a wait for the other nodes when no notification arrives. */
const awaitedPollMs = 200
/** The limit when the database is unavailable: the change is stored, but it is unknown which nodes have seen it. */
const publishLimitMs = 15_000

export interface FollowerOptions {
  store: Pick<ClusterStore, 'nodes' | 'changes'>
  log: Logger
  /** This node's current lease. */
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
  #isWoken = false
  #endListening: () => Promise<void> = async () => {}
  /** The pauses under way, which a notification ends. */
  readonly #pauses = new Waits()
  #running: Promise<void> = Promise.resolve()
  readonly #reading = new SerialQueue()

  /** `seen` must be read before anything that the listeners cache. */
  constructor(options: FollowerOptions, seen: number) {
    this.#options = options
    this.#seen = seen
  }

  get seen(): number {
    return this.#seen
  }

  /** The time (`monotonicNs`) up to which every change has been read and is applied or being applied. */
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
    // Applied here immediately. It is read again in its turn, which changes nothing.
    await this.#apply([change])
    const givesUpAt = performance.now() + publishLimitMs
    for (;;) {
      try {
        await this.#untilSeen()
        return
      } catch (error) {
        if (performance.now() >= givesUpAt) throw error
        await this.#pauses.wait(pollMs)
      }
    }
  }

  /** Applies every change up to now, in order. Rejects when they cannot be read or applied. Runs one at a time. */
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

  /** Starts to follow changes. */
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
        if (!this.#hasFailed && !this.#isClosing) this.#options.log.warn({ err }, 'cluster.changes_delayed')
        this.#hasFailed = true
        // After a failure, retry at the poll interval and not with each notification.
        this.#isWoken = false
      }
      if (!this.#isWoken && !this.#isClosing) await this.#pauses.wait(pollMs)
      this.#isWoken = false
    }
  }

  #notified(): void {
    this.#isWoken = true
    this.#pauses.end()
  }

  async #apply(changes: readonly Change[]): Promise<void> {
    const results = await Promise.allSettled(
      changes.flatMap((change) => [...this.#listeners].map((listener) => listener(change))),
    )
    const failed = results.find((result) => result.status === 'rejected')
    if (failed !== undefined) throw failed.reason
  }

  /** Resolves when every valid node has seen what is committed now. */
  async #untilSeen(): Promise<void> {
    const { store, leaseId } = this.#options
    const newest = await store.changes.newest()
    while (!this.#isClosing && (await store.changes.isAwaited(newest, leaseId()))) {
      await this.#pauses.wait(awaitedPollMs)
    }
  }
}

/** Listeners read whole entries again, so one of several changes of an entry is enough. */
function distinct(changes: readonly Change[]): Change[] {
  return [...new Map(changes.map((change) => [JSON.stringify(change), change])).values()]
}
