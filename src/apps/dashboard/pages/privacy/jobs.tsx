/** The searches and deletions of the workspace, with their progress. */
import { useState } from 'react'
import type { PrivacyJob } from '../../../../contract/privacy.ts'
import { count } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { progressWords } from '../../../client/privacy.ts'
import { Button } from '../../ui/controls.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Loading } from '../../ui/failure.tsx'
import { JobState } from '../../ui/job-state.tsx'
import { CliTwin, type Column, Empty, Facts, Section, Soft, Table } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { Ago, exactTime, Outside } from '../../ui/text.tsx'
import { CancelJob, JobDetails, kindWords, usePipeName } from './job-result.tsx'
import { usePrivacyJob, usePrivacyJobs } from './queries.ts'

export function Jobs() {
  const { data, error } = usePrivacyJobs()
  const [shownId, setShownId] = useState<string | null>(null)
  const { rows, pager } = usePage(data ?? [], 'job')
  const columns = useColumns(setShownId)
  if (data === undefined) return <Loading error={error} />
  return (
    <Section title="Searches and deletions">
      {rows.length === 0 ? (
        <Empty title="No searches or deletions yet">
          <p>They are listed here for 400 days, with counts and without values.</p>
        </Empty>
      ) : (
        <Table
          caption="Searches and deletions"
          rows={rows}
          keyOf={({ job_id }) => job_id}
          columns={columns}
        />
      )}
      {pager}
      <CliTwin command={command('privacy', 'jobs')} />
      {shownId === null ? null : <JobDialog jobId={shownId} onClose={() => setShownId(null)} />}
    </Section>
  )
}

function useColumns(onShow: (jobId: string) => void): Column<PrivacyJob>[] {
  const nameOf = usePipeName()
  const pipesOf = ({ pipe_ids: ids }: PrivacyJob) => (ids === null ? 'all pipes' : ids.map(nameOf).join(', '))
  return [
    { label: 'Created', cell: (job) => <Ago at={job.created_ts} />, isShort: true },
    { label: 'Kind', cell: ({ kind }) => kindWords[kind], isShort: true },
    {
      label: 'State',
      cell: (job) => (
        <>
          <JobState state={job.state} /> {job.state === 'running' ? <Soft>{progressWords(job)}</Soft> : null}
        </>
      ),
    },
    { label: 'Keys', cell: ({ key_paths }) => <Outside text={key_paths.join(', ')} /> },
    { label: 'Pipes', cell: (job) => <Outside text={pipesOf(job)} /> },
    { label: 'Found', cell: ({ found }) => count(found.records + found.parked), isNumber: true },
    {
      label: 'Deleted',
      cell: ({ kind, deleted }) => (kind === 'find' ? '–' : count(deleted.records + deleted.parked)),
      isNumber: true,
    },
    { label: 'By', cell: ({ created_by: by }) => <Outside text={by.name ?? by.kind} /> },
    {
      label: '',
      cell: (job) => (
        <>
          <CancelJob job={job} />
          <Button
            aria-label={`Show ${kindWords[job.kind].toLowerCase()} ${job.job_id}`}
            onClick={() => onShow(job.job_id)}
          >
            Show
          </Button>
        </>
      ),
    },
  ]
}

/** Progress continues in the dialog. */
function JobDialog({ jobId, onClose }: { jobId: string; onClose: () => void }) {
  const { data: job, error } = usePrivacyJob(jobId)
  return (
    <Dialog title={job === undefined ? 'Job' : kindWords[job.kind]} open onClose={onClose} wide>
      {job === undefined ? (
        <Loading error={error} lines={4} />
      ) : (
        <>
          <JobDetails job={job} />
          <Facts
            facts={[
              ['Job', job.job_id],
              ['Keys', <Outside key="keys" text={job.key_paths.join(', ')} />],
              ['Created', exactTime(job.created_ts)],
              ['By', <Outside key="by" text={job.created_by.name ?? job.created_by.kind} />],
              ['Ended', job.finished_ts === null ? '–' : exactTime(job.finished_ts)],
            ]}
          />
          <CliTwin command={command('privacy', 'show', job.job_id)} />
        </>
      )}
      <div>
        <Button onClick={onClose}>Close</Button>
      </div>
    </Dialog>
  )
}
