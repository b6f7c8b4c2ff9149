/** The ingest limits of a pipe and its default batch size. Without limits, ingest is not limited. */
import { useState } from 'react'
import type { Pipe, PipeLimits } from '../../../../contract/pipe.ts'
import { command, limitWords } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import type { Watched } from '../../data/if-unchanged.ts'
import { useChange } from '../../data/queries.ts'
import { ConfirmDelete } from '../../ui/confirm.tsx'
import { Button, formStyles } from '../../ui/controls.tsx'
import { submitting, useEditForm } from '../../ui/edit-form.tsx'
import { TextField } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Section, Soft } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'

/** With the values that the CLI suggests. */
const fields: readonly (readonly [keyof PipeLimits, string, string])[] = [
  ['pl_ingest_max_records_per_request', 'Max records per request', '10000'],
  ['pl_ingest_max_records_per_second', 'Max records per second', '10000'],
  ['pl_ingest_max_records_per_day', 'Max records per day (UTC)', '100000000'],
  ['pl_ingest_max_bytes_per_day', 'Max bytes per day (UTC)', ''],
  ['pl_delivery_max_records_per_flush', 'Max records per batch', '1000'],
  ['pl_delivery_max_bytes_per_flush', 'Max bytes per batch', '4194304'],
  ['pl_delivery_max_seconds_per_flush', 'Max seconds per batch', '1'],
]
const names = fields.map(([name]) => name)
type Texts = Record<keyof PipeLimits, string>

function textsOf(limits: PipeLimits | null): Texts {
  return Object.fromEntries(
    fields.map(([name, , suggested]) => [name, limits === null ? suggested : String(limits[name] ?? '')]),
  ) as Texts
}

/** Text that is not a number is sent unchanged: the API reports the error at the field. */
function limitsOf(texts: Texts): PipeLimits {
  const values = names.map((name) => {
    const text = texts[name].trim()
    if (text === '') return [name, name === 'pl_ingest_max_bytes_per_day' ? null : undefined]
    return [name, Number.isNaN(Number(text)) ? text : Number(text)]
  })
  return Object.fromEntries(values) as PipeLimits
}

export function LimitsForm({
  pipe,
  limits,
  etag,
}: {
  pipe: Pipe
  limits: PipeLimits | null
  etag: string | null
}) {
  const [isOpen, setOpen] = useState(limits !== null)
  const [isClearing, setClearing] = useState(false)
  const path = { pipe_id: pipe.pipe_id }
  const watched: Watched<PipeLimits | null> = {
    part: (stored) => stored ?? {},
    read: async () => {
      const { body, etag } = await api.call('getPipe', { path })
      return { stored: body.limits, etag }
    },
  }
  const form = useEditForm({
    initial: { stored: limits, etag },
    draftOf: textsOf,
    ...watched,
    write: async ({ draft, ifMatch }) => {
      const reply = await api.call('putLimits', { path, body: limitsOf(draft), ifMatch })
      return { stored: reply.body.limits as PipeLimits | null, etag: reply.etag, reply }
    },
    onSaved: () => say(`Limits of ${pipe.pipe_name} saved.`, twin),
  })
  const clear = useChange((ifMatch: string | null) => api.call('deleteLimits', { path, ifMatch }))
  const twin = command('limits', 'set', pipe.pipe_name, ...limitWords(limitsOf(form.draft)))
  const clearTwin = command('limits', 'clear', pipe.pipe_name, '--yes')
  if (!isOpen) {
    return (
      <Section title="Limits">
        <p>No limits: ingest is not limited, and batches have the default size of each destination type.</p>
        <div>
          <Button changes onClick={() => setOpen(true)}>
            Set limits
          </Button>
        </div>
      </Section>
    )
  }
  return (
    <Section title="Limits">
      <form className={formStyles.form} onSubmit={submitting(form.submit)}>
        <div className={formStyles.pair}>
          {fields.map(([name, label]) => (
            <TextField
              key={name}
              label={label}
              inputMode="numeric"
              optional={name === 'pl_ingest_max_bytes_per_day'}
              value={form.draft[name]}
              onValue={(text) => form.change({ [name]: text })}
              error={form.errors[name]}
            />
          ))}
        </div>
        <Soft>
          A request that exceeds a limit is rejected as a whole. Batch limits apply to destinations without
          their own.
        </Soft>
        <FormActions failure={form.failure} shown={names} conflict={form.conflict}>
          <Button type="submit" look="primary" changes isBusy={form.isSaving}>
            {form.isSaving ? 'Saving …' : 'Save limits'}
          </Button>
          {form.stored === null ? (
            <Button onClick={() => setOpen(false)}>Cancel</Button>
          ) : (
            <Button changes onClick={() => setClearing(true)}>
              Remove limits …
            </Button>
          )}
        </FormActions>
        <CliTwin command={twin} />
      </form>
      {isClearing ? (
        <ConfirmDelete
          title="Remove the limits?"
          confirmLabel="Remove"
          command={clearTwin}
          seen={form.base}
          {...watched}
          remove={async (ifMatch) => {
            const { etag } = await clear.mutateAsync(ifMatch)
            form.begin({ stored: null, etag })
            setOpen(false)
            say(`Limits of ${pipe.pipe_name} removed.`, clearTwin)
          }}
          onClose={() => setClearing(false)}
        >
          Ingest is then not limited, and batches have the default size. No record is affected.
        </ConfirmDelete>
      ) : null}
    </Section>
  )
}
