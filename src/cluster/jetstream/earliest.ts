/**
 * Finds the oldest kept frame of each pipe. The stream drops from its beginning (`max_age`), and a pipe's owner purges
 * delivered frames. Neither is announced to every node, so cached results are checked against the stream's first
 * sequence.
 */
import assert from 'node:assert'
import { pipeSubjects, seqOf } from './frames.ts'
import type { PipePosition } from './position.ts'
import type { StreamClient, StreamState } from './stream-client.ts'
import type { Totals } from './totals.ts'

/** The maximum delay until a drop by the stream is noticed. Lanes compare their cursors after each read. */
const freshMs = 1_000
/** A purge moves the stream's first sequence only when no older frame of any pipe is left. */
const purgeCheckMs = 60_000
const maxPipes = 20_000

interface Known {
  /** The sequence of the oldest frame; null when there is none. */
  firstSeq: number | null
  position: PipePosition
  /** Monotonic times: when it was found, and since when it can have changed. */
  foundAt: number
  doubtedAt: number
}

export class Earliest {
  readonly #client: StreamClient
  readonly #totals: Totals
  readonly #cluster: string
  readonly #known = new Map<string, Known>()
  #state: { at: number; found: Promise<StreamState> } | null = null

  constructor(client: StreamClient, totals: Totals, cluster: string) {
    this.#client = client
    this.#totals = totals
    this.#cluster = cluster
  }

  /** The position just before the pipe's oldest frame. */
  async of(pipeId: string): Promise<PipePosition> {
    const known = this.#known.get(pipeId)
    const now = performance.now()
    if (known !== undefined && known.firstSeq !== null && now - known.foundAt < purgeCheckMs) {
      const { firstSeq } = await this.#stateSince(Math.max(known.doubtedAt, now - freshMs))
      if (firstSeq <= known.firstSeq) return known.position
    }
    return await this.#find(pipeId)
  }

  /** From now on, dropped messages matter: a reader is close to the end of their lifetime. */
  doubt(pipeId: string): void {
    const known = this.#known.get(pipeId)
    if (known !== undefined) known.doubtedAt = performance.now()
  }

  /** A node has purged frames of these pipes, or of any pipe. */
  forget(): void {
    this.#known.clear()
    this.#state = null
  }

  async #find(pipeId: string): Promise<PipePosition> {
    const foundAt = performance.now()
    const { firstSeq } = await this.#stateSince(foundAt - freshMs)
    const look = () => this.#client.nextOfLeader(pipeSubjects({ cluster: this.#cluster, pipeId }), firstSeq)
    let first = await look()
    let position: PipePosition | null = null
    if (first === null) {
      // The head is read first: messages appended from now on are after it. Reading it last would skip the pipe's first
      // message.
      position = await this.#totals.head(pipeId)
      first = await look()
    }
    if (first !== null) position = await this.#totals.at(pipeId, seqOf(first.streamSeq, 0) - 1)
    assert(position !== null)
    if (this.#known.size >= maxPipes) this.#known.clear()
    this.#known.set(pipeId, { firstSeq: first?.streamSeq ?? null, position, foundAt, doubtedAt: 0 })
    return position
  }

  /** Not older than this. */
  #stateSince(since: number): Promise<StreamState> {
    if (this.#state !== null && this.#state.at >= since) return this.#state.found
    const asked = { at: performance.now(), found: this.#client.state() }
    this.#state = asked
    asked.found.catch(() => {
      if (this.#state === asked) this.#state = null
    })
    return asked.found
  }
}
