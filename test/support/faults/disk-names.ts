/**
 * The names in a directory tree as a disk sees them: those that are durable, and the changes since.
 *
 *   journal   changes reach the disk in their order; any sync of a file or directory takes all before it along (ext4)
 *   posix     only the sync of a directory makes its names durable; of the rest some first part survives
 *   subset    as posix, but any of the rest survives
 */
import type { DiskFile } from './disk-file.ts'
import type { Random } from './random.ts'

export const namePolicies = ['journal', 'posix', 'subset'] as const
export type NamePolicy = (typeof namePolicies)[number]

export type Entries = Map<string, DiskNode>
export class DiskDirectory {
  /** As the running program sees it. */
  readonly entries: Entries = new Map()
}
export type DiskNode = DiskFile | DiskDirectory

/** Part of one change: `name` becomes `node`, or goes. */
interface Edit {
  directory: DiskDirectory
  name: string
  node: DiskNode | null
}

export class DurableNames {
  readonly #isJournal: boolean
  readonly #durable = new Map<DiskDirectory, Entries>()
  /** Oldest first. One change is kept or lost as a whole. */
  #pending: Edit[][] = []

  constructor(isJournal: boolean) {
    this.#isJournal = isJournal
  }

  changed(edits: Edit[]): void {
    this.#pending.push(edits)
  }

  synced(node: DiskNode): void {
    if (this.#isJournal) {
      for (const edits of this.#pending) applyAll(this.#durable, edits)
      this.#pending = []
    } else if (node instanceof DiskDirectory) {
      for (const edits of this.#pending) {
        applyAll(
          this.#durable,
          edits.filter(({ directory }) => directory === node),
        )
      }
      this.#pending = this.#pending
        .map((edits) => edits.filter(({ directory }) => directory !== node))
        .filter((edits) => edits.length > 0)
    }
  }

  /** Every name as a cut leaves it. */
  afterCut(policy: NamePolicy, random: Random): (directory: DiskDirectory) => Entries {
    const names = new Map<DiskDirectory, Entries>()
    for (const [directory, entries] of this.#durable) names.set(directory, new Map(entries))
    const kept = random.below(this.#pending.length + 1)
    for (const [index, edits] of this.#pending.entries()) {
      const survives = policy === 'subset' ? random.next() < 0.5 : index < kept
      if (survives) applyAll(names, edits)
    }
    return (directory) => names.get(directory) ?? new Map()
  }
}

function applyAll(names: Map<DiskDirectory, Entries>, edits: readonly Edit[]): void {
  for (const { directory, name, node } of edits) {
    const entries = names.get(directory) ?? new Map<string, DiskNode>()
    names.set(directory, entries)
    if (node === null) entries.delete(name)
    else entries.set(name, node)
  }
}
