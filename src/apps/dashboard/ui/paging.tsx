/**
 * Shows long lists page by page, so that five hundred rows cost no more than fifty. The page is part of the address, as
 * `?page=2`.
 */
import { counted } from '../../../platform/quantities.ts'
import { useParam, useSetParams } from '../data/address.ts'
import { Button } from './controls.tsx'
import { layoutStyles, Soft } from './layout.tsx'

const perPage = 50

export function usePage<T>(all: readonly T[], noun: string) {
  const setParams = useSetParams()
  const wanted = Math.max(1, Number.parseInt(useParam('page'), 10) || 1) - 1
  const setWanted = (page: number) => setParams({ page: page === 0 ? null : String(page + 1) }, true)
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
