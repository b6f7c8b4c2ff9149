/**
 * The parked records of one lane, and the limit of all parked records (`parked.max_bytes`). Room is reserved before
 * records are stored, so that concurrent lanes do not exceed the limit together.
 */
import { isDeepStrictEqual } from 'node:util'
import type { StoredMessage } from '../../log/buffer.ts'
import { recordTexts } from '../../log/record-text.ts'
import type { LaneOwner } from '../../metadata/lane-ownership.ts'
import {
  type AttemptedRange,
  type NewParked,
  nothingParked,
  type ParkedCause,
  type ParkedCounts,
  type ParkedPosition,
  type ParkedStore,
  parkedRowBytes,
} from '../../metadata/parked-store-port.ts'

interface LaneIds {
  destinationId: string
  workspaceId: string
}

/** The limit, shared by all lanes of this process. */
export class ParkedSpace {
  readonly #store: Pick<ParkedStore, 'taken'>
  readonly #maxBytes: number
  /** By workspace. */
  readonly #reserved = new Map<string, number>()
  #releases = 0

  constructor(store: Pick<ParkedStore, 'taken'>, maxBytes: number) {
    this.#store = store
    this.#maxBytes = maxBytes
  }

  /** Reserves room. Null when there is none; otherwise call the result when the records are stored or will not be. */
  async reserve(workspaceId: string, bytes: number): Promise<(() => void) | null> {
    for (;;) {
      const releases = this.#releases
      const taken = await this.#store.taken(workspaceId)
      // Records whose room was released meanwhile can be stored but missing in this sum: read again.
      if (releases !== this.#releases) continue
      const ofOthers = [...this.#reserved.values()].reduce((sum, each) => sum + each, 0)
      const own = this.#reserved.get(workspaceId) ?? 0
      const isFull = taken.bytes + ofOthers + bytes > this.#maxBytes
      if (isFull || taken.ofWorkspace + own + bytes > this.#maxOf(taken.workspaces)) return null
      this.#reserved.set(workspaceId, own + bytes)
      return () => this.#release(workspaceId, bytes)
    }
  }

  /** With several workspaces, one of them can use at most half of the room. */
  #maxOf(workspaces: number): number {
    return workspaces > 1 ? Math.floor(this.#maxBytes / 2) : this.#maxBytes
  }

  #release(workspaceId: string, bytes: number): void {
    this.#releases += 1
    const left = (this.#reserved.get(workspaceId) ?? 0) - bytes
    if (left > 0) this.#reserved.set(workspaceId, left)
    else this.#reserved.delete(workspaceId)
  }
}

export class Parking {
  readonly store: ParkedStore
  /** The lane's owner, which its writes carry. */
  readonly owner: LaneOwner
  readonly #space: ParkedSpace
  readonly #workspaceId: string
  #counts: ParkedCounts = nothingParked
  #inherited: readonly ParkedPosition[] = []

  static async open(
    spec: LaneIds,
    { epoch, attempted }: { epoch: number; attempted: AttemptedRange },
    store: ParkedStore,
    space: ParkedSpace,
  ): Promise<Parking> {
    const { destinationId, workspaceId } = spec
    const parking = new Parking({ destinationId, epoch }, workspaceId, store, space)
    await parking.refresh()
    await parking.#findInherited(attempted)
    return parking
  }

  private constructor(owner: LaneOwner, workspaceId: string, store: ParkedStore, space: ParkedSpace) {
    this.store = store
    this.owner = owner
    this.#space = space
    this.#workspaceId = workspaceId
  }

  /** A new object after each change. */
  get counts(): ParkedCounts {
    return this.#counts
  }

  /** Positions parked by an earlier process, of messages that the cursor has not moved past. */
  get inherited(): readonly ParkedPosition[] {
    return this.#inherited
  }

  async #findInherited(range: AttemptedRange): Promise<void> {
    if (this.#counts.rows === 0 || range.throughSeq <= range.afterSeq) return
    this.#inherited = await this.store.parkedIn(this.owner.destinationId, range)
  }

  async refresh(): Promise<void> {
    const counts = await this.store.counts(this.owner.destinationId)
    if (!isDeepStrictEqual(counts, this.#counts)) this.#counts = counts
  }

  /** Runs `store` with reserved room. Returns false when there is none. */
  async withRoom(parked: readonly NewParked[], store: () => Promise<void>): Promise<boolean> {
    const bytes = parked.reduce((sum, { body }) => sum + body.length + parkedRowBytes, 0)
    const release = await this.#space.reserve(this.#workspaceId, bytes)
    if (release === null) return false
    try {
      await store()
    } finally {
      release()
    }
    return true
  }
}

/** A parked message, or its part that is not stored. `attempts` is the number of attempts. */
export function parkedMessage(
  message: StoredMessage,
  { recordOffset, generation }: { recordOffset: number; generation: number },
  attempts: number,
  cause: ParkedCause,
): NewParked {
  const { msgId, seq, receivedMs, recordCount, body } = message
  const isWhole = recordOffset === 0
  return {
    ...cause,
    msgId,
    seq,
    receivedMs,
    attempts,
    generation,
    recordIndex: null,
    firstIndex: recordOffset,
    recordCount: recordCount - recordOffset,
    body: isWhole ? body : Buffer.from(recordTexts(body).slice(recordOffset).join('\n')),
  }
}

/** The cause of parking by an operator's skip: the destination's last error. */
export function skipCause(lastError: Omit<ParkedCause, 'reason'> | null): ParkedCause {
  const { code = 'skipped', message = 'Skipped.', column = null, value = null } = lastError ?? {}
  return { reason: 'skipped', code, message, column, value }
}
