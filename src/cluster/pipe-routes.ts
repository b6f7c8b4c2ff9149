/**
 * Finds the node that delivers a destination, in main of each node. The pipe of a destination is cached, because it
 * never changes; the owner of a pipe changes.
 */

export interface PipeRoutesOptions {
  /** The node of each pipe; never older than `freshSinceMs` (performance.now()), if that is set. */
  owners(freshSinceMs?: number): Promise<ReadonlyMap<string, string>>
  /** The pipes of the destinations that exist. */
  pipesOf(destinationIds: readonly string[]): Promise<ReadonlyMap<string, string>>
}

/** A node, `unowned` when no node delivers it at the moment, or `gone` when there is no such destination. */
export type Route = { node: string } | 'unowned' | 'gone'

const pipesKept = 100_000

export class PipeRoutes {
  readonly #options: PipeRoutesOptions
  /** A destination never moves to another pipe. */
  readonly #pipes = new Map<string, string>()

  constructor(options: PipeRoutesOptions) {
    this.#options = options
  }

  async of(destinationId: string, freshSinceMs?: number): Promise<Route> {
    const pipeId = (await this.#pipesOf([destinationId])).get(destinationId.toLowerCase())
    if (pipeId === undefined) return 'gone'
    const node = (await this.#options.owners(freshSinceMs)).get(pipeId)
    return node === undefined ? 'unowned' : { node }
  }

  /** Groups these destinations by node. Destinations that no node delivers, or that do not exist, are left out. */
  async byNode(destinationIds: readonly string[]): Promise<Map<string, string[]>> {
    const pipes = await this.#pipesOf(destinationIds)
    const owners = await this.#options.owners()
    return grouped(destinationIds, (id) => owners.get(pipes.get(id.toLowerCase()) ?? ''))
  }

  async pipesByNode(pipeIds: readonly string[]): Promise<Map<string, string[]>> {
    const owners = await this.#options.owners()
    return grouped(pipeIds, (pipeId) => owners.get(pipeId.toLowerCase()))
  }

  /** The destination was possibly deleted. */
  forget(destinationId: string): void {
    this.#pipes.delete(destinationId.toLowerCase())
  }

  async nodes(): Promise<Set<string>> {
    return new Set((await this.#options.owners()).values())
  }

  /** By destination in lower case. */
  async #pipesOf(destinationIds: readonly string[]): Promise<Map<string, string>> {
    const found = new Map<string, string>()
    const unknown: string[] = []
    for (const given of destinationIds) {
      const id = given.toLowerCase()
      const pipeId = this.#pipes.get(id)
      if (pipeId === undefined) unknown.push(id)
      else found.set(id, pipeId)
    }
    if (unknown.length === 0) return found
    if (this.#pipes.size + unknown.length > pipesKept) this.#pipes.clear()
    for (const [id, pipeId] of await this.#options.pipesOf(unknown)) {
      this.#pipes.set(id, pipeId)
      found.set(id, pipeId)
    }
    return found
  }
}

function grouped(ids: readonly string[], nodeOf: (id: string) => string | undefined): Map<string, string[]> {
  const groups = new Map<string, string[]>()
  for (const id of ids) {
    const node = nodeOf(id)
    if (node === undefined) continue
    const group = groups.get(node)
    if (group === undefined) groups.set(node, [id])
    else group.push(id)
  }
  return groups
}
