/**
 * A revision for lanes of several nodes: each node's own revision, and the lanes read there. A lane that has changed its
 * owner counts as unread, because its new owner can have shown it to another client before.
 */
import { randomUUID } from 'node:crypto'

export interface SeenAtNode {
  revision: string
  destinationIds: ReadonlySet<string>
}

export type SeenLanes = ReadonlyMap<string, SeenAtNode>

/** The limit of all revisions together. A client whose revision was removed gets everything. */
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

/** At least one, so that revisions without lanes do not accumulate. */
function sizeOf(seen: SeenLanes): number {
  let size = 1
  for (const { destinationIds } of seen.values()) size += destinationIds.size
  return size
}
