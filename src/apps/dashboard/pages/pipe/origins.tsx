/** Browser origins that can send to a pipe. */
import { useState } from 'react'
import type { AllowedOrigin } from '../../../../contract/pipe.ts'
import { command } from '../../../client/cli-twin.ts'
import type { PipeDetail } from '../../../client/client.ts'
import { ApiFailure } from '../../../client/failure.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, formStyles } from '../../ui/controls.tsx'
import { failureText, fieldErrors } from '../../ui/failure.tsx'
import { TextField } from '../../ui/fields.tsx'
import { FormActions } from '../../ui/form-actions.tsx'
import { CliTwin, Section, Soft, Table } from '../../ui/layout.tsx'
import { Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'

export function Origins({ detail: { pipe, allowed_origins: origins } }: { detail: PipeDetail }) {
  const [origin, setOrigin] = useState('')
  const [removing, setRemoving] = useState<AllowedOrigin | null>(null)
  const add = useChange(() =>
    api.call('addAllowedOrigin', { path: { pipe_id: pipe.pipe_id }, body: { origin_domain: origin.trim() } }),
  )
  const remove = useChange((id: string) =>
    api.call('removeAllowedOrigin', { path: { pipe_id: pipe.pipe_id, origin_id: id } }),
  )
  const twin = command('origins', 'add', pipe.pipe_name, origin.trim() || 'https://example.com')
  const isDuplicate = add.error instanceof ApiFailure && add.error.code === 'duplicate_origin'
  const error = isDuplicate ? failureText(add.error) : fieldErrors(add.error).origin_domain
  const removeTwin = command('origins', 'remove', pipe.pipe_name, removing?.origin_domain ?? '')
  return (
    <Section title="Allowed browser origins">
      {pipe.pipe_allow_any_browser_origin ? (
        <Soft>Browsers of any origin can send to this pipe, so this list is not used.</Soft>
      ) : null}
      {origins.length === 0 ? (
        <p>
          None.{' '}
          {pipe.pipe_api_key_required
            ? 'With a key, browsers of any origin can send.'
            : 'Without a key and without an origin no one can send: add the origin of your site.'}
        </p>
      ) : (
        <Table
          caption="Allowed origins"
          rows={origins}
          keyOf={(one) => one.pipe_allowed_origin_id}
          columns={[
            { label: 'Origin', cell: (one) => <Outside text={one.origin_domain} /> },
            {
              label: '',
              cell: (one) => (
                <Button changes aria-label={`Remove ${one.origin_domain}`} onClick={() => setRemoving(one)}>
                  Remove …
                </Button>
              ),
            },
          ]}
        />
      )}
      <form
        className={formStyles.form}
        onSubmit={(event) => {
          event.preventDefault()
          add.mutate(undefined, {
            onSuccess: () => {
              say(`${origin.trim()} can send to ${pipe.pipe_name}.`, twin)
              setOrigin('')
            },
          })
        }}
      >
        <TextField
          label="Add an origin"
          placeholder="https://example.com"
          value={origin}
          onValue={setOrigin}
          hint="Scheme, host and, if it is not the default, port. No path."
          error={error}
        />
        <FormActions failure={add.error} shown={['origin_domain']} isAtField={isDuplicate}>
          <Button type="submit" changes disabled={origin.trim() === ''} isBusy={add.isPending}>
            Allow
          </Button>
        </FormActions>
        {origin.trim() === '' ? null : <CliTwin command={twin} />}
      </form>
      {removing === null ? null : (
        <Confirm
          title={
            <>
              Remove <Outside text={removing.origin_domain} />?
            </>
          }
          confirmLabel="Remove"
          command={removeTwin}
          run={async () => {
            await remove.mutateAsync(removing.pipe_allowed_origin_id)
            say(`${removing.origin_domain} can no longer send.`, removeTwin)
          }}
          onClose={() => setRemoving(null)}
        >
          Pages of this origin then get 403. Accepted records are still delivered.
        </Confirm>
      )}
    </Section>
  )
}
