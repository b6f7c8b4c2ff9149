/** The schema of a pipe: edited, proposed from records, compared with its versions, as TypeScript, and removed. */
import type { Pipe } from '../../../../contract/pipe.ts'
import { typesOfSchema } from '../../../../contract/schema-types.ts'
import { mismatchActions } from '../../../../contract/schema-words.ts'
import { command, pipeOptions } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import type { Versioned } from '../../data/if-unchanged.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { submitting, useEditForm } from '../../ui/edit-form.tsx'
import { Choice, TextField } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Code, Section, Soft } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { JsonEditor } from '../parked/editor.tsx'
import { PipeFormPage } from '../pipe/form-page.tsx'
import { ParkedAtPipe } from '../pipe-parked/count.tsx'
import { readPipe } from '../webhooks/source-change.ts'
import { CheckStored, MismatchCounts } from './check.tsx'
import {
  type CheckedSchema,
  changeOf,
  checkedSchema,
  draftOf,
  type SchemaDraft,
  schemaPart,
} from './draft.ts'
import { Proposal } from './proposal.tsx'
import { RemoveSchema } from './remove.tsx'
import { Versions } from './versions.tsx'

export function SchemaPage({ pipeId }: { pipeId: string }) {
  return (
    <PipeFormPage pipeId={pipeId} title="Schema of" lines={12}>
      {({ pipe, etag }) => <Schema seen={{ stored: pipe, etag }} />}
    </PipeFormPage>
  )
}

function useSchemaForm(seen: Versioned<Pipe>) {
  const { pipe_id, pipe_name } = seen.stored
  return useEditForm({
    initial: seen,
    draftOf,
    part: schemaPart,
    read: () => readPipe(pipe_id),
    write: async ({ stored, draft, ifMatch }) => {
      const body = changeOf(stored, draft, checkedSchema(draft.text)) ?? {}
      const reply = await api.call('updatePipe', { path: { pipe_id }, body, ifMatch })
      return { stored: reply.body.pipe, etag: reply.etag, reply }
    },
    onSaved: () => say(`Schema of pipe ${pipe_name} saved.`),
  })
}

function Schema({ seen }: { seen: Versioned<Pipe> }) {
  const form = useSchemaForm(seen)
  const { draft, change, stored } = form
  const checked = checkedSchema(draft.text)
  const wanted = changeOf(stored, draft, checked)
  const setText = (text: string) => change({ text })
  return (
    <>
      <Soft>
        Each record is checked as the client sent it, before the pipe adds keys. Without a schema the pipe
        accepts every JSON object.
      </Soft>
      <ParkedAtPipe pipeId={stored.pipe_id} />
      <Proposal pipe={stored} isChanged={draft.text !== draftOf(stored).text} onSchema={setText} />
      <SchemaForm form={form} checked={checked} wanted={wanted} onText={setText} />
      {stored.pipe_schema === null ? null : <MismatchCounts pipeId={stored.pipe_id} />}
      {checked.schema === null ? null : (
        <>
          <CheckStored pipe={stored} schema={checked.schema} />
          <Section title="TypeScript types">
            <Code label="TypeScript" text={typesOfSchema(checked.schema, stored.pipe_name)} />
          </Section>
        </>
      )}
      <Versions pipe={stored} text={draft.text} onUse={setText} />
      {stored.pipe_schema === null ? null : <RemoveSchema seen={form.base} onRemoved={form.begin} />}
    </>
  )
}

interface FormProps {
  form: ReturnType<typeof useSchemaForm>
  checked: CheckedSchema
  wanted: ReturnType<typeof changeOf>
  onText: (text: string) => void
}

const outcomes = {
  reject: 'Reject the request',
  park: 'Park the record',
  tag: 'Accept it with its errors',
} as const
const shownFields = ['pipe_schema_on_mismatch', 'pipe_schema_tag_field']

function SchemaForm({ form, checked, wanted, onText }: FormProps) {
  const mayChange = useMayChange()
  const { draft, change, errors, isSaving, stored } = form
  const isChanged = wanted === null || Object.keys(wanted).length > 0
  return (
    <form className={formStyles.form} onSubmit={submitting(form.submit)}>
      <Section title="Schema">
        <JsonEditor
          label="JSON Schema"
          value={draft.text}
          readOnly={!mayChange}
          fault={checked.fault}
          onValue={onText}
        />
        <Problems problems={checked.problems} />
        <Mismatch draft={draft} errors={errors} onChange={change} />
      </Section>
      <FormActions failure={form.failure} shown={shownFields} conflict={form.conflict} isSticky>
        <Button
          type="submit"
          look="primary"
          changes
          disabled={wanted === null || !isChanged}
          isBusy={isSaving}
        >
          {isSaving ? 'Saving …' : 'Save'}
        </Button>
        <Button disabled={!isChanged} onClick={form.undo}>
          Undo
        </Button>
      </FormActions>
      {wanted !== null && isChanged ? <CliTwin command={twinOf(stored, wanted)} /> : null}
    </form>
  )
}

function Problems({ problems }: { problems: readonly string[] }) {
  if (problems.length === 0) return null
  return (
    <ul aria-label="Errors in the schema">
      {problems.map((problem) => (
        <li key={problem}>
          <Outside text={problem} />
        </li>
      ))}
    </ul>
  )
}

function Mismatch({
  draft,
  errors,
  onChange,
}: {
  draft: SchemaDraft
  errors: Record<string, string>
  onChange: (next: Partial<SchemaDraft>) => void
}) {
  return (
    <>
      <Choice
        label="A record that does not match"
        value={draft.onMismatch}
        options={mismatchActions.map((action) => [action, outcomes[action]] as const)}
        onValue={(onMismatch) => onChange({ onMismatch })}
        error={errors.pipe_schema_on_mismatch}
      />
      {draft.onMismatch === 'tag' ? (
        <TextField
          label="Key of the errors"
          value={draft.tagField}
          onValue={(tagField) => onChange({ tagField })}
          error={errors.pipe_schema_tag_field}
          mono
        />
      ) : null}
    </>
  )
}

function twinOf({ pipe_name }: Pipe, wanted: object): string {
  const schema = Reflect.get(wanted, 'pipe_schema')
  const file = schema === undefined ? [] : ['--schema', schema === null ? 'none' : 'schema.json']
  return command('pipes', 'update', pipe_name, ...file, ...pipeOptions(wanted))
}
