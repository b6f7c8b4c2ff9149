/** Personal data: finds and deletes the records of a person, and lists such jobs (docs/personal-data.md). */
import { useOverview } from '../../data/overview.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Notice, Page, Soft } from '../../ui/layout.tsx'
import { Jobs } from './jobs.tsx'
import { SearchForm } from './search-form.tsx'

export function PrivacyPage() {
  return (
    <Page title="Personal data" name="Personal data">
      <Soft>
        Find and delete the records of a person in the buffer, among parked records and in damaged messages on
        this machine. Records in your destinations stay there. See the guide{' '}
        <a href="/docs/personal-data.html">Personal data and deletion</a>.
      </Soft>
      <Start />
      <Jobs />
    </Page>
  )
}

function Start() {
  const mayChange = useMayChange()
  const { data: overview } = useOverview()
  if (!mayChange) return <Notice>Only admins can find and delete personal data.</Notice>
  if (overview !== undefined && overview.cluster !== null)
    return (
      <Notice>
        In a cluster, pipectl cannot search the buffer for personal data.{' '}
        <a href="/docs/personal-data.html#in-a-cluster">What to do in a cluster</a>
      </Notice>
    )
  return <SearchForm pipes={overview?.pipes ?? []} />
}
