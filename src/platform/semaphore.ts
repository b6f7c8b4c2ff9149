/**
 * Limits how many tasks run concurrently. Waiting tasks start in round-robin order of their groups, and within a group
 * of its members (for example workspaces and their pipes), so that a burst in one group delays the others by at most one
 * task. Tasks without a turn start in the order of their arrival.
 */

export interface Turn {
  group: string
  member: string
}

export interface SemaphoreOptions {
  /** Aborting it rejects a waiting task with the signal's reason. A running task is not interrupted. */
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
    // A finished task passes its slot directly to the next one, so that no newcomer can take it in between.
    else await this.#turn(turn, signal)
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }

  /** The number of waiting tasks of this turn. */
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
 * A queue with round-robin order by group, and by member within a group. Empty groups and members are removed. The first
 * entry of each map is the next one served, and moves to the end afterwards.
 */
export class FairQueue<Item> {
  readonly #groups = new Map<string, Map<string, Item[]>>()

  /** The number of waiting items of this turn. */
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

  /** Removes and returns the next item; its group moves to the end. */
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
