/** All pipes, with a search by name, description, destination or state. */
import { useDeferredValue, useEffect, useMemo, useRef } from 'react'
import { useSearch } from 'wouter'
import { matchesPipe } from '../../../client/overview.ts'
import { useOverview } from '../../data/overview.ts'
import { ButtonLink } from '../../ui/controls.tsx'
import { Empty, Page, Section, Skeleton } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { useSearchField } from '../../ui/search-field.tsx'
import { useSorted } from '../../ui/sort.tsx'
import { PipeTable, usePipeColumns } from './pipe-table.tsx'

export function PipesPage() {
  const { data: overview } = useOverview()
  const input = useRef<HTMLInputElement>(null)
  const { text, field } = useSearchField({
    ref: input,
    placeholder: 'name, destination or state, e.g. stuck',
  })
  const wanted = useDeferredValue(text)
  const pipes = overview?.pipes
  const found = useMemo(() => (pipes ?? []).filter((pipe) => matchesPipe(pipe, wanted)), [pipes, wanted])
  const { rows: sorted, sorting, choice } = useSorted(usePipeColumns(), found)
  const { rows, pager } = usePage(sorted, 'pipe')
  const search = useSearch()
  useEffect(() => {
    if (new URLSearchParams(search).has('search')) input.current?.focus()
  }, [search])
  return (
    <Page
      title="Pipes"
      name="Pipes"
      actions={
        <ButtonLink to="/pipes/new" look="primary" changes>
          New pipe
        </ButtonLink>
      }
    >
      {field}
      {overview === undefined ? (
        <Skeleton />
      ) : found.length === 0 ? (
        <Empty title={overview.pipes.length === 0 ? 'No pipes yet' : 'No pipe matches'}>
          {overview.pipes.length === 0 ? (
            <p>A pipe receives records at its own address and delivers them to its destinations.</p>
          ) : (
            <p>Search for part of a name, a type of destination (database) or a state (paused, stuck).</p>
          )}
        </Empty>
      ) : (
        <Section title={wanted === '' ? 'All pipes' : 'Matching pipes'}>
          {choice}
          <PipeTable pipes={rows} sorting={sorting} />
          {pager}
        </Section>
      )}
    </Page>
  )
}
