/** Selects rows of a table, to do one thing to all of them. */
import { type ReactNode, useState } from 'react'
import { formStyles } from './controls.tsx'
import { Check } from './fields.tsx'
import type { Column } from './layout.tsx'
import styles from './selection.module.css'

export interface Selection {
  /** In the order of the page. */
  ids: string[]
  isSelected: (id: string) => boolean
  areAllSelected: boolean
  select: (id: string, isSelected: boolean) => void
  selectAll: (areSelected: boolean) => void
  clear: () => void
}

/** `shown`: the ids of the rows on this page. Rows that are no longer on the page are not selected. */
export function useSelection(shown: readonly string[]): Selection {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const ids = shown.filter((id) => selected.has(id))
  return {
    ids,
    isSelected: (id) => selected.has(id),
    areAllSelected: shown.length > 0 && ids.length === shown.length,
    select: (id, isSelected) =>
      setSelected(new Set(isSelected ? [...ids, id] : ids.filter((one) => one !== id))),
    selectAll: (areSelected) => setSelected(new Set(areSelected ? shown : [])),
    clear: () => setSelected(new Set()),
  }
}

/** The first column of the table. `label`: its text beside the box. */
export function selectColumn<Row>(
  selection: Selection,
  idOf: (row: Row) => string,
  label: (row: Row) => ReactNode,
): Pick<Column<Row>, 'cell'> {
  return {
    cell: (row) => {
      const id = idOf(row)
      return (
        <Check
          label={label(row)}
          checked={selection.isSelected(id)}
          onValue={(isSelected) => selection.select(id, isSelected)}
        />
      )
    },
  }
}

/** The columns with a box in the first one, beside what it shows. `nameOf`: null for a row that cannot be selected. */
export function withBoxes<Row>(
  [first, ...others]: readonly Column<Row>[],
  selection: Selection,
  idOf: (row: Row) => string,
  nameOf: (row: Row) => string | null,
): Column<Row>[] {
  if (first === undefined) return []
  const cell = (row: Row) => {
    const name = nameOf(row)
    if (name === null) return <div className={styles.indented}>{first.cell(row)}</div>
    return (
      <div className={styles.boxed}>
        <input
          type="checkbox"
          aria-label={`Select ${name}`}
          checked={selection.isSelected(idOf(row))}
          onChange={(event) => selection.select(idOf(row), event.target.checked)}
        />
        <div>{first.cell(row)}</div>
      </div>
    )
  }
  return [{ ...first, cell }, ...others]
}

/** The buttons above the table, after a box that selects the whole page. */
export function BulkBar({ selection, children }: { selection: Selection; children: ReactNode }) {
  return (
    <div className={formStyles.actions}>
      <Check label="All on this page" checked={selection.areAllSelected} onValue={selection.selectAll} />
      {children}
    </div>
  )
}
