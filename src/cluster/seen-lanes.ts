/**
 * What a revision of lanes that several nodes run stands for: of each node its own revision, and which lanes were looked at there.
 * A lane that has another owner since is none that was looked at: its new owner may have shown it to somebody else before.
 */
import { randomUUID } from 'node:crypto'

export interface SeenAtNode {
  revision: string
  destinationIds: ReadonlySet<string>
}

export type SeenLanes = ReadonlyMap<string, SeenAtNode>

/** Of all revisions together; whoever comes with a forgotten one gets everything. */
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
