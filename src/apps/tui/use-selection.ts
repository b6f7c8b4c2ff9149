/** The rows of the board and the selected row. */
import { useEffect, useState } from 'react'
import type { Overview } from '../../contract/overview.ts'
import type { Lane } from './actions.ts'
import { nextTroubled, type Row, rowsOf } from './rows.ts'
import { type KeyPress, movesIn } from './use-keys.ts'

export interface Selection {
  rows: readonly Row[]
  /** Null: there are no rows. */
  row: Row | null
  /** Null: a pipe is selected. */
  lane: Lane | null
  /** False: no lane needs attention. */
  selectNextTroubled(): boolean
  /** Moves the selection if the key moves it. */
  onKey(pressed: KeyPress): void
}

export function useSelection(
  snapshot: Overview | null,
  filter: string,
  showsProblemsOnly: boolean,
): Selection {
  const [selectedId, select] = useState<string | null>(null)
  const rows = snapshot === null ? [] : rowsOf(snapshot, filter, showsProblemsOnly)
  const row = rows.find((one) => one.id === selectedId) ?? rows[0] ?? null
  // Selects the first row only once. A selection that moves by itself could lead to an action on the wrong row.
  const isLoaded = snapshot !== null
  // biome-ignore lint/correctness/useExhaustiveDependencies: see above
  useEffect(() => {
    if (isLoaded) select((chosen) => chosen ?? nextTroubled(rows, null)?.id ?? null)
  }, [isLoaded])
  return {
    rows,
    row,
    lane: row === null ? null : laneOf(row),
    selectNextTroubled() {
      const next = nextTroubled(rows, row?.id ?? null)
      if (next !== null) select(next.id)
      return next !== null
    },
    onKey(pressed) {
      const by = movesIn(rows.length)[pressed]
      if (by === undefined) return
      const at = rows.findIndex((one) => one.id === row?.id)
      select(rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.id ?? null)
    },
  }
}

function laneOf(row: Row): Lane | null {
  return row.destination === null ? null : { pipe: row.pipe, destination: row.destination }
}
