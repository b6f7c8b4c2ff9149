/** Creates a key with a name, scopes, pipes and an expiry. It is shown only once. */
import { useState } from 'react'
import type { ApiKeyCreate, ApiKeyScope } from '../../../../contract/api-key.ts'
import type { SuccessBody } from '../../../../contract/operations.ts'
import { dayMs } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { ApiFailure } from '../../../client/failure.ts'
import { api } from '../../data/api.ts'
import { useOverview } from '../../data/overview.ts'
import { useChange } from '../../data/queries.ts'
import { formStyles } from '../../ui/controls.tsx'
import { failureText, fieldErrors } from '../../ui/failure.tsx'
import { Check, Choice, TextField } from '../../ui/fields.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { MadeKey } from './made-key.tsx'

const scopes: readonly (readonly [ApiKeyScope, string, string])[] = [
  ['ingest', 'Send records', 'For apps and devices. Such a key can do nothing else.'],
  ['pull', 'Pull messages', 'For consumers of pull destinations.'],
  ['read', 'Read', 'See everything, change nothing.'],
  ['manage', 'Manage', 'Everything, including the other scopes and API keys.'],
]
const lifetimes = [
  ['', 'never'],
  ['30', 'after 30 days'],
  ['90', 'after 90 days'],
  ['365', 'after a year'],
] as const
type Lifetime = (typeof lifetimes)[number][0]

interface Props {
  /** The pipe that is selected initially. */
  pipeId?: string
  /** Receives the key itself, once. */
  onMade?: (key: string) => void
  onClose: () => void
}

export function NewKey({ pipeId: forPipeId = '', onMade, onClose }: Props) {
  const [name, setName] = useState('')
  const [chosen, setChosen] = useState<readonly ApiKeyScope[]>(['ingest'])
  const [pipeId, setPipeId] = useState(forPipeId)
  const [days, setDays] = useState<Lifetime>('')
  const [made, setMade] = useState<SuccessBody<'createApiKey'> | null>(null)
  const pipes = useOverview().data?.pipes ?? []
  const create = useChange(() => api.call('createApiKey', { body: bodyOf(name, chosen, pipeId, days) }))
  const isDuplicate = create.error instanceof ApiFailure && create.error.code === 'duplicate_api_key_name'
  const errors = fieldErrors(create.error)
  const pipeName = pipes.find((pipe) => pipe.pipe_id === pipeId)?.pipe_name ?? pipeId
  const twin = twinOf(name, chosen, pipeName, days)
  if (made !== null) return <MadeKey made={made} onClose={onClose} />
  const show = (key: SuccessBody<'createApiKey'>) => {
    setMade(key)
    onMade?.(key.api_key)
  }
  const choose = (scope: ApiKeyScope, isChosen: boolean) =>
    setChosen(scopes.map(([one]) => one).filter((one) => (one === scope ? isChosen : chosen.includes(one))))
  return (
    <FormDialog
      title="New API key"
      onClose={onClose}
      onSubmit={() => create.mutate(undefined, { onSuccess: ({ body }) => show(body) })}
      failure={create.error}
      isAtField={isDuplicate}
      shown={['api_key_name', 'api_key_scopes', 'api_key_expires_ts']}
      confirmLabel="Create key"
      runningLabel="Creating …"
      isRunning={create.isPending}
      command={twin}
    >
      <TextField
        label="Name"
        required
        value={name}
        onValue={setName}
        hint="The program that will use it."
        error={isDuplicate ? failureText(create.error) : errors.api_key_name}
      />
      <fieldset className={formStyles.form}>
        <legend>Scopes</legend>
        {scopes.map(([scope, label, hint]) => (
          <Check
            key={scope}
            label={label}
            hint={hint}
            checked={chosen.includes(scope)}
            onValue={(isChosen) => choose(scope, isChosen)}
            error={scope === 'manage' ? errors.api_key_scopes : undefined}
          />
        ))}
      </fieldset>
      <Choice
        label="Pipes"
        value={pipeId}
        options={[['', 'all pipes, including future ones'], ...pipes.map(pipeOption)]}
        onValue={setPipeId}
        error={errors.api_key_pipe_ids}
      />
      <Choice
        label="Expires"
        value={days}
        options={lifetimes}
        onValue={setDays}
        error={errors.api_key_expires_ts}
      />
    </FormDialog>
  )
}

function pipeOption({
  pipe_id,
  pipe_name,
}: {
  pipe_id: string
  pipe_name: string
}): readonly [string, string] {
  return [pipe_id, `only ${pipe_name}`]
}

function bodyOf(name: string, scopes: readonly ApiKeyScope[], pipeId: string, days: Lifetime): ApiKeyCreate {
  return {
    api_key_name: name,
    api_key_scopes: [...scopes],
    api_key_pipe_ids: pipeId === '' ? null : [pipeId],
    api_key_expires_ts: days === '' ? null : new Date(Date.now() + Number(days) * dayMs).toISOString(),
  }
}

/** `pipeName`: '' for a key of all pipes. */
function twinOf(name: string, scopes: readonly ApiKeyScope[], pipeName: string, days: Lifetime) {
  return command(
    ...['keys', 'create', name || 'NAME'],
    ...scopes.flatMap((scope) => ['--scope', scope]),
    ...(pipeName === '' ? [] : ['--pipe', pipeName]),
    ...(days === '' ? [] : ['--expires', `${days}d`]),
  )
}
