/**
 * The pipes of a segment that is being salvaged: where each stood before it and behind it, and so how many messages are
 * lost. The segment's own rows say it, as far as they are left, and its neighbours do, as far as they are there.
 */

import type { SegmentName } from './layout.ts'
import { justBefore, type PipePosition, zeroPosition } from './position.ts'
import type { FoundHead, FoundMessage } from './recover-rows.ts'

export interface SalvageSource {
  source: SegmentName
  /** Where each pipe stood before it, as the segment before knows; empty when that is not there. */
  before: ReadonlyMap<string, PipePosition>
  /** Where each pipe stood behind it, as the next segment knows; null when there is none. */
  after: ReadonlyMap<string, PipePosition> | null
}

interface KeptPipe {
  no: number
  kept: number
  first: FoundMessage | null
  last: PipePosition | null
}

/** Where a pipe stood by its own row in the segment. */
type FoundBases = FoundHead['bases']

export class SalvagedPipes {
  readonly #of: SalvageSource
  readonly #pipes = new Map<string, KeptPipe>()

  constructor(of: SalvageSource) {
    this.#of = of
  }

  /** Its number in the new file. */
  numberOf(pipeId: string): number {
    return this.#pipeOf(pipeId).no
  }

  /** Each message once, in any order. */
  keep(message: FoundMessage): void {
    const { seq, messages, records, bytes } = message
    const pipe = this.#pipeOf(message.pipeId)
    pipe.kept += 1
    if (pipe.first === null || seq < pipe.first.seq) pipe.first = message
    if (pipe.last === null || seq > pipe.last.seq) pipe.last = { seq, messages, records, bytes }
  }

  /** The seq of the newest message that is kept; 0 if there is none. */
  newestSeq(): number {
    return [...this.#pipes.values()].reduce((newest, { last }) => Math.max(newest, last?.seq ?? 0), 0)
  }

  /**
   * All that the new file has to know. Pipes without a message here are carried on too: the position of one is asked of
   * any segment.
   */
  positions(found: FoundBases): { no: number; pipeId: string; base: PipePosition }[] {
    const ids = new Set([...this.#pipes.keys(), ...found.keys(), ...this.#of.before.keys()])
    return [...ids].map((pipeId) => ({
      no: this.numberOf(pipeId),
      pipeId,
      base: this.#baseOf(pipeId, found),
    }))
  }

  /** By their totals here and in the next segment; null when there is no next segment. */
  lostMessages(found: FoundBases): number | null {
    const { after } = this.#of
    if (after === null) return null
    let lost = 0
    for (const pipeId of new Set([...this.#pipes.keys(), ...after.keys()])) {
      const { kept = 0, last = null } = this.#pipes.get(pipeId) ?? {}
      const base = this.#baseOf(pipeId, found)
      // A deleted pipe is not carried on.
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
   * Where the pipe stood before its first message here. The row that says so has no checksum: it is believed where it
   * agrees with the first message; else the segment before is, as far as that can be.
   */
  #baseOf(pipeId: string, found: FoundBases): PipePosition {
    const { source, before } = this.#of
    const first = this.#pipes.get(pipeId)?.first ?? null
    const candidates = [before.get(pipeId), found.get(pipeId)].filter((base) => base !== undefined)
    if (first === null) return candidates[0] ?? zeroPosition
    const possible = candidates
      // Only compaction moves it into the segment.
      .filter((base) => mayPrecede(base, first) && (source.generation > 0 || base.seq < source.firstSeq))
      .sort((a, b) => b.messages - a.messages)
    // Nothing is known of what came before it: it counts as the first that was ever kept.
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
  // Where no message lies between them they must be the same.
  const isSame = base.records === latest.records && base.bytes === latest.bytes
  return isBefore && (base.messages < latest.messages || isSame)
}
