/**
 * The alert state of one lane, or of the service, and one event. Pure.
 *
 *   none ──it is so──▶ held ──5 min since the last alert, and room──▶ raised ──it is over──▶ none
 *                       └──it is over──▶ none: not sent, and counted in the next one
 *
 * A check changes a draft; its changes are stored as a whole with the alerts they are about, or not at all.
 */
import type { AlertEvent } from '../../contract/alert-words.ts'
import { resourceLimits } from '../../contract/resource-limits.ts'
import type { AlertMark } from '../../metadata/alert-store.ts'

const everyMs = resourceLimits.alertEverySeconds * 1_000

export type Marks = ReadonlyMap<string, AlertMark>

export function markKey({ subject, event }: Pick<AlertMark, 'subject' | 'event'>): string {
  return `${subject} ${event}`
}

export function marksOf(marks: readonly AlertMark[]): Map<string, AlertMark> {
  return new Map(marks.map((mark) => [markKey(mark), mark]))
}

export class DraftMarks {
  readonly nowMs: number
  readonly #stored: Marks
  readonly #changed = new Map<string, AlertMark>()
  readonly #gone = new Map<string, AlertMark>()
  /** How many more alerts there is room for. */
  #room: number

  constructor(stored: Marks, nowMs: number, room: number) {
    this.#stored = stored
    this.nowMs = nowMs
    this.#room = room
  }

  get(subject: string, event: AlertEvent): AlertMark {
    const key = markKey({ subject, event })
    return this.#changed.get(key) ?? this.#stored.get(key) ?? newMark(subject, event)
  }

  set(mark: AlertMark): void {
    this.#changed.set(markKey(mark), mark)
  }

  remove(mark: AlertMark): void {
    this.#changed.delete(markKey(mark))
    this.#gone.set(markKey(mark), mark)
  }

  /** Takes the room of one alert where it may be told now. A clock that went back holds nothing back. */
  mayTell({ toldMs }: AlertMark): boolean {
    const isSoon = toldMs !== null && this.nowMs >= toldMs && this.nowMs - toldMs < everyMs
    if (isSoon || this.#room <= 0) return false
    this.#room -= 1
    return true
  }

  /**
   * Something that is so for a while. `isOver` ends what was told, which may be later than that it no longer `holds`. Returns
   * how many were held back before this one where it is to be told now; null: it is not.
   */
  lasts(
    subject: string,
    event: AlertEvent,
    { holds, isOver }: { holds: boolean; isOver: boolean },
  ): number | null {
    const mark = this.get(subject, event)
    if (mark.state === 'raised') {
      if (isOver) this.set({ ...mark, state: 'none', sinceMs: null })
      return null
    }
    if (holds) return this.#tellOrHold(mark)
    if (mark.state === 'held') this.set({ ...mark, state: 'none', sinceMs: null })
    return null
  }

  /** Something that happened once, or that was held back then and is still worth telling. */
  happened(subject: string, event: AlertEvent, isNew: boolean): number | null {
    const mark = this.get(subject, event)
    if (isNew) return this.#tellOrHold({ ...mark, state: 'none' }, 'none')
    return mark.state === 'held' ? this.#tellOrHold(mark, 'none') : null
  }

  #tellOrHold(mark: AlertMark, then: 'raised' | 'none' = 'raised'): number | null {
    const { sinceMs, heldBack } = mark
    const held: AlertMark =
      mark.state === 'held'
        ? mark
        : { ...mark, state: 'held', sinceMs: sinceMs ?? this.nowMs, heldBack: heldBack + 1 }
    if (!this.mayTell(mark)) {
      if (held !== mark) this.set(held)
      return null
    }
    this.set({
      ...held,
      state: then,
      sinceMs: then === 'none' ? null : held.sinceMs,
      toldMs: this.nowMs,
      heldBack: 0,
    })
    return held.heldBack - 1
  }

  /** Marks that are different now, and those that say nothing any more: of lanes that are gone, or long past. */
  result(isThere: (subject: string) => boolean): { marks: AlertMark[]; gone: AlertMark[] } {
    for (const mark of [...this.#stored.values(), ...this.#changed.values()]) {
      const current = this.get(mark.subject, mark.event)
      if (!isThere(mark.subject) || saysNothing(current, this.nowMs)) this.remove(mark)
    }
    const gone = [...this.#gone.values()].filter((mark) => this.#stored.has(markKey(mark)))
    const marks = [...this.#changed].filter(([key]) => !this.#gone.has(key)).map(([, mark]) => mark)
    return { marks, gone }
  }
}

function newMark(subject: string, event: AlertEvent): AlertMark {
  return { subject, event, state: 'none', sinceMs: null, toldMs: null, heldBack: 0, counted: 0 }
}

function saysNothing({ state, sinceMs, toldMs, heldBack, counted }: AlertMark, nowMs: number): boolean {
  const isPast = toldMs === null || nowMs - toldMs >= everyMs
  return state === 'none' && sinceMs === null && isPast && heldBack === 0 && counted === 0
}
