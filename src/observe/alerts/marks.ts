/**
 * The alert state of one event for one lane, one pipe or the service. Pure.
 *
 *   none ──condition holds──▶ held ──5 min since the last alert, and room──▶ raised ──condition ends──▶ none
 *                             └──condition ends──▶ none: not sent, and counted in the next alert
 *
 * A check changes a draft. Its changes are stored together with the alerts that they belong to, or not at all.
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
  /** The number of further alerts that can be queued. */
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

  /** Reserves room for one alert if it can be sent now. A clock that was set back delays nothing. */
  reserve({ alertedMs }: AlertMark): boolean {
    const isSoon = alertedMs !== null && this.nowMs >= alertedMs && this.nowMs - alertedMs < everyMs
    if (isSoon || this.#room <= 0) return false
    this.#room -= 1
    return true
  }

  /**
   * A condition that checkCondition. `isOver` ends a raised alert; it can become true later than `holds` becomes false.
   * Returns the number of alerts held back before this one if it is to be sent now, else null.
   */
  checkCondition(
    subject: string,
    event: AlertEvent,
    { holds, isOver }: { holds: boolean; isOver: boolean },
  ): number | null {
    const mark = this.get(subject, event)
    if (mark.state === 'raised') {
      if (isOver) this.set({ ...mark, state: 'none', sinceMs: null })
      return null
    }
    if (holds) return this.#alertOrHold(mark)
    if (mark.state === 'held') this.set({ ...mark, state: 'none', sinceMs: null })
    return null
  }

  /** An event that checkOccurrence once, or that was held back then and is still worth reporting. */
  checkOccurrence(subject: string, event: AlertEvent, isNew: boolean): number | null {
    const mark = this.get(subject, event)
    if (isNew) return this.#alertOrHold({ ...mark, state: 'none' }, 'none')
    return mark.state === 'held' ? this.#alertOrHold(mark, 'none') : null
  }

  #alertOrHold(mark: AlertMark, then: 'raised' | 'none' = 'raised'): number | null {
    const { sinceMs, heldBack } = mark
    const held: AlertMark =
      mark.state === 'held'
        ? mark
        : { ...mark, state: 'held', sinceMs: sinceMs ?? this.nowMs, heldBack: heldBack + 1 }
    if (!this.reserve(mark)) {
      if (held !== mark) this.set(held)
      return null
    }
    this.set({
      ...held,
      state: then,
      sinceMs: then === 'none' ? null : held.sinceMs,
      alertedMs: this.nowMs,
      heldBack: 0,
    })
    return held.heldBack - 1
  }

  /** Returns the changed marks, and marks without content: their lane is gone, or they are outdated. */
  result(exists: (subject: string) => boolean): { marks: AlertMark[]; gone: AlertMark[] } {
    for (const mark of [...this.#stored.values(), ...this.#changed.values()]) {
      const current = this.get(mark.subject, mark.event)
      if (!exists(mark.subject) || isEmpty(current, this.nowMs)) this.remove(mark)
    }
    const gone = [...this.#gone.values()].filter((mark) => this.#stored.has(markKey(mark)))
    const marks = [...this.#changed].filter(([key]) => !this.#gone.has(key)).map(([, mark]) => mark)
    return { marks, gone }
  }
}

function newMark(subject: string, event: AlertEvent): AlertMark {
  return { subject, event, state: 'none', sinceMs: null, alertedMs: null, heldBack: 0, counted: 0 }
}

function isEmpty({ state, sinceMs, alertedMs, heldBack, counted }: AlertMark, nowMs: number): boolean {
  const isPast = alertedMs === null || nowMs - alertedMs >= everyMs
  return state === 'none' && sinceMs === null && isPast && heldBack === 0 && counted === 0
}
