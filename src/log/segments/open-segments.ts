/**
 * A reader's view of the segments: the list of names, and connections that are opened when needed and closed when idle.
 *
 * Segments are added at the end, dropped anywhere and renamed by compaction, all without notice to the reader. The
 * segment after the newest known one is named (its last seq + 1), so trying to open that file is enough to find it. A
 * connection to a dropped file still reads the old content, which is never less than the current content. It holds the
 * disk space, so it is closed within a second.
 *
 * A segment is sealed only while no reader has it open (see sealing.ts). So a segment that has a successor and still
 * has a WAL is closed after the caller's synchronous work, and opened again on demand. One that lacks its index cannot be
 * sealed, and stays open.
 */
import { existsSync } from 'node:fs'
import { listSegments, type SegmentName, segmentFile } from './layout.ts'
import { openSegmentConnection, type SegmentConnection } from './segment-connection.ts'

const sweepEveryMs = 500
const idleMs = 30_000
const openAtMost = 64

interface OpenSegment {
  name: SegmentName
  connection: SegmentConnection
  usedMs: number
}

export class OpenSegments {
  readonly #dir: string
  readonly #onChanged: () => void
  #names: readonly SegmentName[]
  #firstSeqs: readonly number[]
  readonly #connections = new Map<number, OpenSegment>()
  #lastOpened: SegmentName | null = null
  readonly #sweep: NodeJS.Timeout

  /** `onChanged` is called whenever the list has changed. */
  constructor(dir: string, onChanged: () => void) {
    this.#dir = dir
    this.#onChanged = onChanged
    this.#names = listSegments(dir)
    this.#firstSeqs = this.#names.map(({ firstSeq }) => firstSeq)
    this.#sweep = setInterval(() => this.#keepUp(), sweepEveryMs)
    this.#sweep.unref()
  }

  /**
   * If the directory cannot be listed now (no file descriptors left), the next sweep lists it; a caller that reads gets
   * the error.
   */
  #keepUp(): void {
    this.#closeIdle()
    try {
      this.#closeWhere((firstSeq, connection) => this.#canBeSealed(firstSeq, connection))
      this.refresh()
    } catch {
      // Segments that are open can still be read.
    }
  }

  /** First seqs, ascending. Valid until the next refresh. */
  names(): readonly number[] {
    return this.#firstSeqs
  }

  /** Throws SQLITE_CANTOPEN when the segment is gone or was renamed. */
  open(firstSeq: number): SegmentConnection {
    const usedMs = Date.now()
    const found = this.#connections.get(firstSeq)
    if (found !== undefined) {
      found.usedMs = usedMs
      this.#lastOpened = found.name
      return found.connection
    }
    const name = this.#names.find((one) => one.firstSeq === firstSeq) ?? { firstSeq, generation: 0 }
    this.#lastOpened = name
    if (this.#connections.size >= openAtMost) this.#closeLongestIdle()
    const connection = openSegmentConnection(this.#dir, name)
    this.#connections.set(firstSeq, { name, connection, usedMs })
    if (this.#canBeSealed(firstSeq, connection)) queueMicrotask(() => this.#close(firstSeq))
    return connection
  }

  /** The segment that was opened last: an SQLite error refers to it. */
  get lastOpened(): SegmentName | null {
    return this.#lastOpened
  }

  /** Stops reading it until it is opened again. */
  leave(firstSeq: number): void {
    this.#close(firstSeq)
  }

  /** Returns true when there is a segment after the newest known one, after reading the list again. */
  findNewer(): boolean {
    const newest = this.#names.at(-1)
    if (newest !== undefined) {
      const lastSeq = this.open(newest.firstSeq).lastSeq()
      const next = lastSeq !== null && segmentFile(this.#dir, { firstSeq: lastSeq + 1, generation: 0 })
      const isOld = (next && existsSync(next)) || !existsSync(segmentFile(this.#dir, newest))
      if (!isOld) return false
    }
    this.refresh()
    return this.#names.at(-1)?.firstSeq !== newest?.firstSeq
  }

  refresh(): void {
    const listed = listSegments(this.#dir)
    const isSame =
      listed.length === this.#names.length &&
      listed.every(({ firstSeq, generation }, index) => {
        const known = this.#names[index]
        return firstSeq === known?.firstSeq && generation === known.generation
      })
    if (isSame) return
    const kept = new Map(listed.map(({ firstSeq, generation }) => [firstSeq, generation]))
    for (const { firstSeq, generation } of this.#names) {
      if (kept.get(firstSeq) !== generation) this.#close(firstSeq)
    }
    this.#names = listed
    this.#firstSeqs = listed.map(({ firstSeq }) => firstSeq)
    queueMicrotask(() => this.#closeWhere((firstSeq, connection) => this.#isUnsealed(firstSeq, connection)))
    this.#onChanged()
  }

  close(): void {
    clearInterval(this.#sweep)
    for (const firstSeq of [...this.#connections.keys()]) this.#close(firstSeq)
  }

  #close(firstSeq: number): void {
    this.#connections.get(firstSeq)?.connection.close()
    this.#connections.delete(firstSeq)
  }

  #isUnsealed(firstSeq: number, { hasWal }: SegmentConnection): boolean {
    return hasWal && !this.#isNewest(firstSeq)
  }

  /** The segment being written stays open, because opening it lists its messages again: see pipe-rows.ts. */
  #isNewest(firstSeq: number): boolean {
    return firstSeq === this.#firstSeqs.at(-1)
  }

  /** A segment that lacks its index is not sealed yet, and to open it again would list its messages again. */
  #canBeSealed(firstSeq: number, connection: SegmentConnection): boolean {
    return this.#isUnsealed(firstSeq, connection) && connection.isIndexed()
  }

  #closeWhere(isClosed: (firstSeq: number, connection: SegmentConnection) => boolean): void {
    for (const [firstSeq, { connection }] of [...this.#connections]) {
      if (isClosed(firstSeq, connection)) this.#close(firstSeq)
    }
  }

  #closeIdle(): void {
    const nowMs = Date.now()
    for (const [firstSeq, { usedMs }] of [...this.#connections]) {
      const isIdle = Math.abs(nowMs - usedMs) > idleMs
      if (isIdle && !this.#isNewest(firstSeq)) this.#close(firstSeq)
    }
  }

  #closeLongestIdle(): void {
    const closable = [...this.#connections].filter(([firstSeq]) => !this.#isNewest(firstSeq))
    const [oldest] = closable.sort(([, a], [, b]) => a.usedMs - b.usedMs)
    if (oldest !== undefined) this.#close(oldest[0])
  }
}
