/** Shows long lists page by page, so that five hundred rows cost no more than fifty. */
import { useState } from 'react'
import { counted } from '../../../platform/quantities.ts'
import { Button } from './controls.tsx'
import { layoutStyles, Soft } from './layout.tsx'

const perPage = 50

export function usePage<T>(all: readonly T[], noun: string) {
  const [wanted, setWanted] = useState(0)
  const pages = Math.max(1, Math.ceil(all.length / perPage))
  const at = Math.min(wanted, pages - 1)
  const rows = all.slice(at * perPage, (at + 1) * perPage)
  const pager =
    pages === 1 ? null : (
      <nav className={layoutStyles.pager} aria-label={`Pages of ${noun}s`}>
        <Button disabled={at === 0} onClick={() => setWanted(at - 1)}>
          Previous
        </Button>
        <Soft>
          {at * perPage + 1} to {at * perPage + rows.length} of {counted(all.length, noun)}
        </Soft>
        <Button disabled={at === pages - 1} onClick={() => setWanted(at + 1)}>
          Next
        </Button>
      </nav>
    )
  return { rows, pager }
}
