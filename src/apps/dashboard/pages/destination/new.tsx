/** Creates a destination: the type first, then the target. It is tested before it is saved. */
import { useCallback, useState } from 'react'
import { useLocation } from 'wouter'
import { type DestinationType, destinationTypes, wordsOf } from '../../../../contract/destination-words.ts'
import { command, destinationOptions } from '../../../client/cli-twin.ts'
import { api, isNotFound } from '../../data/api.ts'
import { useDraft } from '../../data/draft.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { useChange, usePipe } from '../../data/queries.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { fieldErrors, Loading } from '../../ui/failure.tsx'
import { CliTwin, Notice, Page, Soft } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { PipeCrumb } from '../pipe/crumbs.tsx'
import { ConfigForm, shownPaths } from './config-form.tsx'
import { createBody, type DestinationDraft, emptyDraft } from './draft.ts'
import styles from './new.module.css'
import { ProposeTable } from './propose-table.tsx'
import { Step } from './step.tsx'
import { useTableColumns } from './table-columns.tsx'
import { TestAndSave } from './test-and-save.tsx'
import { TransformTrial } from './transform-trial.tsx'
import { warnOfTransform } from './transform-warning.ts'

export function NewDestinationPage({ pipeId }: { pipeId: string }) {
  const initial = useCallback((): { draft: DestinationDraft | null } => ({ draft: null }), [])
  const [{ draft }, set, forget] = useDraft(`new destination of ${pipeId}`, initial)
  const { data: pipe, error } = usePipe(pipeId)
  return (
    <Page title="New destination" name="New destination" crumbs={<PipeCrumb pipeId={pipeId} />} isForm>
      {isNotFound(error) ? (
        <Notice kind="bad">Another user deleted this pipe. You can still copy what you typed.</Notice>
      ) : null}
      {draft === null && pipe === undefined && !isNotFound(error) ? (
        <Loading error={error} />
      ) : draft === null ? (
        <Types onType={(type) => set({ draft: emptyDraft(type, startOf(pipe)) })} />
      ) : (
        <NewForm
          pipeId={pipeId}
          draft={draft}
          onChange={(next) => set({ draft: { ...draft, ...next } })}
          onForget={forget}
        />
      )}
    </Page>
  )
}

function Types({ onType }: { onType: (type: DestinationType) => void }) {
  return (
    <Step number={1} title="Where">
      <div className={styles.kinds}>
        {destinationTypes.map((type) => (
          <button key={type} type="button" className={styles.kind} onClick={() => onType(type)}>
            <strong>{wordsOf(type).title}</strong>
            <Soft>{wordsOf(type).summary}</Soft>
          </button>
        ))}
      </div>
    </Step>
  )
}

/** The first destination of a pipe also receives the records that arrived before it. */
function startOf(pipe: { destinations: readonly unknown[] } | undefined): DestinationDraft['startFrom'] {
  return pipe?.destinations.length === 0 ? 'earliest' : 'now'
}

interface NewFormProps {
  pipeId: string
  draft: DestinationDraft
  onChange: (next: Partial<DestinationDraft>) => void
  onForget: () => void
}

/** The request that creates the destination, and the command that does the same. */
function useCreation({ pipeId, draft, onForget }: NewFormProps) {
  const [, go] = useLocation()
  const pipeName = usePipeOverview(pipeId)?.pipe_name ?? 'PIPE'
  const [failure, setFailure] = useState<unknown>(null)
  const body = createBody(draft)
  const create = useChange((isForced: boolean) =>
    api.call('createDestination', { path: { pipe_id: pipeId }, body, query: { check_transform: !isForced } }),
  )
  const { destination_type: _, ...fields } = body
  const twin = command(
    ...['destinations', 'create', pipeName, '--type', wordsOf(draft.type).kind],
    ...destinationOptions(draft.type, fields),
  )
  const save = async (isForced: boolean) => {
    setFailure(null)
    try {
      const { body: created } = await create.mutateAsync(isForced)
      onForget()
      say(
        `Destination created. Delivery starts with the ${draft.startFrom === 'now' ? 'next' : 'oldest stored'} record.`,
        twin,
      )
      warnOfTransform({ ...created, pipe_id: pipeId, isUnchecked: isForced && Boolean(body.transform) })
      go(`/pipes/${pipeId}/destinations/${created.destination_id}`)
    } catch (error) {
      setFailure(error)
    }
  }
  return { pipeName, body, twin, save, isSaving: create.isPending, failure, setFailure }
}

function NewForm(props: NewFormProps) {
  const { pipeId, draft, onChange, onForget } = props
  const { pipeName, body, twin, save, isSaving, failure, setFailure } = useCreation(props)
  const table = useTableColumns(pipeId, draft)
  const errors = fieldErrors(failure)
  return (
    <form className={formStyles.form} onSubmit={(event) => event.preventDefault()} noValidate>
      <Step
        number={1}
        title="Where"
        actions={
          <Button look="plain" onClick={onForget}>
            Change type
          </Button>
        }
      >
        <div>
          <strong>{wordsOf(draft.type).title}</strong> <Soft>{wordsOf(draft.type).summary}</Soft>
        </div>
      </Step>
      <ConfigForm
        draft={draft}
        table={table}
        errors={errors}
        isStored={false}
        propose={
          <ProposeTable
            pipeId={pipeId}
            body={{ destination_type: draft.type, destination_config: body.destination_config }}
            onFailure={setFailure}
            onColumns={(columns, isNew) => onChange({ columns, ...(isNew ? { startFrom: 'earliest' } : {}) })}
          />
        }
        trial={
          <TransformTrial
            pipeId={pipeId}
            pipeName={pipeName}
            draft={draft.transform}
            stored={null}
            onFailure={setFailure}
          />
        }
        onChange={onChange}
      />
      <TestAndSave
        pipeId={pipeId}
        body={body}
        type={draft.type}
        isSaving={isSaving}
        failure={failure}
        shown={shownPaths(errors, draft)}
        save={save}
        onFailure={setFailure}
        onTableColumns={table.learn}
      />
      <CliTwin command={twin} />
    </form>
  )
}
