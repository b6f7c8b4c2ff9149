/** Description, senders, enrichment: only what was changed is sent. */
import { useState } from 'react'
import type { Pipe, PipeUpdate } from '../../../../contract/pipe.ts'
import { command, pipeOptions } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { changedKeys, requireUnchanged, SaveFailure } from '../../ui/conflict.tsx'
import { Button, formStyles, TextArea } from '../../ui/controls.tsx'
import { fieldErrors } from '../../ui/failure.tsx'
import { CliTwin, Section } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'
import { EnrichmentFields, type PipeFields, pipeFieldNames } from './pipe-fields.tsx'

type Fields = PipeFields & { pipe_description: string }
const names = ['pipe_description', ...pipeFieldNames] as const

function fieldsOf(pipe: Pipe): Fields {
  return Object.fromEntries(names.map((name) => [name, pipe[name]])) as unknown as Fields
}

export function PipeForm({ pipe }: { pipe: Pipe }) {
  // The form keeps the values it began with, whatever the page learns meanwhile: a save compares with them.
  const [before, setBefore] = useState(() => fieldsOf(pipe))
  const [fields, setFields] = useState(before)
  const change = (next: Partial<Fields>) => setFields((now) => ({ ...now, ...next }))
  const wanted = Object.fromEntries(
    changedKeys(before, fields).map((key) => [key, fields[key as keyof Fields]]),
  ) as PipeUpdate
  const save = useChange(async (isForced: boolean) => {
    const { body: now, etag } = await api.call('getPipe', { path: { pipe_id: pipe.pipe_id } })
    const ifMatch = isForced ? null : etag
    if (!isForced) requireUnchanged(before, fieldsOf(now.pipe))
    return (await api.call('updatePipe', { path: { pipe_id: pipe.pipe_id }, body: wanted, ifMatch })).body
      .pipe
  })
  const reset = (to: Pipe) => {
    setBefore(fieldsOf(to))
    setFields(fieldsOf(to))
    save.reset()
  }
  const twin = command('pipes', 'update', pipe.pipe_name, ...pipeOptions(wanted))
  const submit = (isForced: boolean) =>
    save.mutate(isForced, {
      onSuccess: (saved) => {
        reset(saved)
        say(`Pipe ${pipe.pipe_name} is changed.`, twin)
      },
    })
  const errors = fieldErrors(save.error)
  const isChanged = Object.keys(wanted).length > 0
  return (
    <form
      className={formStyles.form}
      onSubmit={(event) => {
        event.preventDefault()
        submit(false)
      }}
    >
      <SaveFailure
        failure={save.error}
        shown={[...names]}
        onOverwrite={() => submit(true)}
        onReload={() =>
          void api.call('getPipe', { path: { pipe_id: pipe.pipe_id } }).then(({ body }) => reset(body.pipe))
        }
      />
      <Section title="Description">
        <TextArea
          label="What the pipe is for"
          optional
          value={fields.pipe_description}
          onValue={(pipe_description) => change({ pipe_description })}
          error={errors.pipe_description}
        />
      </Section>
      <EnrichmentFields fields={fields} errors={errors} onChange={change} />
      <div className={formStyles.actions}>
        <Button type="submit" look="primary" changes disabled={!isChanged || save.isPending}>
          {save.isPending ? 'Saving …' : 'Save'}
        </Button>
        <Button disabled={!isChanged} onClick={() => setFields(before)}>
          Undo
        </Button>
      </div>
      {isChanged ? <CliTwin command={twin} /> : null}
    </form>
  )
}
