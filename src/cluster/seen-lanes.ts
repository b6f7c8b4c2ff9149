/**
 * A revision of lanes that several nodes run: each node's own revision, and the lanes that were read there. A lane
 * that has another owner since counts as unread: its new owner may have shown it to another client before.
 */
import { randomUUID } from 'node:crypto'

export interface SeenAtNode {
  revision: string
  destinationIds: ReadonlySet<string>
}

export type SeenLanes = ReadonlyMap<string, SeenAtNode>

/** The limit of all revisions together; a client with a forgotten revision gets everything. */
const destinationsKept = 200_000

export class SeenLanesKept {
  readonly #kept = new Map<string, SeenLanes>()
  #destinations = 0

  keep(seen: SeenLanes): string {
    const revision = randomUUID()
    this.#kept.set(revision, seen)
    this.#destinations += sizeOf(seen)
    for (const [oldest, forgotten] of this.#kept) {
      if (this.#destinations <= destinationsKept || oldest === revision) break
      this.#kept.delete(oldest)
      this.#destinations -= sizeOf(forgotten)
    }
    return revision
  }

  find(revision: string | null): SeenLanes {
    return this.#kept.get(revision ?? '') ?? new Map()
  }
}

/** At least one, or revisions without lanes would gather. */
function sizeOf(seen: SeenLanes): number {
  let size = 1
  for (const { destinationIds } of seen.values()) size += destinationIds.size
  return size
}
