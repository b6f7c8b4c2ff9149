/** One job: its progress or its outcome, the pipes and records, and where copies remain. */
import { useEffect, useRef } from 'react'
import type { PrivacyJob } from '../../../../contract/privacy.ts'
import { count } from '../../../../platform/quantities.ts'
import { countWords, deletedWords, progressWords } from '../../../client/privacy.ts'
import { api } from '../../data/api.ts'
import { useOverview } from '../../data/overview.ts'
import { useChange } from '../../data/queries.ts'
import { Button } from '../../ui/controls.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { focusAround, isOpen, JobState } from '../../ui/job-state.tsx'
import { Notice, Section, Soft, Table } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { MessageLink } from '../message/words.tsx'

const shownMatches = 50

export const kindWords = { find: 'Search', delete: 'Deletion' } as const

/** `isFocused`: the button that started the job is gone or disabled, so the result gets the focus. */
export function JobResult({
  job,
  error,
  isFocused,
}: {
  job: PrivacyJob
  error: Error | null
  isFocused: boolean
}) {
  const part = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (isFocused) part.current?.focus()
  }, [isFocused])
  return (
    <div ref={part} tabIndex={-1}>
      <Section title={kindWords[job.kind]}>
        <FailureNotice failure={error} />
        <JobDetails job={job} />
      </Section>
    </div>
  )
}

export function JobDetails({ job }: { job: PrivacyJob }) {
  return (
    <>
      <div role="status">
        <div>
          <JobState state={job.state} />
        </div>
        <div>{outcomeWords(job)}</div>
      </div>
      {job.error === null ? null : (
        <Notice kind="bad">
          <Outside text={job.error} />
        </Notice>
      )}
      {isOpen(job) ? <Soft>It continues when you leave this page.</Soft> : null}
      <CancelJob job={job} />
      <Pipes job={job} />
      {job.kind === 'find' ? <Matches job={job} /> : null}
      {job.state === 'done' ? <Remaining remaining={job.remaining} /> : null}
    </>
  )
}

function outcomeWords(job: PrivacyJob): string {
  if (isOpen(job)) return `${progressWords(job)}.`
  if (job.kind === 'delete') return deletedWords(job)
  return `Found ${countWords(job.found)}.`
}

/** Nothing for a job that has ended. */
export function CancelJob({ job }: { job: PrivacyJob }) {
  const path = { job_id: job.job_id }
  const cancel = useChange(() => api.call('cancelPrivacyJob', { path }))
  if (!isOpen(job)) return null
  return (
    <div>
      <Button
        changes
        isBusy={cancel.isPending}
        title={job.kind === 'delete' ? 'What was deleted before stays deleted.' : undefined}
        onClick={({ currentTarget: button }) =>
          cancel.mutate(undefined, { onSuccess: () => focusAround(button) })
        }
      >
        Cancel {kindWords[job.kind].toLowerCase()}
      </Button>
      <FailureNotice failure={cancel.error} />
    </div>
  )
}

/** The name of a pipe, which can be deleted. */
export function usePipeName(): (pipeId: string) => string {
  const pipes = useOverview().data?.pipes ?? []
  return (pipeId) => pipes.find(({ pipe_id }) => pipe_id === pipeId)?.pipe_name ?? `${pipeId} (deleted)`
}

function Pipes({ job }: { job: PrivacyJob }) {
  const nameOf = usePipeName()
  if (job.pipes.length === 0) return null
  return (
    <Table
      caption="Found, by pipe"
      rows={job.pipes}
      keyOf={({ pipe_id }) => pipe_id}
      columns={[
        { label: 'Pipe', cell: ({ pipe_id }) => <Outside text={nameOf(pipe_id)} /> },
        { label: 'Messages', cell: ({ messages }) => count(messages), isNumber: true },
        { label: 'Records', cell: ({ records }) => count(records), isNumber: true },
        { label: 'Parked', cell: ({ parked }) => count(parked), isNumber: true },
      ]}
    />
  )
}

function Matches({ job: { matches, has_more_matches: hasMore } }: { job: PrivacyJob }) {
  const nameOf = usePipeName()
  if (matches.length === 0) return null
  return (
    <>
      <Table
        caption="Matches"
        rows={matches.slice(0, shownMatches)}
        keyOf={({ msg_id, record_index, is_parked }) => `${msg_id} ${record_index} ${is_parked}`}
        columns={[
          { label: 'Message', cell: ({ msg_id }) => <MessageLink msgId={msg_id} /> },
          { label: 'Pipe', cell: ({ pipe_id }) => <Outside text={nameOf(pipe_id)} /> },
          { label: 'Record', cell: ({ record_index }) => String(record_index), isNumber: true },
          { label: 'Where', cell: ({ is_parked }) => (is_parked ? 'parked' : 'buffer'), isShort: true },
        ]}
      />
      {matches.length > shownMatches ? (
        <Soft>
          The first {shownMatches} of {hasMore ? 'more than ' : ''}
          {count(matches.length)} matches.
        </Soft>
      ) : null}
    </>
  )
}

export function Remaining({ remaining }: { remaining: PrivacyJob['remaining'] }) {
  if (remaining.length === 0) return null
  return (
    <Table
      caption="Copies can remain"
      rows={remaining}
      keyOf={({ kind, name }) => `${kind} ${name}`}
      columns={[
        { label: 'Copies can remain', cell: ({ name }) => <Outside text={name} /> },
        { label: 'What to do', cell: ({ note }) => <Outside text={note} />, isLong: true },
      ]}
    />
  )
}
