/**
 * The form: find the records first, then delete them.
 *
 *   typing ──Find──▶ searching ──▶ found ──Delete …──▶ confirming ──▶ deleting; the form is empty
 *     ▲                              │
 *     └────── the form is changed ◀──┘
 */
import { useRef, useState } from 'react'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import type { PrivacyJob } from '../../../../contract/privacy.ts'
import { keysFile, privacyCommand } from '../../../client/privacy.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { submitting } from '../../ui/edit-form.tsx'
import { type FieldErrors, fieldErrors } from '../../ui/failure.tsx'
import { Choice, TextField } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Section, Soft } from '../../ui/layout.tsx'
import { DeleteDialog } from './delete-dialog.tsx'
import { emptyDraft, type KeyDraft, requestOf, searchText, withKey } from './draft.ts'
import { JobResult } from './job-result.tsx'
import { useStartedJob } from './queries.ts'

interface Shown {
  job: PrivacyJob
  /** The search that the job is for. Null: a deletion, which stays visible while the next search is typed. */
  search: string | null
}

export function SearchForm({ pipes }: { pipes: readonly OverviewPipe[] }) {
  const [draft, setDraft] = useState(emptyDraft)
  const [shown, setShown] = useState<Shown | null>(null)
  const [isAsking, setAsking] = useState(false)
  const deletion = useRef<PrivacyJob | null>(null)
  const find = useChange(() => api.call('createPrivacyJob', { body: requestOf('find', draft) }))
  const remove = useChange(() => api.call('createPrivacyJob', { body: requestOf('delete', draft) }))
  const search = searchText(draft)
  const isShown = shown !== null && (shown.search === null || shown.search === search)
  const { data: job, error } = useStartedJob(isShown ? shown.job : null)
  const found = isShown && shown.search !== null && job?.state === 'done' ? job : null
  const pipeName = pipes.find(({ pipe_id }) => pipe_id === draft.pipeId)?.pipe_name ?? null
  const clear = () => {
    find.reset()
    setDraft(emptyDraft)
  }
  const start = () => {
    setShown(null)
    find.mutate(undefined, { onSuccess: ({ body }) => setShown({ job: body, search }) })
  }
  const endDialog = () => {
    setAsking(false)
    if (deletion.current === null) return
    setShown({ job: deletion.current, search: null })
    deletion.current = null
    clear()
  }
  const errors = fieldErrors(find.error)
  return (
    <>
      <Section title="Find records">
        <form className={formStyles.form} onSubmit={submitting(start)} noValidate autoComplete="off">
          <Keys keys={draft.keys} errors={errors} onKeys={(keys) => setDraft({ ...draft, keys })} />
          <Choice
            label="Pipes"
            value={draft.pipeId}
            options={[
              ['', 'all pipes, including deleted ones'],
              ...pipes.map(({ pipe_id, pipe_name }) => [pipe_id, `only ${pipe_name}`] as const),
            ]}
            onValue={(pipeId) => setDraft({ ...draft, pipeId })}
          />
          <FormActions failure={find.error} shown={shownPaths(draft.keys)}>
            <Button type="submit" look="primary" changes isBusy={find.isPending}>
              Find
            </Button>
            <Button look="danger" changes disabled={found === null} onClick={() => setAsking(true)}>
              Delete …
            </Button>
            <Button look="plain" onClick={clear}>
              Clear
            </Button>
            {found === null ? <Soft>Find the records before you delete them.</Soft> : null}
          </FormActions>
        </form>
        <KeysFileNote />
        <CliTwin command={privacyCommand('find', pipeName)} />
      </Section>
      {isShown && job !== undefined ? (
        <JobResult key={job.job_id} job={job} error={error} isFocused={shown.search === null} />
      ) : null}
      {isAsking && found !== null ? (
        <DeleteDialog
          keys={draft.keys}
          found={found}
          pipeName={pipeName}
          run={async () => {
            deletion.current = (await remove.mutateAsync()).body
          }}
          onClose={endDialog}
        />
      ) : null}
    </>
  )
}

function Keys({
  keys,
  errors,
  onKeys,
}: {
  keys: readonly KeyDraft[]
  errors: FieldErrors
  onKeys: (keys: readonly KeyDraft[]) => void
}) {
  const change = (id: number, next: Partial<KeyDraft>) =>
    onKeys(keys.map((one) => (one.id === id ? { ...one, ...next } : one)))
  return (
    <fieldset className={formStyles.form}>
      <legend>A record matches if it has all of these values.</legend>
      {keys.map(({ id, path, value }, index) => {
        const number = index === 0 ? '' : ` ${index + 1}`
        return (
          <div key={id} className={formStyles.pair}>
            <TextField
              label={`Key${number}`}
              mono
              required
              hint="A path, such as user_id or customer.email."
              value={path}
              onValue={(next) => change(id, { path: next })}
              error={errors[`keys.${index}.path`]}
            />
            <TextField
              label={`Value${number}`}
              mono
              required
              hint="The complete value, as text."
              value={value}
              onValue={(next) => change(id, { value: next })}
              error={errors[`keys.${index}.value`]}
            />
            {keys.length === 1 ? null : (
              <div>
                <Button
                  aria-label={`Remove key${number || ' 1'}`}
                  onClick={() => onKeys(keys.filter((one) => one.id !== id))}
                >
                  Remove
                </Button>
              </div>
            )}
          </div>
        )
      })}
      <div>
        <Button onClick={() => onKeys(withKey(keys))}>Add a key</Button>
      </div>
    </fieldset>
  )
}

function KeysFileNote() {
  return (
    <Soft>
      The commands read the keys from a file <code>{keysFile}</code> with a line <code>KEY=VALUE</code> for
      each key, so that no value is in the history of a shell.
    </Soft>
  )
}

function shownPaths(keys: readonly KeyDraft[]): string[] {
  return keys.flatMap((_, index) => [`keys.${index}.path`, `keys.${index}.value`])
}
