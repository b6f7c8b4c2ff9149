/**
 * Runs at most a fixed number of pieces of work at the same time; the rest waits. Waiting work starts by turns of its groups, and
 * within a group by turns of its members (workspaces and their pipes, for example), so that a crowd in one of them delays the
 * others by one piece of work at most. Work without a turn of its own starts in the order in which it came.
 */

export interface Turn {
  group: string
  member: string
}

export interface SemaphoreOptions {
  /** Rejects with the signal's reason when it is aborted while the work waits. Work that runs ends by itself. */
  signal?: AbortSignal
  turn?: Turn
}

const sameTurn: Turn = { group: '', member: '' }

export class Semaphore {
  readonly #waiting = new FairQueue<() => void>()
  #free: number

  constructor(limit: number) {
    this.#free = limit
  }

  async run<T>(work: () => Promise<T>, { signal, turn = sameTurn }: SemaphoreOptions = {}): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    // Work that ends hands its place over: it is never free in between.
    else await this.#turn(turn, signal)
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }

  /** How many pieces of work of this turn wait. */
  waiting(turn: Turn): number {
    return this.#waiting.waiting(turn)
  }

  #turn(turn: Turn, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiting.remove(turn, enter)
        reject(signal?.reason)
      }
      if (signal?.aborted) return reject(signal.reason)
      this.#waiting.push(turn, enter)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }
}

/**
 * Items in a fair order: by turns of their groups, and within one by turns of its members. Neither a group nor a member is empty. The
 * next one of each is the first of its map, and goes to the end afterwards.
 */
export class FairQueue<Item> {
  readonly #groups = new Map<string, Map<string, Item[]>>()

  /** How many items of this turn wait. */
  waiting({ group, member }: Turn): number {
    return this.#groups.get(group)?.get(member)?.length ?? 0
  }

  push({ group, member }: Turn, item: Item): void {
    const members = this.#groups.get(group) ?? new Map<string, Item[]>()
    const items = members.get(member) ?? []
    items.push(item)
    members.set(member, items)
    this.#groups.set(group, members)
  }

  /** The next one; its group goes to the end of the line. */
  shift(): Item | undefined {
    for (const [group, members] of this.#groups) {
      this.#groups.delete(group)
      for (const [member, items] of members) {
        const item = items.shift()
        members.delete(member)
        if (items.length > 0) members.set(member, items)
        if (members.size > 0) this.#groups.set(group, members)
        return item
      }
    }
    return undefined
  }

  remove({ group, member }: Turn, item: Item): void {
    const members = this.#groups.get(group)
    const items = members?.get(member)
    if (members === undefined || items === undefined) return
    items.splice(items.indexOf(item), 1)
    if (items.length === 0) members.delete(member)
    if (members.size === 0) this.#groups.delete(group)
  }
}
