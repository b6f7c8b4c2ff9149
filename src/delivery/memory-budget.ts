/**
 * Limits the memory of all batches under way and shares it between workspaces. Each workspace takes at most three
 * quarters of what the others leave, so that some memory is always left for the next one.
 *
 *   workspaces take turns; within one, the oldest batch that fits is next, and a batch is overtaken at most 16 times
 *   a batch larger than the whole budget is admitted when nothing else is under way
 *   a workspace with nothing under way can exceed the budget, one such batch at a time
 *
 * Thousands of lanes can wait: each reservation, release and admission takes O(log n) in the number of waiting lanes
 * and their workspaces.
 *
 * A batch that is not cut yet reserves at most half of the free memory (`shareBytes`), so that a few large, stuck
 * batches always leave some for the next lane.
 *
 * Memory that no batch holds can be lent to read-ahead. Batches are not affected: lent memory is revoked, oldest first,
 * before the sum exceeds the budget.
 */
import { FirstFit } from '../platform/first-fit.ts'

export interface MemoryReservation {
  /** Sets the actual size once it is known. */
  resize(bytes: number): void
  /** Returns false when there is no room; then nothing has changed. */
  tryResize(bytes: number): boolean
  /** Idempotent. */
  release(): void
}

/** Memory that is borrowed until it is released or revoked. */
export interface SpareMemory {
  /** Idempotent. */
  release(): void
}

/** The budget for one workspace. */
export interface WorkspaceMemory {
  /** The largest size that a batch should have when it is cut. */
  shareBytes(): number
  /** Null when it would have to wait. */
  tryReserve(bytes: number): MemoryReservation | null
  /** Resolves with null when `signal` ends the wait. */
  reserve(bytes: number, signal: AbortSignal): Promise<MemoryReservation | null>
  /** Null when there is none to spare. `onRevoked` is called at most once; after it the memory must be free. */
  trySpare(bytes: number, onRevoked: () => void): SpareMemory | null
}

interface Lent {
  bytes: number
  onRevoked(): void
}

interface Waiter {
  bytes: number
  /** How much more often it was overtaken than the next newer waiter. */
  overtakenMore: number
  older: Waiter | null
  newer: Waiter | null
  grant(reservation: MemoryReservation): void
}

const smallestShareBytes = 64 * 1024
const maxOvertaken = 16

/** A workspace that holds, borrows or waits for memory. */
class Holder {
  readonly workspaceId: string
  heldBytes = 0
  lentBytes = 0
  readonly #waiters = new FirstFit<Waiter>()
  #newest: Waiter | null = null
  /**
   * How often the oldest waiter was overtaken. Every newer one was overtaken at most as often, because overtaking one
   * means overtaking all older ones.
   */
  #overtaken = 0

  constructor(workspaceId: string) {
    this.workspaceId = workspaceId
  }

  get isWaiting(): boolean {
    return this.#waiters.count > 0
  }

  get isUnused(): boolean {
    return this.heldBytes === 0 && this.lentBytes === 0 && !this.isWaiting
  }

  /** The oldest waiter was overtaken too often: it is next, even if others would fit. */
  get isHeldUp(): boolean {
    return this.#overtaken >= maxOvertaken
  }

  /** The smallest waiting reservation: with less room, none is admitted. */
  get minBytes(): number {
    return this.isHeldUp ? this.#waiters.first()!.bytes : this.#waiters.smallestSize
  }

  /** The waiter that is next with this much room. */
  next(roomBytes: number): Waiter | undefined {
    return this.isHeldUp ? this.#waiters.first() : this.#waiters.first(roomBytes)
  }

  add(waiter: Waiter): void {
    waiter.older = this.#newest
    if (this.#newest !== null) this.#newest.newer = waiter
    this.#newest = waiter
    this.#waiters.push(waiter, waiter.bytes)
  }

  /** All waiters are overtaken by a batch that did not wait. */
  overtake(): void {
    if (this.#newest === null) return
    this.#newest.overtakenMore += 1
    this.#overtaken += 1
  }

  /** `overtakes`: the removed waiter was admitted before older ones. */
  remove(waiter: Waiter, overtakes: boolean): void {
    const { older, newer, overtakenMore } = waiter
    this.#waiters.delete(waiter)
    if (newer === null) this.#newest = older
    else newer.older = older
    if (older === null) this.#overtaken -= overtakenMore
    else {
      older.newer = newer
      older.overtakenMore += overtakenMore
      if (!overtakes) return
      older.overtakenMore += 1
      this.#overtaken += 1
    }
  }
}

export class MemoryBudget {
  readonly maxBytes: number
  #reservedBytes = 0
  readonly #holders = new Map<string, Holder>()
  /** Waiting workspaces in the order of their turns, with the demand of their next batch (`#demandOf`). */
  readonly #waiting = new FirstFit<Holder>()
  /** Waiting workspaces that hold nothing. */
  readonly #emptyHanded = new Set<Holder>()
  /** In the order in which it was lent, with the borrowing workspace. */
  readonly #lent = new Map<Lent, string>()
  #lentBytes = 0
  #isShared = false
  #isOverdrawn = false

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get reservedBytes(): number {
    return this.#reservedBytes
  }

  /** In addition to reserved memory. */
  get lentBytes(): number {
    return this.#lentBytes
  }

  /** There is more than one workspace: from now on each leaves memory for the others. */
  share(): void {
    this.#isShared = true
    for (const holder of this.#holders.values()) this.#waiting.resize(holder, this.#demandOf(holder))
  }

  of(workspaceId: string): WorkspaceMemory {
    return {
      shareBytes: () => Math.max(Math.floor(this.#freeFor(this.#held(workspaceId)) / 2), smallestShareBytes),
      tryReserve: (bytes) => this.#tryReserve(workspaceId, bytes),
      reserve: (bytes, signal) => this.#reserve(workspaceId, bytes, signal),
      trySpare: (bytes, onRevoked) => this.#trySpare(workspaceId, { bytes, onRevoked }),
    }
  }

  #tryReserve(workspaceId: string, bytes: number): MemoryReservation | null {
    const holder = this.#holders.get(workspaceId)
    const heldBytes = holder?.heldBytes ?? 0
    const fits = bytes <= this.#roomFor(heldBytes) || this.#canOverdraw(heldBytes)
    if (!fits || holder?.isHeldUp) return null
    holder?.overtake()
    return this.#grant(workspaceId, bytes)
  }

  #reserve(workspaceId: string, bytes: number, signal: AbortSignal): Promise<MemoryReservation | null> {
    const reservation = signal.aborted ? null : this.#tryReserve(workspaceId, bytes)
    if (reservation !== null || signal.aborted) return Promise.resolve(reservation)
    return new Promise((resolve) => {
      const leave = () => {
        this.#holder(workspaceId).remove(waiter, false)
        this.#changed(workspaceId)
        resolve(null)
        this.#admit()
      }
      const waiter: Waiter = {
        bytes,
        overtakenMore: 0,
        older: null,
        newer: null,
        grant: (granted) => {
          signal.removeEventListener('abort', leave)
          resolve(granted)
        },
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#holder(workspaceId).add(waiter)
      this.#changed(workspaceId)
    })
  }

  #trySpare(workspaceId: string, lent: Lent): SpareMemory | null {
    const { bytes } = lent
    const { heldBytes, lentBytes } = this.#holders.get(workspaceId) ?? { heldBytes: 0, lentBytes: 0 }
    const isFree =
      this.#waiting.count === 0 &&
      lentBytes + bytes <= this.#freeFor(heldBytes) &&
      this.#reservedBytes + this.#lentBytes + bytes <= this.maxBytes
    if (!isFree) return null
    this.#lent.set(lent, workspaceId)
    this.#lentBytes += bytes
    this.#holder(workspaceId).lentBytes += bytes
    return { release: () => this.#returnLent(lent) }
  }

  #returnLent(lent: Lent): void {
    const workspaceId = this.#lent.get(lent)
    if (workspaceId === undefined) return
    this.#lent.delete(lent)
    this.#lentBytes -= lent.bytes
    this.#holder(workspaceId).lentBytes -= lent.bytes
    this.#changed(workspaceId)
  }

  #revoke(): void {
    for (const lent of this.#lent.keys()) {
      if (this.#reservedBytes + this.#lentBytes <= this.maxBytes) return
      this.#returnLent(lent)
      lent.onRevoked()
    }
  }

  #held(workspaceId: string): number {
    return this.#holders.get(workspaceId)?.heldBytes ?? 0
  }

  #holder(workspaceId: string): Holder {
    const holder = this.#holders.get(workspaceId) ?? new Holder(workspaceId)
    this.#holders.set(workspaceId, holder)
    return holder
  }

  /** How much more a workspace that holds this much can take, if `less` of it were released. */
  #freeFor(heldBytes: number, less = 0): number {
    const reserved = this.#reservedBytes - less
    const held = heldBytes - less
    if (!this.#isShared) return this.maxBytes - reserved
    const othersLeave = this.maxBytes - (reserved - held)
    return Math.min(this.maxBytes - reserved, Math.floor((othersLeave * 3) / 4) - held)
  }

  /** The largest batch that fits. */
  #roomFor(heldBytes: number): number {
    return this.#reservedBytes === 0 ? Number.POSITIVE_INFINITY : this.#freeFor(heldBytes)
  }

  #canOverdraw(heldBytes: number): boolean {
    return this.#isShared && heldBytes === 0 && !this.#isOverdrawn
  }

  /**
   * Rewrites `bytes <= #freeFor(heldBytes)` so that one side is the same for all workspaces and one number can be
   * compared with all: from bytes + held <= 3/4 (free + held) follows 4 bytes + held <= 3 free. `#supply` is the other
   * side.
   */
  #demandOf({ minBytes, heldBytes }: Holder): number {
    return 4 * minBytes + (this.#isShared ? heldBytes : 0)
  }

  #supply(): number {
    if (this.#reservedBytes === 0) return Number.POSITIVE_INFINITY
    return (this.#isShared ? 3 : 4) * (this.maxBytes - this.#reservedBytes)
  }

  /** Call it after a change of the workspace's memory or of its waiting reservations. */
  #changed(workspaceId: string): void {
    const holder = this.#holder(workspaceId)
    if (holder.isUnused) this.#holders.delete(workspaceId)
    if (holder.isWaiting && holder.heldBytes === 0) this.#emptyHanded.add(holder)
    else this.#emptyHanded.delete(holder)
    if (!holder.isWaiting) this.#waiting.delete(holder)
    else if (!this.#waiting.resize(holder, this.#demandOf(holder)))
      this.#waiting.push(holder, this.#demandOf(holder))
  }

  #grant(workspaceId: string, asked: number): MemoryReservation {
    const isOverdraft = this.#reservedBytes > 0 && asked > this.#freeFor(this.#held(workspaceId))
    if (isOverdraft) this.#isOverdrawn = true
    let reserved = 0
    let isReleased = false
    const set = (bytes: number) => {
      this.#reservedBytes += bytes - reserved
      this.#holder(workspaceId).heldBytes += bytes - reserved
      this.#changed(workspaceId)
      reserved = bytes
      this.#revoke()
    }
    const resize = (bytes: number) => {
      if (isReleased) return
      set(bytes)
      this.#admit()
    }
    const tryResize = (bytes: number) => {
      const isAlone = this.#reservedBytes === reserved
      const fits = bytes <= this.#freeFor(this.#held(workspaceId), reserved)
      if (bytes > reserved && !isAlone && !isOverdraft && !fits) return false
      resize(bytes)
      return true
    }
    const release = () => {
      if (isReleased) return
      if (isOverdraft) this.#isOverdrawn = false
      resize(0)
      isReleased = true
    }
    set(asked)
    return { resize, tryResize, release }
  }

  /** Admits waiters until none fits. After an admission the workspace goes to the end of the turn order. */
  #admit(): void {
    for (;;) {
      const holder = this.#waiting.first(this.#supply()) ?? this.#nextOverdraft()
      const waiter = holder?.next(this.#roomFor(holder.heldBytes)) ?? holder?.next(Number.POSITIVE_INFINITY)
      if (holder === undefined || waiter === undefined) return
      holder.remove(waiter, true)
      this.#waiting.delete(holder)
      waiter.grant(this.#grant(holder.workspaceId, waiter.bytes))
    }
  }

  #nextOverdraft(): Holder | undefined {
    if (!this.#isShared || this.#isOverdrawn) return undefined
    const [longest] = this.#emptyHanded
    return longest
  }
}
