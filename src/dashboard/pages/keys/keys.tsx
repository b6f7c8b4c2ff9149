/** API keys: made, shown once, revoked. */
import { useState } from 'react'
import { command } from '../../../client/cli-twin.ts'
import { ApiFailure } from '../../../client/failure.ts'
import type { ApiKey } from '../../../contract/api-key.ts'
import type { SuccessBody } from '../../../contract/operations.ts'
import { api } from '../../data/api.ts'
import { useChange, useKeys } from '../../data/queries.ts'
import { Button, formStyles, TextField } from '../../ui/controls.tsx'
import { Confirm, Dialog } from '../../ui/dialog.tsx'
import { FailureNotice, failureText, fieldErrors } from '../../ui/failure.tsx'
import { CliTwin, Code, Empty, Notice, Page, Section, Skeleton, Soft, Table } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { Marked } from '../../ui/state.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'

export function KeysPage() {
  const { data: keys, error } = useKeys()
  const [isCreating, setCreating] = useState(false)
  return (
    <Page
      title="API keys"
      name="API keys"
      actions={
        <Button look="primary" changes onClick={() => setCreating(true)}>
          New key
        </Button>
      }
    >
      <Soft>A key may do everything in this workspace. Give every program one of its own.</Soft>
      {keys === undefined ? (
        error === null ? (
          <Skeleton />
        ) : (
          <FailureNotice failure={error} />
        )
      ) : (
        <Keys keys={keys} />
      )}
      {isCreating ? <NewKey onClose={() => setCreating(false)} /> : null}
    </Page>
  )
}

function Keys({ keys }: { keys: readonly ApiKey[] }) {
  const [filter, setFilter] = useState('')
  const [revoking, setRevoking] = useState<ApiKey | null>(null)
  const wanted = filter.trim().toLowerCase()
  const found = keys.filter((key) =>
    `${key.api_key_name} ${key.api_key_prefix}`.toLowerCase().includes(wanted),
  )
  const { rows, pager } = usePage(found, 'key')
  return (
    <Section title="Keys">
      {keys.length > 10 ? (
        <TextField label="Search" type="search" value={filter} onValue={setFilter} />
      ) : null}
      {found.length === 0 ? (
        <Empty title="No such key">
          <p>Look for a part of a name, or the first characters of a key.</p>
        </Empty>
      ) : (
        <Table
          caption="API keys"
          rows={rows}
          keyOf={(key) => key.api_key_id}
          columns={[
            { label: 'Name', cell: (key) => <Outside text={key.api_key_name} /> },
            { label: 'Begins with', cell: (key) => <code>{key.api_key_prefix}</code> },
            {
              label: 'State',
              cell: (key) => (
                <Marked kind={key.api_key_status === 'active' ? 'flowing' : 'blocked'}>
                  {key.api_key_status}
                </Marked>
              ),
            },
            { label: 'Made', cell: (key) => <Ago at={key.api_key_created_ts} /> },
            {
              label: '',
              cell: (key) =>
                key.api_key_status === 'active' ? (
                  <Button changes aria-label={`Revoke ${key.api_key_name}`} onClick={() => setRevoking(key)}>
                    Revoke …
                  </Button>
                ) : null,
            },
          ]}
        />
      )}
      {pager}
      {revoking === null ? null : <Revoke apiKey={revoking} onClose={() => setRevoking(null)} />}
    </Section>
  )
}

function Revoke({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const revoke = useChange(() => api.keys.revoke(apiKey.api_key_id))
  const twin = command('keys', 'revoke', apiKey.api_key_name, '--yes')
  return (
    <Confirm
      title={
        <>
          Revoke <Outside text={apiKey.api_key_name} />?
        </>
      }
      deed="Revoke the key"
      command={twin}
      run={async () => {
        await revoke.mutateAsync()
        say(`${apiKey.api_key_name} is revoked.`, twin)
      }}
      onClose={onClose}
    >
      Every program that uses it gets 401 from the next request on. Records that were accepted are still
      delivered. This cannot be undone.
    </Confirm>
  )
}

function NewKey({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('')
  const [made, setMade] = useState<SuccessBody<'createApiKey'> | null>(null)
  const create = useChange(() => api.keys.create({ api_key_name: name }))
  const isDuplicate = create.error instanceof ApiFailure && create.error.code === 'duplicate_api_key_name'
  const error = isDuplicate ? failureText(create.error) : fieldErrors(create.error).api_key_name
  const twin = command('keys', 'create', name || 'NAME')
  if (made !== null) {
    return (
      <Dialog title="Copy the key now" open>
        <Notice kind="warn">This is the only time that it is shown. Only its hash is stored.</Notice>
        <Code label={`Key ${made.api_key_name}`} text={made.api_key} />
        <div>
          <Button look="primary" onClick={onClose}>
            I have copied it
          </Button>
        </div>
      </Dialog>
    )
  }
  return (
    <Dialog title="New API key" open onClose={onClose}>
      <form
        className={formStyles.form}
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate(undefined, { onSuccess: ({ body }) => setMade(body) })
        }}
      >
        {error === undefined ? <FailureNotice failure={create.error} /> : null}
        <TextField
          label="Name"
          required
          value={name}
          onValue={setName}
          hint="Of the program that will use it."
          error={error}
        />
        <div className={formStyles.actions}>
          <Button type="submit" look="primary" changes disabled={create.isPending}>
            {create.isPending ? 'Creating …' : 'Create key'}
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
        <CliTwin command={twin} />
      </form>
    </Dialog>
  )
}
