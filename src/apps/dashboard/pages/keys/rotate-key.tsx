/**
 * Replaces a key with a new one with the same scopes. The old key works for some more time, so that no request fails.
 */
import { useState } from 'react'
import type { ApiKey } from '../../../../contract/api-key.ts'
import type { SuccessBody } from '../../../../contract/operations.ts'
import { command } from '../../../client/cli-twin.ts'
import { ApiFailure } from '../../../client/failure.ts'
import { nextName } from '../../../client/key-name.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { failureText, fieldErrors } from '../../ui/failure.tsx'
import { Choice, TextField } from '../../ui/fields.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { Soft } from '../../ui/layout.tsx'
import { exactTime, Outside } from '../../ui/text.tsx'
import { MadeKey } from './made-key.tsx'

/** Seconds, and the value for the command. */
const overlaps = [
  ['604800', 'for 7 days', '7d'],
  ['86400', 'for a day', '1d'],
  ['3600', 'for an hour', '1h'],
  ['0', 'not at all: it was leaked', '0'],
] as const
type Overlap = (typeof overlaps)[number][0]

export function RotateKey({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const [name, setName] = useState(() => nextName(apiKey.api_key_name, new Date()))
  const [overlap, setOverlap] = useState<Overlap>('604800')
  const [made, setMade] = useState<SuccessBody<'rotateApiKey'> | null>(null)
  const rotate = useChange(() =>
    api.call('rotateApiKey', {
      path: { api_key_id: apiKey.api_key_id },
      body: { api_key_name: name, overlap_seconds: Number(overlap) },
    }),
  )
  const isDuplicate = rotate.error instanceof ApiFailure && rotate.error.code === 'duplicate_api_key_name'
  const words = overlaps.find(([seconds]) => seconds === overlap)?.[2] ?? '7d'
  const twin = command('keys', 'rotate', apiKey.api_key_name, '--name', name, '--overlap', words, '--yes')
  if (made !== null) {
    const until = made.replaced.api_key_expires_ts
    return (
      <MadeKey made={made} onClose={onClose}>
        <Soft>
          <Outside text={apiKey.api_key_name} />{' '}
          {overlap === '0' || until === null ? 'is revoked.' : `works until ${exactTime(until)}.`}
        </Soft>
      </MadeKey>
    )
  }
  return (
    <FormDialog
      title={
        <>
          Rotate <Outside text={apiKey.api_key_name} />?
        </>
      }
      onClose={onClose}
      onSubmit={() => rotate.mutate(undefined, { onSuccess: ({ body }) => setMade(body) })}
      failure={rotate.error}
      isAtField={isDuplicate}
      shown={['api_key_name', 'overlap_seconds']}
      confirmLabel="Create the new key"
      runningLabel="Rotating …"
      isRunning={rotate.isPending}
      isDanger={overlap === '0'}
      command={twin}
    >
      <p>
        The new key has the same scopes and the same expiry. Give it to the program before the old one stops
        working.
      </p>
      <TextField
        label="Name of the new key"
        required
        value={name}
        onValue={setName}
        error={isDuplicate ? failureText(rotate.error) : fieldErrors(rotate.error).api_key_name}
      />
      <Choice
        label="The old key still works"
        value={overlap}
        options={overlaps.map(([seconds, label]) => [seconds, label] as const)}
        onValue={setOverlap}
        error={fieldErrors(rotate.error).overlap_seconds}
      />
    </FormDialog>
  )
}
