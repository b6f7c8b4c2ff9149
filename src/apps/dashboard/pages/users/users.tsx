/** The users of the dashboard. Only admins see and change them. */
import { useState } from 'react'
import type { User, UserRole } from '../../../../contract/user.ts'
import { command } from '../../../client/cli-twin.ts'
import { dashboard } from '../../data/api.ts'
import { useChange, useUsers } from '../../data/queries.ts'
import { useMayChange, useSession } from '../../data/session-context.ts'
import { Confirm } from '../../ui/confirm.tsx'
import { Button, formStyles } from '../../ui/controls.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { fieldErrors, Loading } from '../../ui/failure.tsx'
import { Choice } from '../../ui/fields.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { Code, type Column, Notice, Page, Section, Table } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { useSorted } from '../../ui/sort.tsx'
import { Ago, exactTime, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { ChangeUser, NewUser, roles } from './user-forms.tsx'

export function UsersPage() {
  const mayChange = useMayChange()
  const [asking, setAsking] = useState<'user' | 'link' | null>(null)
  return (
    <Page
      title="Users"
      name="Users"
      actions={
        <div className={formStyles.actions}>
          <Button changes onClick={() => setAsking('link')}>
            Invite by link
          </Button>
          <Button look="primary" changes onClick={() => setAsking('user')}>
            New user
          </Button>
        </div>
      }
    >
      {mayChange ? <Users /> : <Notice>Only admins can see users.</Notice>}
      {asking === 'user' ? <NewUser onClose={() => setAsking(null)} /> : null}
      {asking === 'link' ? <SetupLink onClose={() => setAsking(null)} /> : null}
    </Page>
  )
}

function Users() {
  const { data: users, error } = useUsers()
  const session = useSession()
  const [changing, setChanging] = useState<User | null>(null)
  const [deleting, setDeleting] = useState<User | null>(null)
  const columns: Column<User>[] = [
    {
      label: 'E-mail',
      cell: (user) => (
        <>
          <Outside text={user.user_email} />
          {user.user_id === session?.user.user_id ? ' (you)' : ''}
        </>
      ),
      sortBy: (user) => user.user_email,
    },
    { label: 'Role', cell: (user) => user.user_role, sortBy: (user) => user.user_role },
    {
      label: 'Last sign-in',
      cell: (user) => <Ago at={user.user_last_sign_in_ts} />,
      sortBy: (user) => user.user_last_sign_in_ts,
    },
    {
      label: 'Created',
      cell: (user) => <Ago at={user.user_created_ts} />,
      sortBy: (user) => user.user_created_ts,
    },
    {
      label: '',
      cell: (user) => (
        <span className={formStyles.actions}>
          <Button changes aria-label={`Change ${user.user_email}`} onClick={() => setChanging(user)}>
            Change
          </Button>
          <Button changes aria-label={`Delete ${user.user_email}`} onClick={() => setDeleting(user)}>
            Delete …
          </Button>
        </span>
      ),
    },
  ]
  const { rows: sorted, sorting, choice } = useSorted(columns, users ?? [])
  const { rows, pager } = usePage(sorted, 'user')
  if (users === undefined) return <Loading error={error} />
  return (
    <Section title="Users">
      {users.length > 1 ? choice : null}
      <Table caption="Users" rows={rows} keyOf={(user) => user.user_id} columns={columns} sorting={sorting} />
      {pager}
      {changing === null ? null : <ChangeUser user={changing} onClose={() => setChanging(null)} />}
      {deleting === null ? null : <DeleteUser user={deleting} onClose={() => setDeleting(null)} />}
    </Section>
  )
}

function DeleteUser({ user, onClose }: { user: User; onClose: () => void }) {
  const remove = useChange(() => dashboard.users.delete(user.user_id))
  const twin = command('users', 'delete', user.user_email, '--yes')
  return (
    <Confirm
      title={
        <>
          Delete <Outside text={user.user_email} />?
        </>
      }
      confirmLabel="Delete the user"
      command={twin}
      run={async () => {
        await remove.mutateAsync()
        say(`User ${user.user_email} deleted.`, twin)
      }}
      onClose={onClose}
    >
      All sessions of this user end immediately. Pipes, keys and records are not affected.
    </Confirm>
  )
}

function SetupLink({ onClose }: { onClose: () => void }) {
  const [role, setRole] = useState<UserRole>('viewer')
  const create = useChange(() => dashboard.users.createSetupLink(role))
  const link = create.data
  if (link === undefined) {
    return (
      <FormDialog
        title="Invite by link"
        onClose={onClose}
        onSubmit={() => create.mutate()}
        failure={create.error}
        shown={['user_role']}
        confirmLabel="Create link"
        runningLabel="Creating …"
        isRunning={create.isPending}
        command={command('users', 'setup-link', '--role', role)}
      >
        <p>The person who opens the link chooses an e-mail address and a password. The link works once.</p>
        <Choice
          label="Role"
          value={role}
          options={roles}
          onValue={setRole}
          error={fieldErrors(create.error).user_role}
        />
      </FormDialog>
    )
  }
  return (
    <Dialog title="Invite by link" open onClose={onClose}>
      <Notice kind="warn">
        Copy the link now: it is shown only once. It expires on {exactTime(link.setup_expires_ts)}.
      </Notice>
      <Code label="Setup link" text={`${location.origin}${link.setup_path}`} />
      <div>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  )
}
