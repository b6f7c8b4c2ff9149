/** Description, senders and enrichment of a pipe. Only changed fields are sent. */
import type { Pipe, PipeUpdate } from '../../../../contract/pipe.ts'
import { command, pipeOptions } from '../../../client/cli-twin.ts'
import { changedKeys } from '../../../client/differences.ts'
import { api } from '../../data/api.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { submitting, useEditForm } from '../../ui/edit-form.tsx'
import { TextArea, TextField } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Section } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { EnrichmentFields, type PipeFields, pipeFieldNames } from './pipe-fields.tsx'

type Fields = PipeFields & { pipe_description: string }
const names = ['pipe_description', ...pipeFieldNames] as const

function fieldsOf(pipe: Pipe): Fields {
  return Object.fromEntries(names.map((name) => [name, pipe[name]])) as unknown as Fields
}

function changesOf(pipe: Pipe, fields: Fields): PipeUpdate {
  const changed = changedKeys(fieldsOf(pipe), fields)
  return Object.fromEntries(changed.map((key) => [key, fields[key as keyof Fields]]))
}

export function PipeForm({ pipe, etag }: { pipe: Pipe; etag: string | null }) {
  const path = { pipe_id: pipe.pipe_id }
  const form = useEditForm({
    initial: { stored: pipe, etag },
    draftOf: fieldsOf,
    part: fieldsOf,
    read: async () => {
      const { body, etag } = await api.call('getPipe', { path })
      return { stored: body.pipe, etag }
    },
    write: async ({ stored, draft, ifMatch }) => {
      const body = changesOf(stored, draft)
      const reply = await api.call('updatePipe', { path, body, ifMatch })
      return { stored: reply.body.pipe, etag: reply.etag, reply }
    },
    onSaved: () => say(`Pipe ${pipe.pipe_name} updated.`, twin),
  })
  const { draft, change, errors, isSaving } = form
  const wanted = changesOf(form.stored, draft)
  const twin = command('pipes', 'update', pipe.pipe_name, ...pipeOptions(wanted))
  const isChanged = Object.keys(wanted).length > 0
  return (
    <form className={formStyles.form} onSubmit={submitting(form.submit)}>
      <Section title="Pipe">
        <TextField
          label="Name"
          readOnly
          value={pipe.pipe_name}
          onValue={() => {}}
          hint="A name is fixed: responses, object keys, subjects, metrics and scripts contain it. Create another pipe to use another name."
        />
        <TextArea
          label="Description"
          optional
          value={draft.pipe_description}
          onValue={(pipe_description) => change({ pipe_description })}
          error={errors.pipe_description}
        />
      </Section>
      <EnrichmentFields fields={draft} errors={errors} onChange={change} />
      <FormActions failure={form.failure} shown={names} conflict={form.conflict} isSticky>
        <Button type="submit" look="primary" changes disabled={!isChanged} isBusy={isSaving}>
          {isSaving ? 'Saving …' : 'Save'}
        </Button>
        <Button disabled={!isChanged} onClick={form.undo}>
          Undo
        </Button>
      </FormActions>
      {isChanged ? <CliTwin command={twin} /> : null}
    </form>
  )
}
