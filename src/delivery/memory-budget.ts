/**
 * The memory of all batches under way, bounded, and shared by the workspaces: each takes at most three quarters of what the
 * others leave, so that whatever one of them holds, however long, there is something left for the next.
 *
 *   oldest first; whoever does not fit is overtaken by those who do, but not more often than 16 times by its own workspace
 *   larger than the whole budget: when nothing else is under way
 *   a workspace that has nothing under way: also beyond the budget, one such batch at a time
 *
 * A batch that is still to be cut reserves no more than half of what is free (`shareBytes`): however
 * much a few large, stuck batches take, there is always something left for the next lane.
 *
 * What no batch holds may be lent for what is read ahead. Batches do not see it: they get what they would get without it,
 * and what was lent is taken back, the oldest first, before all of it together is more than the budget.
 */
export interface MemoryReservation {
  /** The real size, once it is known. */
  resize(bytes: number): void
  /** False when there is no room for it: nothing has changed then. */
  tryResize(bytes: number): boolean
  /** Idempotent. */
  release(): void
}

/** Lent until it is released or taken back. */
export interface SpareMemory {
  /** Idempotent. */
  release(): void
}

/** The budget as one workspace sees it. */
export interface WorkspaceMemory {
  /** How much a batch that is still to be cut should take at most. */
  shareBytes(): number
  /** Null when it would have to wait. */
  tryReserve(bytes: number): MemoryReservation | null
  /** Resolves with null when `signal` ended the wait. */
  reserve(bytes: number, signal: AbortSignal): Promise<MemoryReservation | null>
  /** Null when it is not to spare. `onTakenBack` is called at most once, and what was kept there must be gone after it. */
  trySpare(bytes: number, onTakenBack: () => void): SpareMemory | null
}

interface Lent {
  workspaceId: string
  bytes: number
  onTakenBack(): void
}

interface Waiter {
  workspaceId: string
  bytes: number
  overtaken: number
  grant(reservation: MemoryReservation): void
}

const smallestShareBytes = 64 * 1024
const mostOvertaken = 16

export class MemoryBudget {
  readonly maxBytes: number
  #reservedBytes = 0
  readonly #heldBytes = new Map<string, number>()
  readonly #waiters: Waiter[] = []
  /** In the order in which it was lent. */
  readonly #lent = new Set<Lent>()
  #lentBytes = 0
  #isShared = false
  #isOverdrawn = false

  constructor(maxBytes: number) {
    this.maxBytes = maxBytes
  }

  get reservedBytes(): number {
    return this.#reservedBytes
  }

  /** Beside what is reserved. */
  get lentBytes(): number {
    return this.#lentBytes
  }

  /** There is more than one workspace: from now on each keeps something free for the others. */
  share(): void {
    this.#isShared = true
  }

  of(workspaceId: string): WorkspaceMemory {
    return {
      shareBytes: () => Math.max(Math.floor(this.#freeFor(workspaceId, 0) / 2), smallestShareBytes),
      tryReserve: (bytes) => this.#tryReserve(workspaceId, bytes),
      reserve: (bytes, signal) => this.#reserve(workspaceId, bytes, signal),
      trySpare: (bytes, onTakenBack) => this.#trySpare({ workspaceId, bytes, onTakenBack }),
    }
  }

  #tryReserve(workspaceId: string, bytes: number): MemoryReservation | null {
    const isHeldUp = this.#waiters.some(
      (one) => one.workspaceId === workspaceId && one.overtaken >= mostOvertaken,
    )
    if (isHeldUp || !this.#fits(workspaceId, bytes)) return null
    for (const waiter of this.#waiters) if (waiter.workspaceId === workspaceId) waiter.overtaken += 1
    return this.#grant(workspaceId, bytes)
  }

  #reserve(workspaceId: string, bytes: number, signal: AbortSignal): Promise<MemoryReservation | null> {
    const reservation = signal.aborted ? null : this.#tryReserve(workspaceId, bytes)
    if (reservation !== null || signal.aborted) return Promise.resolve(reservation)
    return new Promise((resolve) => {
      const waiter: Waiter = {
        workspaceId,
        bytes,
        overtaken: 0,
        grant: (granted) => {
          signal.removeEventListener('abort', leave)
          resolve(granted)
        },
      }
      const leave = () => {
        this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
        resolve(null)
        this.#admit()
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiters.push(waiter)
    })
  }

  #trySpare(lent: Lent): SpareMemory | null {
    const { workspaceId, bytes } = lent
    let own = 0
    for (const one of this.#lent) if (one.workspaceId === workspaceId) own += one.bytes
    const isFree =
      this.#waiters.length === 0 &&
      own + bytes <= this.#freeFor(workspaceId, 0) &&
      this.#reservedBytes + this.#lentBytes + bytes <= this.maxBytes
    if (!isFree) return null
    this.#lent.add(lent)
    this.#lentBytes += bytes
    return { release: () => this.#giveBack(lent) }
  }

  #giveBack(lent: Lent): void {
    if (this.#lent.delete(lent)) this.#lentBytes -= lent.bytes
  }

  #takeBack(): void {
    for (const lent of this.#lent) {
      if (this.#reservedBytes + this.#lentBytes <= this.maxBytes) return
      this.#giveBack(lent)
      lent.onTakenBack()
    }
  }

  /** What this workspace may take more, were it to give back `less`. */
  #freeFor(workspaceId: string, less: number): number {
    const reserved = this.#reservedBytes - less
    const held = this.#held(workspaceId) - less
    if (!this.#isShared) return this.maxBytes - reserved
    const othersLeave = this.maxBytes - (reserved - held)
    return Math.min(this.maxBytes - reserved, Math.floor((othersLeave * 3) / 4) - held)
  }

  #fits(workspaceId: string, bytes: number): boolean {
    if (this.#reservedBytes === 0 || bytes <= this.#freeFor(workspaceId, 0)) return true
    return this.#isShared && this.#held(workspaceId) === 0 && !this.#isOverdrawn
  }

  #held(workspaceId: string): number {
    return this.#heldBytes.get(workspaceId) ?? 0
  }

  #grant(workspaceId: string, asked: number): MemoryReservation {
    const isOverdraft = this.#reservedBytes > 0 && asked > this.#freeFor(workspaceId, 0)
    if (isOverdraft) this.#isOverdrawn = true
    let reserved = 0
    let isReleased = false
    const set = (bytes: number) => {
      this.#reservedBytes += bytes - reserved
      const held = this.#held(workspaceId) + bytes - reserved
      if (held === 0) this.#heldBytes.delete(workspaceId)
      else this.#heldBytes.set(workspaceId, held)
      reserved = bytes
      this.#takeBack()
    }
    const resize = (bytes: number) => {
      if (isReleased) return
      set(bytes)
      this.#admit()
    }
    const tryResize = (bytes: number) => {
      const isAlone = this.#reservedBytes === reserved
      if (bytes > reserved && !isAlone && !isOverdraft && bytes > this.#freeFor(workspaceId, reserved))
        return false
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

  #admit(): void {
    const heldUp = new Set<string>()
    const passedBy: Waiter[] = []
    for (const waiter of [...this.#waiters]) {
      const { workspaceId, bytes } = waiter
      if (heldUp.has(workspaceId)) continue
      if (!this.#fits(workspaceId, bytes)) {
        if (waiter.overtaken >= mostOvertaken) heldUp.add(workspaceId)
        passedBy.push(waiter)
        continue
      }
      for (const other of passedBy) if (other.workspaceId === workspaceId) other.overtaken += 1
      this.#waiters.splice(this.#waiters.indexOf(waiter), 1)
      waiter.grant(this.#grant(workspaceId, bytes))
    }
  }
}
