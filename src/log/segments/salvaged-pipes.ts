/**
 * Determines the positions of each pipe before and after a segment that is being salvaged, and so the number of lost
 * messages. The sources are the segment's own rows, as far as they are readable, and its neighbors.
 */

import type { SegmentName } from './layout.ts'
import { justBefore, type PipePosition, zeroPosition } from './position.ts'
import type { FoundHead, FoundMessage } from './recover-rows.ts'

export interface SalvageSource {
  source: SegmentName
  /** Each pipe's position before the segment, from the previous segment; empty when that is missing. */
  before: ReadonlyMap<string, PipePosition>
  /** Each pipe's position after the segment, from the next segment; null when there is none. */
  after: ReadonlyMap<string, PipePosition> | null
}

interface KeptPipe {
  no: number
  kept: number
  first: FoundMessage | null
  last: PipePosition | null
}

/** Pipe positions from the pipe's own row in the segment. */
type FoundBases = FoundHead['bases']

export class SalvagedPipes {
  readonly #of: SalvageSource
  readonly #pipes = new Map<string, KeptPipe>()

  constructor(of: SalvageSource) {
    this.#of = of
  }

  /** The pipe's number in the new file. */
  numberOf(pipeId: string): number {
    return this.#pipeOf(pipeId).no
  }

  /** Call once per message, in any order. */
  keep(message: FoundMessage): void {
    const { seq, messages, records, bytes } = message
    const pipe = this.#pipeOf(message.pipeId)
    pipe.kept += 1
    if (pipe.first === null || seq < pipe.first.seq) pipe.first = message
    if (pipe.last === null || seq > pipe.last.seq) pipe.last = { seq, messages, records, bytes }
  }

  /** Seq of the newest message that is kept; 0 if there is none. */
  newestSeq(): number {
    return [...this.#pipes.values()].reduce((newest, { last }) => Math.max(newest, last?.seq ?? 0), 0)
  }

  /**
   * The pipes of the new file. Pipes without a message here are included, because any segment can be asked for any
   * pipe's position.
   */
  positions(found: FoundBases): { no: number; pipeId: string; base: PipePosition }[] {
    const ids = new Set([...this.#pipes.keys(), ...found.keys(), ...this.#of.before.keys()])
    return [...ids].map((pipeId) => ({
      no: this.numberOf(pipeId),
      pipeId,
      base: this.#baseOf(pipeId, found),
    }))
  }

  /** Computed from the totals here and in the next segment; null when there is no next segment. */
  lostMessages(found: FoundBases): number | null {
    const { after } = this.#of
    if (after === null) return null
    let lost = 0
    for (const pipeId of new Set([...this.#pipes.keys(), ...after.keys()])) {
      const { kept = 0, last = null } = this.#pipes.get(pipeId) ?? {}
      const base = this.#baseOf(pipeId, found)
      // Deleted pipes are not carried over.
      const end = after.get(pipeId) ?? last ?? base
      lost += Math.max(0, end.messages - base.messages - kept)
    }
    return lost
  }

  #pipeOf(pipeId: string): KeptPipe {
    const found = this.#pipes.get(pipeId)
    if (found !== undefined) return found
    const pipe = { no: this.#pipes.size + 1, kept: 0, first: null, last: null }
    this.#pipes.set(pipeId, pipe)
    return pipe
  }

  /**
   * The pipe's position before its first message here. The pipe's row has no checksum: it is used if it agrees with the
   * first message. Otherwise the previous segment is used, as far as it agrees.
   */
  #baseOf(pipeId: string, found: FoundBases): PipePosition {
    const { source, before } = this.#of
    const first = this.#pipes.get(pipeId)?.first ?? null
    const candidates = [before.get(pipeId), found.get(pipeId)].filter((base) => base !== undefined)
    if (first === null) return candidates[0] ?? zeroPosition
    const possible = candidates
      // Only compaction moves a base into the segment.
      .filter((base) => mayPrecede(base, first) && (source.generation > 0 || base.seq < source.firstSeq))
      .sort((a, b) => b.messages - a.messages)
    // Nothing is known about earlier messages, so this one counts as the first that was ever kept.
    return possible[0] ?? { ...justBefore(first), seq: Math.min(first.seq, source.firstSeq) - 1 }
  }
}

function mayPrecede(base: PipePosition, first: FoundMessage): boolean {
  const latest = justBefore(first)
  const isBefore =
    base.seq <= latest.seq &&
    base.messages <= latest.messages &&
    base.records <= latest.records &&
    base.bytes <= latest.bytes
  // Without messages in between, both positions must be equal.
  const isSame = base.records === latest.records && base.bytes === latest.bytes
  return isBefore && (base.messages < latest.messages || isSame)
}
