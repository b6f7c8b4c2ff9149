/** All pipes, with a search by name, description, destination or state. */
import { memo, useDeferredValue, useEffect, useMemo, useRef } from 'react'
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
  const input = useRef<HTMLInputElement>(null)
  const { text, field } = useSearchField({
    ref: input,
    placeholder: 'name, destination or state, e.g. stuck',
  })
  const wanted = useDeferredValue(text)
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
      <Results wanted={wanted} />
    </Page>
  )
}

/** Not rendered with every key press: the field must not wait for the table. */
const Results = memo(function Results({ wanted }: { wanted: string }) {
  const pipes = useOverview().data?.pipes
  const found = useMemo(() => (pipes ?? []).filter((pipe) => matchesPipe(pipe, wanted)), [pipes, wanted])
  const { rows: sorted, sorting, choice } = useSorted(usePipeColumns(), found)
  const { rows, pager } = usePage(sorted, 'pipe')
  if (pipes === undefined) return <Skeleton />
  if (found.length === 0) return <Nothing isNew={pipes.length === 0} />
  return (
    <Section title={wanted === '' ? 'All pipes' : 'Matching pipes'}>
      {choice}
      <PipeTable pipes={rows} sorting={sorting} />
      {pager}
    </Section>
  )
})

function Nothing({ isNew }: { isNew: boolean }) {
  return (
    <Empty title={isNew ? 'No pipes yet' : 'No pipe matches'}>
      {isNew ? (
        <p>A pipe receives records at its own address and delivers them to its destinations.</p>
      ) : (
        <p>Search for part of a name, a type of destination (database) or a state (paused, stuck).</p>
      )}
    </Empty>
  )
}
