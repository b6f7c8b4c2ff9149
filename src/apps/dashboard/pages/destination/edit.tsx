/** Changes a destination. Only changed fields are sent; the second of two users who save gets an error. */
import { useState } from 'react'
import { useLocation } from 'wouter'
import type { Destination } from '../../../../contract/destination.ts'
import { wordsOf } from '../../../../contract/destination-words.ts'
import { command, destinationName, destinationOptions } from '../../../client/cli-twin.ts'
import { api, isNotFound } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { useChange, useDestination } from '../../data/queries.ts'
import { requireUnchanged, SaveFailure } from '../../ui/conflict.tsx'
import { ButtonLink, formStyles } from '../../ui/controls.tsx'
import { FailureNotice, fieldErrors } from '../../ui/failure.tsx'
import { nameOf } from '../../ui/lane-words.tsx'
import { CliTwin, Notice, Page, Skeleton } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { Gone, PipeCrumb } from '../pipe/crumbs.tsx'
import { ConfigForm, shownPaths } from './config-form.tsx'
import { draftOf, updateBody } from './draft.ts'
import { ProposeTable } from './propose-table.tsx'
import { useTableColumns } from './table-columns.tsx'
import { TestAndSave } from './test-and-save.tsx'
import { TransformTrial } from './transform-trial.tsx'
import { warnOfTransform } from './transform-warning.ts'

export function EditDestinationPage({ pipeId, destinationId }: { pipeId: string; destinationId: string }) {
  const { data, error } = useDestination(pipeId, destinationId)
  if (isNotFound(error) && data === undefined) return <Gone what="destination" />
  return (
    <Page
      title={data === undefined ? 'Destination' : `Change ${nameOf(data)}`}
      name={data === undefined ? 'Destination' : <Outside text={`Change ${nameOf(data)}`} />}
      crumbs={<PipeCrumb pipeId={pipeId} />}
    >
      {isNotFound(error) ? (
        <Notice kind="bad">
          Somebody deleted this destination. What you typed is still here to be copied.
        </Notice>
      ) : null}
      {data === undefined ? (
        error === null ? (
          <Skeleton lines={12} />
        ) : (
          <FailureNotice failure={error} />
        )
      ) : (
        <EditForm pipeId={pipeId} destination={data} />
      )}
    </Page>
  )
}

/** The fields that a person can change; its lane and times change by themselves. */
function changeable(destination: Destination): object {
  const { lane, destination_updated_ts, destination_status, tls_pin, ...rest } = destination
  return rest
}

function EditForm({ pipeId, destination }: { pipeId: string; destination: Destination }) {
  const [, go] = useLocation()
  const [stored, setStored] = useState(destination)
  const [draft, setDraft] = useState(() => draftOf(stored))
  const [failure, setFailure] = useState<unknown>(null)
  const pipeName = usePipeOverview(pipeId)?.pipe_name ?? 'PIPE'
  const { destination_id: id, destination_type: type } = stored
  const lane = `/pipes/${pipeId}/destinations/${id}`
  const table = useTableColumns(pipeId, draft)
  const patch = updateBody(draftOf(stored), draft)
  const update = useChange(
    async ({ isForced, checksTransform }: { isForced: boolean; checksTransform: boolean }) => {
      const { body: now, etag } = await api.call('getDestination', {
        path: { pipe_id: pipeId, destination_id: id },
      })
      const ifMatch = isForced ? null : etag
      if (!isForced) requireUnchanged(changeable(stored), changeable(now.destination))
      return api.call('updateDestination', {
        path: { pipe_id: pipeId, destination_id: id },
        body: patch,
        query: { check_transform: checksTransform },
        ifMatch,
      })
    },
  )
  const twin = command(
    ...['destinations', 'update', destinationName(pipeName, stored)],
    ...destinationOptions(type, patch, stored.destination_config),
    '--yes',
  )
  const save = async (isForced: boolean, checksTransform: boolean) => {
    setFailure(null)
    try {
      const { body: saved } = await update.mutateAsync({ isForced, checksTransform })
      say(`${nameOf(stored)} is changed.`, twin)
      if (patch.transform !== undefined) {
        const isUnchecked = patch.transform !== null && !checksTransform
        warnOfTransform({ ...saved.destination, transform_check: saved.transform_check, isUnchecked })
      }
      go(lane)
    } catch (error) {
      setFailure(error)
    }
  }
  const reload = async () => {
    const { destination: now } = (
      await api.call('getDestination', { path: { pipe_id: pipeId, destination_id: id } })
    ).body
    setStored(now)
    setDraft(draftOf(now))
    setFailure(null)
  }
  const errors = fieldErrors(failure)
  return (
    <form className={formStyles.form} onSubmit={(event) => event.preventDefault()} noValidate>
      <SaveFailure
        failure={failure}
        shown={shownPaths(errors, draft)}
        onOverwrite={() => void save(true, true)}
        onReload={() => void reload().catch(setFailure)}
      />
      <ConfigForm
        draft={draft}
        table={table}
        errors={errors}
        isStored
        trial={
          <TransformTrial
            pipeId={pipeId}
            pipeName={pipeName}
            draft={draft.transform}
            stored={stored}
            onFailure={setFailure}
          />
        }
        onChange={(next) => setDraft((now) => ({ ...now, ...next }))}
      />
      {wordsOf(type).isDatabase ? (
        <ProposeTable
          pipeId={pipeId}
          body={{
            destination_id: id,
            ...(patch.destination_config === undefined
              ? {}
              : { destination_config: patch.destination_config }),
          }}
          onFailure={setFailure}
          onColumns={(columns) => setDraft((now) => ({ ...now, columns }))}
        />
      ) : null}
      <TestAndSave
        pipeId={pipeId}
        body={{ destination_id: id, ...patch }}
        hasSample={wordsOf(type).isDatabase}
        isSaving={update.isPending}
        saveWord="save"
        save={(isInsisting) => save(false, !isInsisting)}
        onFailure={setFailure}
        onTableColumns={table.learn}
      />
      <div>
        <ButtonLink to={lane}>Back to the lane</ButtonLink>
      </div>
      <CliTwin command={twin} />
    </form>
  )
}
