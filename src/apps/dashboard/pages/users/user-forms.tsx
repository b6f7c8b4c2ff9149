/** The forms to create and change a user. */
import { useState } from 'react'
import type { User, UserRole } from '../../../../contract/user.ts'
import { command } from '../../../client/cli-twin.ts'
import { ApiFailure } from '../../../client/failure.ts'
import { dashboard } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { failureText, fieldErrors } from '../../ui/failure.tsx'
import { Choice, TextField } from '../../ui/fields.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { NewPasswordField } from '../../ui/new-password-field.tsx'
import { Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'

export const roles: readonly (readonly [UserRole, string])[] = [
  ['viewer', 'viewer: read-only'],
  ['admin', 'admin: full access'],
]

export function NewUser({ onClose }: { onClose: () => void }) {
  const [email, setEmail] = useState('')
  const [role, setRole] = useState<UserRole>('viewer')
  const [password, setPassword] = useState('')
  const create = useChange(() => dashboard.users.create({ user_email: email, user_role: role, password }))
  const isDuplicate = create.error instanceof ApiFailure && create.error.code === 'duplicate_user_email'
  const twin = command('users', 'create', email || 'EMAIL', '--role', role)
  const errors = fieldErrors(create.error)
  const submit = () =>
    create.mutate(undefined, {
      onSuccess: () => {
        say(`User ${email} created.`, twin)
        onClose()
      },
    })
  return (
    <FormDialog
      title="New user"
      onClose={onClose}
      onSubmit={submit}
      failure={create.error}
      isAtField={isDuplicate}
      shown={['user_email', 'user_role', 'password']}
      confirmLabel="Create user"
      runningLabel="Creating …"
      isRunning={create.isPending}
      command={twin}
    >
      <TextField
        label="E-mail"
        type="email"
        required
        value={email}
        onValue={setEmail}
        error={isDuplicate ? failureText(create.error) : errors.user_email}
      />
      <Choice label="Role" value={role} options={roles} onValue={setRole} error={errors.user_role} />
      <NewPasswordField
        label="Password"
        value={password}
        onValue={setPassword}
        advice=". The user can change it later."
        error={errors.password}
      />
    </FormDialog>
  )
}

export function ChangeUser({ user, onClose }: { user: User; onClose: () => void }) {
  const [role, setRole] = useState<UserRole>(user.user_role)
  const [password, setPassword] = useState('')
  const body = {
    ...(role === user.user_role ? {} : { user_role: role }),
    ...(password === '' ? {} : { password }),
  }
  const twin = [
    ...(role === user.user_role ? [] : [command('users', 'role', user.user_email, role)]),
    ...(password === '' ? [] : [command('users', 'password', user.user_email)]),
  ].join('\n')
  const save = useChange(() => dashboard.users.update(user.user_id, body))
  const errors = fieldErrors(save.error)
  const submit = () =>
    save.mutate(undefined, {
      onSuccess: () => {
        say(`User ${user.user_email} updated. The user must sign in again.`, twin)
        onClose()
      },
    })
  return (
    <FormDialog
      title={<Outside text={user.user_email} />}
      onClose={onClose}
      onSubmit={submit}
      failure={save.error}
      shown={['user_role', 'password']}
      confirmLabel="Save"
      runningLabel="Saving …"
      isRunning={save.isPending}
      isDisabled={Object.keys(body).length === 0}
      command={twin}
    >
      <p>Saving ends all sessions of this user.</p>
      <Choice label="Role" value={role} options={roles} onValue={setRole} error={errors.user_role} />
      <NewPasswordField
        label="New password"
        optional
        value={password}
        onValue={setPassword}
        error={errors.password}
      />
    </FormDialog>
  )
}
