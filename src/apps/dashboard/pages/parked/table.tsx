/** The table of one page of parked records, of a lane or of a pipe, with boxes and with actions on the selected ones. */
import type { ReactNode } from 'react'
import { shortIds } from '../../../client/parked.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { type Column, Table } from '../../ui/layout.tsx'
import { type Selection, selectColumn, useSelection } from '../../ui/selection.tsx'
import { useSorted } from '../../ui/sort.tsx'
import styles from './parked.module.css'

interface ParkedTableProps<Row> {
  /** The columns after the box. */
  columns: Column<Row>[]
  parked: readonly Row[]
  /** The actions above the table. */
  children: (selection: Selection) => ReactNode
}

export function ParkedTable<Row extends { parked_id: string }>(props: ParkedTableProps<Row>) {
  const { rows, sorting, choice } = useSorted(props.columns, props.parked)
  const selection = useSelection(rows.map((one) => one.parked_id))
  const short = shortIds(rows.map((one) => one.parked_id))
  const select = selectColumn<Row>(
    selection,
    ({ parked_id: id }) => id,
    ({ parked_id: id }) => <OneLine>{short.get(id) ?? id}</OneLine>,
  )
  return (
    <>
      {props.children(selection)}
      {choice}
      <Table
        caption="Parked records"
        columns={[{ label: 'Select', ...select }, ...props.columns]}
        rows={rows}
        keyOf={(one) => one.parked_id}
        sorting={sorting}
      />
    </>
  )
}

interface PageButtonsProps {
  /** Null: the first page. */
  after: string | null
  /** Null: the last page. */
  next: string | null
  onAfter: (after: string | null) => void
}

export function PageButtons({ after, next, onAfter }: PageButtonsProps) {
  return (
    <div className={formStyles.actions}>
      {after === null ? null : <Button onClick={() => onAfter(null)}>First page</Button>}
      {next === null ? null : <Button onClick={() => onAfter(next)}>Next page</Button>}
    </div>
  )
}

export function OneLine({ children }: { children: ReactNode }) {
  return <span className={styles.oneLine}>{children}</span>
}
