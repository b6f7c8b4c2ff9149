/** Sorts the rows of a table by a column that the user chooses. The choice is part of the address. */
import { type ReactNode, useMemo } from 'react'
import { useParam, useSetParams } from '../data/address.ts'
import { Button } from './controls.tsx'
import { Choice } from './fields.tsx'
import type { Column, Sorting } from './layout.tsx'
import styles from './sort.module.css'

/**
 * `?sort=last-used` sorts by the column "Last used", `?sort=-last-used` in descending order. Anything else keeps the
 * given order.
 */
export function useSorted<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
): { rows: readonly Row[]; sorting: Sorting; choice: ReactNode } {
  const given = useParam('sort')
  const setParams = useSetParams()
  const isDescending = given.startsWith('-')
  const wanted = given.replace(/^-/, '')
  const column = columns.find(({ label, sortBy }) => sortBy !== undefined && nameOf(label) === wanted)
  const sorting: Sorting = {
    by: column?.label ?? null,
    isDescending,
    onSort: (label) => {
      if (label === null) return setParams({ sort: null, page: null })
      const { isNumber = false } = columns.find((one) => one.label === label) ?? {}
      const isOther = label !== column?.label
      // The largest numbers first, texts from A to Z; a second press reverses the order.
      const descends = isOther ? isNumber : !isDescending
      setParams({ sort: `${descends ? '-' : ''}${nameOf(label)}`, page: null })
    },
  }
  const sortBy = column?.sortBy
  // biome-ignore lint/correctness/useExhaustiveDependencies: `sortBy` is new with every render; `wanted` identifies it
  const sorted = useMemo(
    () => (sortBy === undefined ? rows : [...rows].sort(comparing(sortBy, isDescending))),
    [rows, wanted, isDescending],
  )
  const labels = columns.flatMap(({ label, sortBy: key }) => (key === undefined ? [] : [label]))
  return { rows: sorted, sorting, choice: <SortChoice labels={labels} sorting={sorting} /> }
}

/** On phones a table is a list of cards without headings. */
function SortChoice({ labels, sorting }: { labels: readonly string[]; sorting: Sorting }) {
  const { by, isDescending, onSort } = sorting
  return (
    <div className={styles.choice}>
      <Choice
        label="Sort by"
        value={by ?? ''}
        options={[['', 'usual order'], ...labels.map((label): [string, string] => [label, label])]}
        onValue={(label) => onSort(label === '' ? null : label)}
      />
      {by === null ? null : (
        <Button
          aria-label={
            isDescending ? 'Descending; sort in ascending order' : 'Ascending; sort in descending order'
          }
          onClick={() => onSort(by)}
        >
          {isDescending ? '↓' : '↑'}
        </Button>
      )}
    </div>
  )
}

type SortKey = string | number | null

/** Rows without a value come last in both directions. */
export function comparing<Row>(sortBy: (row: Row) => SortKey, isDescending: boolean) {
  const sign = isDescending ? -1 : 1
  return (one: Row, other: Row): number => {
    const [a, b] = [sortBy(one), sortBy(other)]
    if (a === null || b === null) return Number(a === null) - Number(b === null)
    if (typeof a === 'number' && typeof b === 'number') return sign * (a - b)
    return sign * collator.compare(String(a), String(b))
  }
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' })

function nameOf(label: string): string {
  return label.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
}
