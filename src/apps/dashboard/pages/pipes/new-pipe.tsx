/** A new pipe. Its other settings are on the pipe's settings page. */
import { useCallback } from 'react'
import { useLocation } from 'wouter'
import type { PipeCreate } from '../../../../contract/pipe.ts'
import { command, pipeOptions } from '../../../client/cli-twin.ts'
import { ApiFailure } from '../../../client/failure.ts'
import { api } from '../../data/api.ts'
import { useDraft } from '../../data/draft.ts'
import { useChange } from '../../data/queries.ts'
import { Button, ButtonLink, formStyles } from '../../ui/controls.tsx'
import { failureText, fieldErrors } from '../../ui/failure.tsx'
import { TextArea, TextField } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Page, Section } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { EnrichmentFields, type PipeFields, pipeFieldNames, senderDefaults } from '../pipe/pipe-fields.tsx'

interface Draft {
  pipe_name: string
  pipe_description: string
  fields: PipeFields
}

export function NewPipePage() {
  const [, go] = useLocation()
  const initial = useCallback(
    (): Draft => ({ pipe_name: '', pipe_description: '', fields: senderDefaults }),
    [],
  )
  const [draft, set, forget] = useDraft('new pipe', initial)
  const changed = Object.fromEntries(
    Object.entries(draft.fields).filter(([key, value]) => senderDefaults[key as keyof PipeFields] !== value),
  )
  const body: PipeCreate = {
    pipe_name: draft.pipe_name,
    ...(draft.pipe_description === '' ? {} : { pipe_description: draft.pipe_description }),
    ...changed,
  }
  const { pipe_name: name, ...options } = body
  const twin = command('pipes', 'create', name || 'NAME', ...pipeOptions(options))
  const create = useChange(() => api.call('createPipe', { body }))
  const errors = fieldErrors(create.error)
  const isTaken = create.error instanceof ApiFailure && create.error.code === 'duplicate_pipe_name'
  const nameError = isTaken ? failureText(create.error) : errors.pipe_name
  return (
    <Page title="New pipe" name="New pipe" isForm>
      <form
        className={formStyles.form}
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate(undefined, {
            onSuccess: (reply) => {
              forget()
              say(`Pipe ${name} created.`, twin)
              go(`/pipes/${reply.body.pipe_id}`)
            },
          })
        }}
      >
        <Section title="Pipe">
          <TextField
            label="Name"
            required
            maxLength={100}
            value={draft.pipe_name}
            onValue={(pipe_name) => set({ pipe_name })}
            hint="Letters, digits, hyphens and underscores. The name is fixed: responses, object keys, subjects, metrics and scripts contain it. The description can change."
            error={nameError}
          />
          <TextArea
            label="Description"
            optional
            value={draft.pipe_description}
            onValue={(pipe_description) => set({ pipe_description })}
            error={errors.pipe_description}
          />
        </Section>
        <EnrichmentFields
          fields={draft.fields}
          errors={errors}
          onChange={(next) => set({ fields: { ...draft.fields, ...next } })}
        />
        <FormActions
          failure={create.error}
          shown={['pipe_name', 'pipe_description', ...pipeFieldNames]}
          isAtField={isTaken}
          isSticky
        >
          <Button type="submit" look="primary" changes isBusy={create.isPending}>
            {create.isPending ? 'Creating …' : 'Create pipe'}
          </Button>
          <ButtonLink to="/pipes">Cancel</ButtonLink>
        </FormActions>
        <CliTwin command={twin} />
      </form>
    </Page>
  )
}
