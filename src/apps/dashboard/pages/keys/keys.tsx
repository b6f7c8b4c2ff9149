/** API keys: created, shown once, rotated, revoked. */
import { useState } from 'react'
import type { ApiKey } from '../../../../contract/api-key.ts'
import { until } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { api } from '../../data/api.ts'
import { useNow } from '../../data/clock.ts'
import { useOverview } from '../../data/overview.ts'
import { useChange, useKeys } from '../../data/queries.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, TextField } from '../../ui/controls.tsx'
import { Loading } from '../../ui/failure.tsx'
import { Empty, Page, Section, Soft, Table } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { Marked } from '../../ui/state.tsx'
import { Ago, exactTime, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { NewKey } from './new-key.tsx'
import { RotateKey } from './rotate-key.tsx'

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
      <Soft>Give each program its own key, with only the scopes that it needs.</Soft>
      {keys === undefined ? <Loading error={error} /> : <Keys keys={keys} />}
      {isCreating ? <NewKey onClose={() => setCreating(false)} /> : null}
    </Page>
  )
}

function Keys({ keys }: { keys: readonly ApiKey[] }) {
  const [filter, setFilter] = useState('')
  const [revoking, setRevoking] = useState<ApiKey | null>(null)
  const [rotating, setRotating] = useState<ApiKey | null>(null)
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
        <Empty title="No key matches">
          <p>Search for part of a name, or the first characters of a key.</p>
        </Empty>
      ) : (
        <Table
          caption="API keys"
          rows={rows}
          keyOf={(key) => key.api_key_id}
          columns={[
            { label: 'Name', cell: (key) => <Outside text={key.api_key_name} /> },
            { label: 'Prefix', cell: (key) => <code>{key.api_key_prefix}</code> },
            {
              label: 'State',
              cell: (key) => (
                <Marked tone={key.api_key_status === 'active' ? 'good' : 'off'}>{key.api_key_status}</Marked>
              ),
            },
            { label: 'Scopes', cell: (key) => <Rights apiKey={key} /> },
            { label: 'Last used', cell: (key) => <Ago at={key.api_key_last_used_ts} /> },
            { label: 'Expires', cell: (key) => <Expires at={key.api_key_expires_ts} /> },
            { label: 'Created', cell: (key) => <Ago at={key.api_key_created_ts} /> },
            {
              label: '',
              cell: (key) =>
                key.api_key_status === 'active' ? (
                  <>
                    <Button
                      changes
                      aria-label={`Rotate ${key.api_key_name}`}
                      onClick={() => setRotating(key)}
                    >
                      Rotate …
                    </Button>
                    <Button
                      changes
                      aria-label={`Revoke ${key.api_key_name}`}
                      onClick={() => setRevoking(key)}
                    >
                      Revoke …
                    </Button>
                  </>
                ) : null,
            },
          ]}
        />
      )}
      {pager}
      {rotating === null ? null : <RotateKey apiKey={rotating} onClose={() => setRotating(null)} />}
      {revoking === null ? null : <Revoke apiKey={revoking} onClose={() => setRevoking(null)} />}
    </Section>
  )
}

function Rights({ apiKey: { api_key_scopes: scopes, api_key_pipe_ids: pipeIds } }: { apiKey: ApiKey }) {
  const pipes = useOverview().data?.pipes ?? []
  if (pipeIds === null) return scopes.join(', ')
  const names = pipeIds.map((id) => pipes.find((pipe) => pipe.pipe_id === id)?.pipe_name ?? 'a deleted pipe')
  return (
    <span title={names.join(', ')}>
      {scopes.join(', ')} in{' '}
      {names.length === 1 ? <Outside text={names[0] ?? ''} /> : `${names.length} pipes`}
    </span>
  )
}

function Expires({ at }: { at: string | null }) {
  const nowMs = useNow()
  return at === null ? 'never' : <time title={exactTime(at)}>{until(at, nowMs)}</time>
}

function Revoke({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const revoke = useChange(() => api.call('revokeApiKey', { path: { api_key_id: apiKey.api_key_id } }))
  const twin = command('keys', 'revoke', apiKey.api_key_name, '--yes')
  return (
    <Confirm
      title={
        <>
          Revoke <Outside text={apiKey.api_key_name} />?
        </>
      }
      confirmLabel="Revoke the key"
      command={twin}
      run={async () => {
        await revoke.mutateAsync()
        say(`Key ${apiKey.api_key_name} revoked.`, twin)
      }}
      onClose={onClose}
    >
      Programs that use it get 401 with their next request. Accepted records are still delivered. This cannot
      be undone.
    </Confirm>
  )
}
