/** All pipes, with a search by name, description, destination or state. */
import { useDeferredValue, useEffect, useRef, useState } from 'react'
import { useSearch } from 'wouter'
import { matchesPipe } from '../../../client/overview.ts'
import { useOverview } from '../../data/overview.ts'
import { ButtonLink, TextField } from '../../ui/controls.tsx'
import { Empty, Page, Section, Skeleton } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { PipeTable } from './pipe-table.tsx'

export function PipesPage() {
  const { data: overview } = useOverview()
  const [filter, setFilter] = useState('')
  const wanted = useDeferredValue(filter)
  const found = (overview?.pipes ?? []).filter((pipe) => matchesPipe(pipe, wanted))
  const { rows, pager } = usePage(found, 'pipe')
  const field = useRef<HTMLInputElement>(null)
  const search = useSearch()
  useEffect(() => {
    if (search.includes('search')) field.current?.focus()
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
      <TextField
        ref={field}
        label="Search"
        type="search"
        placeholder="name, destination or state, e.g. stuck"
        value={filter}
        onValue={setFilter}
      />
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
          <PipeTable pipes={rows} />
          {pager}
        </Section>
      )}
    </Page>
  )
}
