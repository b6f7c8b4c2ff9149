/** The source of a pipe in one form: the address for the provider, its secret, and the content of records. */
import type { Pipe } from '../../../../contract/pipe.ts'
import {
  maxSourceHeaders,
  type SourceType,
  sourceFields,
  sourceWords,
} from '../../../../contract/source-words.ts'
import { sourceCommand } from '../../../client/source-twin.ts'
import { api } from '../../data/api.ts'
import type { Versioned } from '../../data/if-unchanged.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { submitting, useEditForm } from '../../ui/edit-form.tsx'
import type { FieldErrors } from '../../ui/failure.tsx'
import { Check, TextArea, TextField } from '../../ui/fields.tsx'
import { Fold } from '../../ui/fold.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Code, Notice, Soft } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { ConfigFields, errorOf } from '../destination/config-field.tsx'
import { formField, isChanged } from '../destination/fields.ts'
import { Step } from '../destination/step.tsx'
import { type SourceDraft, sourceChange, sourceDraft } from './draft.ts'
import { readPipe, sourcePart } from './source-change.ts'

interface Props {
  seen: Versioned<Pipe>
  type: SourceType
  /** Without a token. */
  url: string
  onChangeProvider: () => void
  /** The token that was made; null: none. */
  onSaved: (token: string | null) => void
}

export function SourceForm(props: Props) {
  const { seen, type, url, onChangeProvider, onSaved } = props
  const path = { pipe_id: seen.stored.pipe_id }
  const form = useEditForm({
    initial: seen,
    draftOf: (pipe: Pipe) => sourceDraft(pipe, type, url),
    part: sourcePart,
    read: () => readPipe(path.pipe_id),
    write: async ({ stored, draft, ifMatch }) => {
      const reply = await api.call('updatePipe', { path, body: sourceChange(stored, draft), ifMatch })
      return { stored: reply.body.pipe, etag: reply.etag, reply: reply.body }
    },
    onSaved: (reply) => {
      say(`Webhooks into ${reply.pipe.pipe_name} saved.`, twin)
      onSaved(reply.pipe_source_token ?? null)
    },
  })
  const { draft, change, errors, stored } = form
  const isNew = stored.pipe_source?.type !== type
  const { title, summary } = sourceWords(type)
  const replaced = isNew && stored.pipe_source !== null ? sourceWords(stored.pipe_source.type).title : null
  const wanted = sourceChange(stored, draft)
  const hasChanged = Object.keys(wanted).length > 0
  const twin = sourceCommand(stored.pipe_name, wanted)
  return (
    <form className={formStyles.form} onSubmit={submitting(form.submit)} noValidate>
      <Step
        number={isNew ? 1 : null}
        title="Provider"
        actions={
          <Button look="plain" changes onClick={onChangeProvider}>
            Change provider
          </Button>
        }
      >
        <div>
          <strong>{title}</strong> <Soft>{summary}</Soft>
        </div>
        {replaced === null ? null : (
          <Notice kind="warn">
            Once this is saved, webhooks of {replaced} are rejected, and its secrets are deleted.
          </Notice>
        )}
      </Step>
      <Connection type={type} url={url} isNew={isNew} draft={draft} errors={errors} onChange={change} />
      <Step number={isNew ? 3 : null} title="Records">
        <TextArea
          label="Headers to keep"
          mono
          optional
          hint={`Names of request headers, one per line, at most ${maxSourceHeaders}. They are written into each record, as an object under the key headers.`}
          value={draft.headers}
          onValue={(headers) => change({ headers })}
          error={errors.pipe_source_headers ?? nestedError(errors, 'pipe_source_headers')}
        />
        <Check
          label="Keep the raw body"
          hint="The body exactly as it was sent, as text under the key raw_body. It doubles the size of the record."
          checked={draft.isRaw}
          onValue={(isRaw) => change({ isRaw })}
          error={errors.pipe_source_raw}
        />
      </Step>
      <FormActions failure={form.failure} shown={shownPaths(errors, type)} conflict={form.conflict}>
        <Button type="submit" look="primary" changes disabled={!hasChanged} isBusy={form.isSaving}>
          {form.isSaving ? 'Saving …' : isNew ? 'Accept webhooks' : 'Save'}
        </Button>
        {isNew ? null : (
          <Button disabled={!hasChanged} onClick={form.undo}>
            Undo
          </Button>
        )}
      </FormActions>
      {hasChanged ? <CliTwin command={twin} /> : null}
    </form>
  )
}

/** The address for the provider, and the secret and settings that it shares with pipectl. */
function Connection({
  type,
  url,
  isNew,
  draft,
  errors,
  onChange,
}: {
  type: SourceType
  url: string
  isNew: boolean
  draft: SourceDraft
  errors: FieldErrors
  onChange: (next: Partial<SourceDraft>) => void
}) {
  const { title, guide, secrets, secretLabel, secretHint } = sourceWords(type)
  const all = sourceFields(type).map(formField)
  const [shown, advanced] = [
    all.filter(({ place }) => place !== 'advanced'),
    all.filter(({ place }) => place === 'advanced'),
  ]
  const show = (fields: typeof all) => (
    <ConfigFields
      fields={fields}
      config={draft.settings}
      errors={errors}
      isStored={!isNew}
      path="pipe_source"
      onConfig={(settings) => onChange({ settings })}
    />
  )
  const isNeeded = advanced.some(
    (field) => isChanged(field, draft.settings) || errorOf(errors, field.key, 'pipe_source') !== undefined,
  )
  return (
    <Step number={isNew ? 2 : null} title={isNew ? 'Connect' : 'Connection'}>
      {secrets === 'generated' ? (
        <Soft>
          {isNew
            ? 'The address has a secret token. It is made and shown once, when you save.'
            : 'The address was shown when it was made, and cannot be shown again. If it is lost, make a new one below.'}
        </Soft>
      ) : (
        <Code
          label={`Address to enter at ${type === 'basic' || type === 'hmac' ? 'the provider' : title}`}
          text={url}
        />
      )}
      {isNew && secrets === 'entered' ? (
        <TextField
          label={secretLabel}
          type="password"
          autoComplete="new-password"
          required
          mono
          hint={secretHint}
          value={draft.secret}
          onValue={(secret) => onChange({ secret })}
          error={errors['pipe_source.secrets'] ?? nestedError(errors, 'pipe_source.secrets')}
        />
      ) : null}
      {show(shown)}
      {advanced.length === 0 ? null : (
        <Fold title="Advanced" about={advanced.map(({ label }) => label).join(' · ')} isNeeded={isNeeded}>
          {show(advanced)}
        </Fold>
      )}
      <Soft>
        See the guide <a href={`/docs/${guide.replace(/\.md$/, '.html')}`}>Webhooks</a>.
      </Soft>
    </Step>
  )
}

function nestedError(errors: FieldErrors, path: string): string | undefined {
  return Object.entries(errors).find(([one]) => one.startsWith(`${path}.`))?.[1]
}

function shownPaths(errors: FieldErrors, type: SourceType): string[] {
  const keys = sourceFields(type).map(([key]) => `pipe_source.${key}`)
  return Object.keys(errors).filter(
    (path) => keys.includes(path) || /^pipe_source(\.secrets|_headers|_raw)(\.|$)/.test(path),
  )
}
