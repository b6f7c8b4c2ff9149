/** Changes a destination. Only changed fields are sent. */
import { useLocation } from 'wouter'
import type { Destination } from '../../../../contract/destination.ts'
import { command, destinationName, destinationOptions } from '../../../client/cli-twin.ts'
import { api, isNotFound } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { useDestination } from '../../data/queries.ts'
import { ButtonLink, formStyles } from '../../ui/controls.tsx'
import { type SaveRequest, useEditForm } from '../../ui/edit-form.tsx'
import { Loading } from '../../ui/failure.tsx'
import { nameOf } from '../../ui/lane-words.tsx'
import { CliTwin, Notice, Page } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { Gone, PipeCrumb } from '../pipe/crumbs.tsx'
import { ConfigForm, shownPaths } from './config-form.tsx'
import { type DestinationDraft, draftOf, updateBody } from './draft.ts'
import { ProposeTable } from './propose-table.tsx'
import { useTableColumns } from './table-columns.tsx'
import { TestAndSave } from './test-and-save.tsx'
import { TransformTrial } from './transform-trial.tsx'
import { warnOfTransform } from './transform-warning.ts'

export function EditDestinationPage({ pipeId, destinationId }: { pipeId: string; destinationId: string }) {
  const { data, error, etag } = useDestination(pipeId, destinationId)
  if (isNotFound(error) && data === undefined) return <Gone what="destination" />
  return (
    <Page
      title={data === undefined ? 'Destination' : `Edit ${nameOf(data)}`}
      name={data === undefined ? 'Destination' : <Outside text={`Edit ${nameOf(data)}`} />}
      crumbs={<PipeCrumb pipeId={pipeId} />}
      isForm
    >
      {isNotFound(error) ? (
        <Notice kind="bad">Another user deleted this destination. You can still copy what you typed.</Notice>
      ) : null}
      {data === undefined ? (
        <Loading error={error} lines={12} />
      ) : (
        <EditForm pipeId={pipeId} destination={data} etag={etag} />
      )}
    </Page>
  )
}

/** The fields that a user can change. The lane and times change without the user. */
function changeable(destination: Destination): object {
  const { lane, destination_updated_ts, destination_status, tls_pin, ...rest } = destination
  return rest
}

interface SaveOptions {
  /** False: the user saves although a check failed. */
  checksTransform: boolean
}

interface EditFormProps {
  pipeId: string
  destination: Destination
  etag: string | null
}

/** The form, the changes it sends, and the command that sends the same ones. */
function useDestinationForm({ pipeId, destination, etag }: EditFormProps) {
  const [, go] = useLocation()
  const pipeName = usePipeOverview(pipeId)?.pipe_name ?? 'PIPE'
  const { destination_id: id, destination_type: type } = destination
  const path = { pipe_id: pipeId, destination_id: id }
  const form = useEditForm({
    initial: { stored: destination, etag },
    draftOf,
    part: changeable,
    read: async () => {
      const { body, etag } = await api.call('getDestination', { path })
      return { stored: body.destination, etag }
    },
    write: async ({
      stored,
      draft,
      ifMatch,
      options,
    }: SaveRequest<Destination, DestinationDraft, SaveOptions>) => {
      const query = { check_transform: options.checksTransform }
      const body = updateBody(draftOf(stored), draft)
      const reply = await api.call('updateDestination', { path, body, query, ifMatch })
      return { stored: reply.body.destination, etag: reply.etag, reply: reply.body }
    },
    onSaved: (saved, { checksTransform }: SaveOptions) => {
      say(`${nameOf(destination)} updated.`, twin)
      if (patch.transform !== undefined) {
        const isUnchecked = patch.transform !== null && !checksTransform
        warnOfTransform({ ...saved.destination, transform_check: saved.transform_check, isUnchecked })
      }
      go(laneOf(pipeId, destination))
    },
  })
  const patch = updateBody(draftOf(form.stored), form.draft)
  const twin = command(
    ...['destinations', 'update', destinationName(pipeName, form.stored)],
    ...destinationOptions(type, patch, form.stored.destination_config),
    '--yes',
  )
  return { form, pipeName, patch, twin }
}

function EditForm(props: EditFormProps) {
  const { pipeId, destination } = props
  const { destination_id: id, destination_type: type } = destination
  const { form, pipeName, patch, twin } = useDestinationForm(props)
  const { draft, change, errors, stored } = form
  const table = useTableColumns(pipeId, draft)
  return (
    <form className={formStyles.form} onSubmit={(event) => event.preventDefault()} noValidate>
      <ConfigForm
        draft={draft}
        table={table}
        errors={errors}
        isStored
        propose={
          <ProposeTable
            pipeId={pipeId}
            body={{
              destination_id: id,
              ...(patch.destination_config === undefined
                ? {}
                : { destination_config: patch.destination_config }),
            }}
            onFailure={form.fail}
            onColumns={(columns) => change({ columns })}
          />
        }
        trial={
          <TransformTrial
            pipeId={pipeId}
            pipeName={pipeName}
            draft={draft.transform}
            stored={stored}
            onFailure={form.fail}
          />
        }
        onChange={change}
      />
      <TestAndSave
        pipeId={pipeId}
        body={{ destination_id: id, ...patch }}
        type={type}
        isSaving={form.isSaving}
        failure={form.failure}
        shown={shownPaths(errors, draft)}
        conflict={form.conflict}
        save={(isForced) => form.submit({ checksTransform: !isForced })}
        onFailure={form.fail}
        onTableColumns={table.learn}
      >
        <ButtonLink to={laneOf(pipeId, destination)}>Back to the lane</ButtonLink>
      </TestAndSave>
      <CliTwin command={twin} />
    </form>
  )
}

function laneOf(pipeId: string, { destination_id: id }: Destination): string {
  return `/pipes/${pipeId}/destinations/${id}`
}
