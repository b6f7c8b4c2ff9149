/** The breadcrumbs of a page of a pipe. */
import { Link } from 'wouter'
import { usePipeOverview } from '../../data/overview.ts'
import { Empty, Page } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'

export function PipesCrumb() {
  return <Link to="/pipes">Pipes</Link>
}

export function PipeCrumb({ pipeId }: { pipeId: string }) {
  const pipe = usePipeOverview(pipeId)
  return (
    <>
      <PipesCrumb /> /{' '}
      <Link to={`/pipes/${pipeId}`}>
        <Outside text={pipe?.pipe_name ?? 'pipe'} />
      </Link>
    </>
  )
}

/** It never existed, or was deleted while the page was open. */
export function Gone({ what }: { what: string }) {
  return (
    <Page title="Not found" name={`This ${what} does not exist`} crumbs={<PipesCrumb />}>
      <Empty title={`There is no such ${what}, or it was deleted`}>
        <Link to="/pipes">Go to the pipes</Link>
      </Empty>
    </Page>
  )
}
