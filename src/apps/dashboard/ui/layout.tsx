/**
 * The building blocks of pages: heading, sections, notices, facts, tables that become cards, code with a copy button.
 */
import { isValidElement, type ReactNode, useEffect, useId } from 'react'
import { Copy } from './copy.tsx'
import styles from './layout.module.css'

export function Page({
  title,
  name,
  crumbs,
  actions,
  isForm = false,
  children,
}: {
  /** The title of the browser tab. */
  title: string
  name: ReactNode
  crumbs?: ReactNode
  actions?: ReactNode
  /** Lines of a form are short enough to read. */
  isForm?: boolean
  children: ReactNode
}) {
  useEffect(() => {
    document.title = `${title} · pipectl`
  }, [title])
  return (
    <div className={`${styles.page} ${isForm ? styles.formPage : ''}`}>
      <div className={styles.heading}>
        <div>
          {crumbs === undefined ? null : <div className={styles.crumbs}>{crumbs}</div>}
          <h1>{name}</h1>
        </div>
        {actions}
      </div>
      {children}
    </div>
  )
}

export function Section({
  title,
  actions,
  children,
}: {
  title: string
  actions?: ReactNode
  children: ReactNode
}) {
  const id = useId()
  return (
    <section className={styles.section} aria-labelledby={id}>
      <div className={styles.sectionHead}>
        <h2 id={id}>{title}</h2>
        {actions}
      </div>
      {children}
    </section>
  )
}

/** Screen readers announce `bad` and `warn` immediately. */
export function Notice({
  kind = 'plain',
  children,
  actions,
}: {
  kind?: 'plain' | 'bad' | 'warn' | 'good'
  children: ReactNode
  actions?: ReactNode
}) {
  return (
    <div
      className={`${styles.notice} ${kind === 'plain' ? '' : styles[kind]}`}
      role={kind === 'bad' ? 'alert' : 'status'}
    >
      <div>{children}</div>
      {actions}
    </div>
  )
}

/** An empty list, with the next step. */
export function Empty({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className={styles.empty}>
      <h2>{title}</h2>
      {children}
    </div>
  )
}

export function Skeleton({ lines = 6 }: { lines?: number }) {
  return (
    <div className={styles.skeleton} role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all the same
        <span key={index} />
      ))}
    </div>
  )
}

export function Soft({ children }: { children: ReactNode }) {
  return <span className={styles.soft}>{children}</span>
}

/** Text to copy. */
export function Code({ label, text }: { label: string; text: string }) {
  return (
    <div className={styles.code}>
      <div className={styles.codeHead}>
        <span>{label}</span>
        <Copy text={text} what={label} />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, and a keyboard must get there */}
      <pre tabIndex={0}>
        <bdi>{text}</bdi>
      </pre>
    </div>
  )
}

/** The equivalent command. */
export function CliTwin({ command }: { command: string }) {
  return (
    <details className={styles.cli}>
      <summary>Copy as CLI</summary>
      <Code label="Equivalent command" text={command} />
    </details>
  )
}

export function Facts({
  facts,
  big = false,
}: {
  facts: readonly (readonly [string, ReactNode])[]
  big?: boolean
}) {
  return (
    <dl className={`${styles.facts} ${big ? styles.big : ''}`}>
      {facts.map(([name, value]) => (
        <div key={name} className={isLongText(value) ? styles.wide : undefined}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** Half the width of a phone has about this number of characters. */
const longestHalf = 22

function isLongText(value: ReactNode): boolean {
  const text = isValidElement<{ text?: unknown }>(value) ? value.props.text : value
  return typeof text === 'string' && text.length > longestHalf
}

export interface Column<Row> {
  /** Empty: no heading, for example for a column of buttons. */
  label: string
  cell: (row: Row) => ReactNode
  isNumber?: boolean
  /** Does not wrap on wide screens, even if another column has a long text. */
  isShort?: boolean
  /** An error or another sentence: on a phone it has the full width, below its label. */
  isLong?: boolean
  /** One line that takes the remaining width of a wide screen and is cut at its end. */
  isRest?: boolean
  /** Rows can be sorted by this value. Null: the row has none. */
  sortBy?: (row: Row) => string | number | null
}

export interface Sorting {
  /** The label of the column that the rows are sorted by. Null: they have their own order. */
  by: string | null
  isDescending: boolean
  /** Null: back to their own order. */
  onSort: (label: string | null) => void
}

type CellKind = Pick<Column<unknown>, 'label' | 'isNumber' | 'isShort' | 'isLong' | 'isRest'>

function cellClass({ label, isNumber, isShort, isLong, isRest }: CellKind) {
  if (label === '') return styles.buttons
  if (isNumber) return styles.number
  if (isLong) return styles.long
  if (isRest) return styles.rest
  return isShort ? styles.short : undefined
}

export function Table<Row>({
  caption,
  columns,
  rows,
  keyOf,
  sorting,
}: {
  caption: string
  columns: readonly Column<Row>[]
  rows: readonly Row[]
  keyOf: (row: Row) => string
  /** From `useSorted`. Absent: the headings do not sort. */
  sorting?: Sorting
}) {
  return (
    <table className={styles.table} aria-label={caption}>
      <thead>
        <tr>
          {columns.map((column) => (
            <Heading key={column.label} column={column} sorting={sorting} />
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map((column) => (
              <Cell key={column.label} column={column}>
                {column.cell(row)}
              </Cell>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Heading<Row>({ column, sorting }: { column: Column<Row>; sorting: Sorting | undefined }) {
  const { label, isNumber, sortBy } = column
  if (label === '') return <td />
  const direction = sorting?.isDescending ? 'descending' : 'ascending'
  return (
    <th
      scope="col"
      className={isNumber ? styles.number : undefined}
      aria-sort={sorting?.by === label ? direction : undefined}
    >
      {sorting === undefined || sortBy === undefined ? label : <SortButton label={label} sorting={sorting} />}
    </th>
  )
}

function SortButton({ label, sorting }: { label: string; sorting: Sorting }) {
  const { by, isDescending, onSort } = sorting
  return (
    <button type="button" className={styles.sort} onClick={() => onSort(label)}>
      {label}
      <span aria-hidden="true">{by !== label ? '' : isDescending ? '↓' : '↑'}</span>
    </button>
  )
}

/** A cell without a value is left out of a card. */
function Cell({ column, children }: { column: CellKind; children: ReactNode }) {
  const isEmpty = children === '–' || children === '' || children === null
  return (
    <td data-label={column.label} data-empty={isEmpty ? '' : undefined} className={cellClass(column)}>
      <div>{children}</div>
    </td>
  )
}

export const layoutStyles = { pager: styles.pager ?? '', details: styles.cli ?? '' }
