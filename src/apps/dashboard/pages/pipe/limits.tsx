/** How much a pipe takes, and how its batches are cut. Without limits ingest is not limited. */
import { useState } from 'react'
import type { Pipe, PipeLimits } from '../../../../contract/pipe.ts'
import { command, limitWords } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { requireUnchanged, SaveFailure } from '../../ui/conflict.tsx'
import { Button, formStyles, TextField } from '../../ui/controls.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { fieldErrors } from '../../ui/failure.tsx'
import { CliTwin, Section, Soft } from '../../ui/layout.tsx'
import { say } from '../../ui/toasts.tsx'

/** With what the command line suggests the first time. */
const fields: readonly (readonly [keyof PipeLimits, string, string])[] = [
  ['pl_ingest_max_records_per_request', 'Records per request', '10000'],
  ['pl_ingest_max_records_per_second', 'Records per second', '10000'],
  ['pl_ingest_max_records_per_day', 'Records per day (UTC)', '100000000'],
  ['pl_ingest_max_bytes_per_day', 'Bytes per day (UTC)', ''],
  ['pl_delivery_max_records_per_flush', 'Records that close a batch', '1000'],
  ['pl_delivery_max_bytes_per_flush', 'Bytes that close a batch', '4194304'],
  ['pl_delivery_max_seconds_per_flush', 'Seconds that close a batch', '1'],
]
const names = fields.map(([name]) => name)
type Texts = Record<keyof PipeLimits, string>

function textsOf(limits: PipeLimits | null): Texts {
  return Object.fromEntries(
    fields.map(([name, , suggested]) => [name, limits === null ? suggested : String(limits[name] ?? '')]),
  ) as Texts
}

/** Text that is not a number is sent as it is: the API rejects it with an error at the field. */
function limitsOf(texts: Texts): PipeLimits {
  const values = names.map((name) => {
    const text = texts[name].trim()
    if (text === '') return [name, name === 'pl_ingest_max_bytes_per_day' ? null : undefined]
    return [name, Number.isNaN(Number(text)) ? text : Number(text)]
  })
  return Object.fromEntries(values) as PipeLimits
}

export function LimitsForm({ pipe, limits }: { pipe: Pipe; limits: PipeLimits | null }) {
  const [before, setBefore] = useState(limits)
  const [texts, setTexts] = useState(() => textsOf(limits))
  const [isOpen, setOpen] = useState(limits !== null)
  const [isClearing, setClearing] = useState(false)
  const body = limitsOf(texts)
  const save = useChange(async (isForced: boolean) => {
    const { body: now, etag } = await api.call('getPipe', { path: { pipe_id: pipe.pipe_id } })
    const ifMatch = isForced ? null : etag
    if (!isForced) requireUnchanged(before ?? {}, now.limits ?? {})
    return (await api.call('putLimits', { path: { pipe_id: pipe.pipe_id }, body, ifMatch })).body.limits
  })
  const clear = useChange(() => api.call('deleteLimits', { path: { pipe_id: pipe.pipe_id } }))
  const reset = (to: PipeLimits | null) => {
    setBefore(to)
    setTexts(textsOf(to))
    save.reset()
  }
  const twin = command('limits', 'set', pipe.pipe_name, ...limitWords(body))
  const clearTwin = command('limits', 'clear', pipe.pipe_name, '--yes')
  const submit = (isForced: boolean) =>
    save.mutate(isForced, {
      onSuccess: (saved) => {
        reset(saved)
        say(`Limits of ${pipe.pipe_name} are set.`, twin)
      },
    })
  const errors = fieldErrors(save.error)
  if (!isOpen) {
    return (
      <Section title="Limits">
        <p>None: ingest is not limited, and each kind of destination cuts batches by its defaults.</p>
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
      <form
        className={formStyles.form}
        onSubmit={(event) => {
          event.preventDefault()
          submit(false)
        }}
      >
        <SaveFailure
          failure={save.error}
          shown={names}
          onOverwrite={() => submit(true)}
          onReload={() =>
            void api
              .call('getPipe', { path: { pipe_id: pipe.pipe_id } })
              .then(({ body: now }) => reset(now.limits))
          }
        />
        <div className={formStyles.pair}>
          {fields.map(([name, label]) => (
            <TextField
              key={name}
              label={label}
              inputMode="numeric"
              optional={name === 'pl_ingest_max_bytes_per_day'}
              value={texts[name]}
              onValue={(text) => setTexts((now) => ({ ...now, [name]: text }))}
              error={errors[name]}
            />
          ))}
        </div>
        <Soft>
          A request over a limit is rejected as a whole. Batch limits hold for destinations without their own.
        </Soft>
        <div className={formStyles.actions}>
          <Button type="submit" look="primary" changes disabled={save.isPending}>
            {save.isPending ? 'Saving …' : 'Save limits'}
          </Button>
          {before === null ? (
            <Button onClick={() => setOpen(false)}>Cancel</Button>
          ) : (
            <Button changes onClick={() => setClearing(true)}>
              Remove limits …
            </Button>
          )}
        </div>
        <CliTwin command={twin} />
      </form>
      {isClearing ? (
        <Confirm
          title="Remove the limits?"
          deed="Remove"
          command={clearTwin}
          run={async () => {
            await clear.mutateAsync()
            reset(null)
            setOpen(false)
            say(`${pipe.pipe_name} has no limits.`, clearTwin)
          }}
          onClose={() => setClearing(false)}
        >
          Ingest is then not limited, and batches are cut by the defaults. No record is affected.
        </Confirm>
      ) : null}
    </Section>
  )
}
