/** All pipes, to find one in: by name, description, destination or state. */
import { useDeferredValue, useEffect, useRef, useState } from 'react'
import { useSearch } from 'wouter'
import { matchesPipe } from '../../../client/overview.ts'
import { useNow } from '../../data/clock.ts'
import { useOverview } from '../../data/overview.ts'
import { ButtonLink, TextField } from '../../ui/controls.tsx'
import { Empty, Page, Section, Skeleton } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { PipeTable } from './pipe-table.tsx'

export function PipesPage() {
  const { data: overview } = useOverview()
  const nowMs = useNow()
  const [filter, setFilter] = useState('')
  const wanted = useDeferredValue(filter)
  const found = (overview?.pipes ?? []).filter((pipe) => matchesPipe(pipe, wanted, nowMs))
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
        placeholder="name, destination or state, e.g. stalled"
        value={filter}
        onValue={setFilter}
      />
      {overview === undefined ? (
        <Skeleton />
      ) : found.length === 0 ? (
        <Empty title={overview.pipes.length === 0 ? 'No pipes yet' : 'No pipe is like that'}>
          {overview.pipes.length === 0 ? (
            <p>A pipe takes records at an address of its own and delivers them to its destinations.</p>
          ) : (
            <p>Look for a part of a name, a kind of destination (database) or a state (paused, failing).</p>
          )}
        </Empty>
      ) : (
        <Section title={wanted === '' ? 'All pipes' : 'Found'}>
          <PipeTable pipes={rows} />
          {pager}
        </Section>
      )}
    </Page>
  )
}
