/** API keys: created, shown once, rotated, revoked. */
import { useMemo, useState } from 'react'
import type { ApiKey } from '../../../../contract/api-key.ts'
import { counted, until } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { forMany } from '../../../client/many.ts'
import { api, sessionPaceMs } from '../../data/api.ts'
import { useNow } from '../../data/clock.ts'
import { useOverview } from '../../data/overview.ts'
import { useChange, useKeys } from '../../data/queries.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button } from '../../ui/controls.tsx'
import { Loading } from '../../ui/failure.tsx'
import { type Column, Empty, Page, Section, Soft, Table } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { useSearchField } from '../../ui/search-field.tsx'
import { BulkBar, useSelection, withBoxes } from '../../ui/selection.tsx'
import { useSorted } from '../../ui/sort.tsx'
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
  const [revoking, setRevoking] = useState<readonly ApiKey[] | null>(null)
  const [rotating, setRotating] = useState<ApiKey | null>(null)
  const { text, field } = useSearchField({ placeholder: 'part of a name, or the first characters of a key' })
  const wanted = text.trim().toLowerCase()
  const found = useMemo(
    () => keys.filter((key) => `${key.api_key_name} ${key.api_key_prefix}`.toLowerCase().includes(wanted)),
    [keys, wanted],
  )
  const ownColumns = keyColumns({ onRotate: setRotating, onRevoke: (key) => setRevoking([key]) })
  const { rows: sorted, sorting, choice } = useSorted(ownColumns, found)
  const { rows, pager } = usePage(sorted, 'key')
  const active = rows.filter(isActive)
  const selection = useSelection(active.map((key) => key.api_key_id))
  const hasMany = useMayChange() && keys.filter(isActive).length > 1
  const columns = hasMany
    ? withBoxes(
        ownColumns,
        selection,
        (key) => key.api_key_id,
        (key) => (isActive(key) ? key.api_key_name : null),
      )
    : ownColumns
  return (
    <Section title="Keys">
      {keys.length > 10 || text !== '' ? field : null}
      {found.length === 0 ? (
        <Empty title="No key matches">
          <p>Search for part of a name, or the first characters of a key.</p>
        </Empty>
      ) : (
        <>
          {choice}
          {hasMany ? (
            <BulkBar selection={selection}>
              <Button
                changes
                disabled={selection.ids.length === 0}
                onClick={() => setRevoking(active.filter(({ api_key_id: id }) => selection.isSelected(id)))}
              >
                Revoke {selection.ids.length === 0 ? 'selected' : counted(selection.ids.length, 'key')} …
              </Button>
            </BulkBar>
          ) : null}
          <Table
            caption="API keys"
            rows={rows}
            keyOf={(key) => key.api_key_id}
            columns={columns}
            sorting={sorting}
          />
        </>
      )}
      {pager}
      {rotating === null ? null : <RotateKey apiKey={rotating} onClose={() => setRotating(null)} />}
      {revoking === null ? null : (
        <Revoke keys={revoking} onDone={selection.clear} onClose={() => setRevoking(null)} />
      )}
    </Section>
  )
}

function isActive(key: ApiKey): boolean {
  return key.api_key_status === 'active'
}

function keyColumns({
  onRotate,
  onRevoke,
}: {
  onRotate: (key: ApiKey) => void
  onRevoke: (key: ApiKey) => void
}): Column<ApiKey>[] {
  return [
    {
      label: 'Name',
      cell: (key) => <Outside text={key.api_key_name} />,
      sortBy: (key) => key.api_key_name,
    },
    { label: 'Prefix', cell: (key) => <code>{key.api_key_prefix}</code> },
    {
      label: 'State',
      cell: (key) => <Marked tone={isActive(key) ? 'good' : 'off'}>{key.api_key_status}</Marked>,
      sortBy: (key) => key.api_key_status,
    },
    {
      label: 'Scopes',
      cell: (key) => <Rights apiKey={key} />,
      sortBy: (key) => key.api_key_scopes.join(),
    },
    {
      label: 'Last used',
      cell: (key) => <Ago at={key.api_key_last_used_ts} />,
      sortBy: (key) => key.api_key_last_used_ts,
    },
    {
      label: 'Expires',
      cell: (key) => <Expires at={key.api_key_expires_ts} />,
      sortBy: (key) => key.api_key_expires_ts,
    },
    {
      label: 'Created',
      cell: (key) => <Ago at={key.api_key_created_ts} />,
      sortBy: (key) => key.api_key_created_ts,
    },
    {
      label: '',
      cell: (key) =>
        isActive(key) ? (
          <>
            <Button changes aria-label={`Rotate ${key.api_key_name}`} onClick={() => onRotate(key)}>
              Rotate …
            </Button>
            <Button changes aria-label={`Revoke ${key.api_key_name}`} onClick={() => onRevoke(key)}>
              Revoke …
            </Button>
          </>
        ) : null,
    },
  ]
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

/** The longest list of names in the dialog. */
const namesShown = 10

function Revoke({
  keys,
  onDone,
  onClose,
}: {
  keys: readonly ApiKey[]
  onDone: () => void
  onClose: () => void
}) {
  const revoke = useChange(() =>
    forMany(keys, (key) => api.call('revokeApiKey', { path: { api_key_id: key.api_key_id } }), {
      everyMs: sessionPaceMs,
    }),
  )
  const [first, ...others] = keys
  const twin = keys.map((key) => command('keys', 'revoke', key.api_key_name, '--yes')).join('\n')
  const run = async () => {
    const { outcomes, failures } = await revoke.mutateAsync()
    onDone()
    if (outcomes.length > 0)
      say(
        others.length === 0
          ? `Key ${first?.api_key_name} revoked.`
          : `${counted(outcomes.length, 'key')} revoked.`,
        twin,
      )
    const [failed] = failures
    if (failed !== undefined) throw failed.error
  }
  return (
    <Confirm
      title={
        others.length === 0 ? (
          <>
            Revoke <Outside text={first?.api_key_name ?? ''} />?
          </>
        ) : (
          `Revoke ${counted(keys.length, 'key')}?`
        )
      }
      confirmLabel={others.length === 0 ? 'Revoke the key' : `Revoke ${counted(keys.length, 'key')}`}
      command={twin}
      run={run}
      onClose={onClose}
    >
      {others.length === 0 ? null : (
        <p>
          <Outside text={namesOf(keys)} />
        </p>
      )}
      <p>
        Programs that use {others.length === 0 ? 'it' : 'them'} get 401 with their next request. Accepted
        records are still delivered. This cannot be undone.
      </p>
    </Confirm>
  )
}

function namesOf(keys: readonly ApiKey[]): string {
  const names = keys.slice(0, namesShown).map((key) => key.api_key_name)
  const hidden = keys.length - names.length
  return hidden === 0 ? names.join(', ') : `${names.join(', ')} and ${hidden} more`
}
