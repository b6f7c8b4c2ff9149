/**
 * Few at a time, and fair: waiting requests get turns, workspace by workspace and within one pipe by pipe, so that a
 * crowd at one pipe makes no other request wait longer than for one of its own.
 */

/** Items in a fair order. */
export class FairQueue<Item> {
  readonly #workspaces = new Map<string, Map<string, Item[]>>()

  /** How many of this pipe wait. */
  waiting(workspaceId: string, pipeId: string): number {
    return this.#workspaces.get(workspaceId)?.get(pipeId)?.length ?? 0
  }

  push(workspaceId: string, pipeId: string, item: Item): void {
    const pipes = this.#workspaces.get(workspaceId) ?? new Map<string, Item[]>()
    const items = pipes.get(pipeId) ?? []
    items.push(item)
    pipes.set(pipeId, items)
    this.#workspaces.set(workspaceId, pipes)
  }

  /** The next one; its workspace goes to the end of the line. */
  shift(): Item | undefined {
    for (const [workspaceId, pipes] of this.#workspaces) {
      this.#workspaces.delete(workspaceId)
      for (const [pipeId, items] of pipes) {
        const item = items.shift()
        pipes.delete(pipeId)
        if (items.length > 0) pipes.set(pipeId, items)
        if (pipes.size > 0) this.#workspaces.set(workspaceId, pipes)
        return item
      }
    }
    return undefined
  }
}

/** `atOnce` places. */
export class Turns {
  readonly #waiting = new FairQueue<() => void>()
  #free: number

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  /** Runs `task` when there is a place for it. */
  async run<Result>(workspaceId: string, pipeId: string, task: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) this.#free--
    // The task that ends passes its slot on: the slot is never free in between.
    else await new Promise<void>((resolve) => this.#waiting.push(workspaceId, pipeId, resolve))
    try {
      return await task()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }
}
