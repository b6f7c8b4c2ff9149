/**
 * The content of one file as a disk sees it: what is synced, and the changes since, of which a power cut keeps some.
 *
 *   none      no change since the last sync survives
 *   all       every one: what kill -9 leaves
 *   prefix    those before some moment, the same for all files
 *   subset    any of them, each as a whole
 *   torn512, torn4096   any of them, each sector of a write by itself
 *   zeroed    a write survives, or nothing of it, or only the length that it gives the file: what is new is zeros then,
 *             and what it overwrites is as before, because a disk has space for new data before it has the data
 *   mixed     another mode for every file
 */
import type { Random } from './random.ts'

export const dataModes = [
  'none',
  'all',
  'prefix',
  'subset',
  'torn512',
  'torn4096',
  'zeroed',
  'mixed',
] as const
export type DataMode = (typeof dataModes)[number]

interface Change {
  /** Position among all calls, for `prefix`. */
  at: number
  /** A write where there is data, else a truncation to `offset`. */
  offset: number
  data: Buffer | null
  /** A sync over it has failed: later syncs do not bring it to the disk (the kernel has marked its pages clean). */
  isOrphan: boolean
}

export class DiskFile {
  #synced: Buffer
  #changes: Change[] = []

  constructor(synced: Buffer = Buffer.alloc(0)) {
    this.#synced = synced
  }

  write(at: number, offset: number, data: Buffer): void {
    this.#changes.push({ at, offset, data, isOrphan: false })
  }

  truncate(at: number, length: number): void {
    this.#changes.push({ at, offset: length, data: null, isOrphan: false })
  }

  sync(): void {
    this.#synced = applied(
      this.#synced,
      this.#changes.filter(({ isOrphan }) => !isOrphan),
    )
    this.#changes = this.#changes.filter(({ isOrphan }) => isOrphan)
  }

  syncFailed(): void {
    for (const change of this.#changes) change.isOrphan = true
  }

  /** Moment of the oldest change that is not synced. */
  get unsyncedSince(): number {
    return this.#changes[0]?.at ?? Number.POSITIVE_INFINITY
  }

  /** The file after a cut. `prefixEnd`: the moment that `prefix` means. */
  afterCut(mode: DataMode, random: Random, prefixEnd: number): Buffer {
    if (this.#changes.length === 0) return this.#synced
    const own = mode === 'mixed' ? random.pick(dataModes.filter((other) => other !== 'mixed')) : mode
    return applied(this.#synced, [
      ...surviving(this.#changes, own, random, { prefixEnd, length: this.#synced.length }),
    ])
  }
}

function* surviving(
  changes: readonly Change[],
  mode: DataMode,
  random: Random,
  { prefixEnd, length }: { prefixEnd: number; length: number },
): Generator<Change> {
  for (const change of changes) {
    const isLucky = () => random.next() < 0.5
    if (mode === 'none') continue
    if (mode === 'all') yield change
    else if (mode === 'prefix') {
      if (change.at < prefixEnd) yield change
    } else if (mode === 'subset' || change.data === null) {
      if (isLucky()) yield change
    } else if (mode === 'zeroed') {
      if (isLucky()) yield isLucky() ? change : zerosBeyond(length, change)
    } else {
      const sectorBytes = mode === 'torn512' ? 512 : 4096
      for (const sector of sectors(change.offset, change.data, sectorBytes)) {
        if (isLucky()) yield { ...change, ...sector }
      }
    }
  }
}

function zerosBeyond(length: number, { at, isOrphan, offset: begin, data }: Change): Change {
  const end = begin + (data?.length ?? 0)
  const offset = Math.max(begin, Math.min(end, length))
  return { at, isOrphan, offset, data: Buffer.alloc(end - offset) }
}

/** Cut at the disk's sector boundaries, not at the write's own. */
function* sectors(
  offset: number,
  data: Buffer,
  sectorBytes: number,
): Generator<{ offset: number; data: Buffer }> {
  for (let done = 0; done < data.length; ) {
    const bytes = sectorBytes - ((offset + done) % sectorBytes)
    yield { offset: offset + done, data: data.subarray(done, done + bytes) }
    done += bytes
  }
}

function applied(synced: Buffer, changes: readonly Change[]): Buffer {
  if (changes.length === 0) return synced
  let length = synced.length
  let capacity = length
  for (const { offset, data } of changes) capacity = Math.max(capacity, offset + (data?.length ?? 0))
  const content = Buffer.alloc(capacity)
  synced.copy(content)
  for (const { offset, data } of changes) {
    if (data !== null) {
      data.copy(content, offset)
      length = Math.max(length, offset + data.length)
    } else {
      content.fill(0, offset, Math.max(offset, length))
      length = offset
    }
  }
  return content.subarray(0, length)
}
