/** Changes the password of the signed-in user, which ends all other sessions. */
import { useState } from 'react'
import { command } from '../../client/cli-twin.ts'
import { dashboard } from '../data/api.ts'
import { useChange } from '../data/queries.ts'
import { queryClient } from '../data/query-client.ts'
import { fieldErrors } from '../ui/failure.tsx'
import { TextField } from '../ui/fields.tsx'
import { FormDialog } from '../ui/form-dialog.tsx'
import { NewPasswordField } from '../ui/new-password-field.tsx'
import { say } from '../ui/toasts.tsx'

export function PasswordDialog({ email, onClose }: { email: string; onClose: () => void }) {
  const [current, setCurrent] = useState('')
  const [password, setPassword] = useState('')
  const save = useChange(() => dashboard.session.changePassword(current, password))
  const errors = fieldErrors(save.error)
  const submit = () =>
    save.mutate(undefined, {
      onSuccess: () => {
        // The session has a new id, and a new CSRF token.
        void queryClient.invalidateQueries({ queryKey: ['session'] })
        say('Password changed. Your other sessions have ended.')
        onClose()
      },
    })
  return (
    <FormDialog
      title="Change your password"
      onClose={onClose}
      onSubmit={submit}
      failure={save.error}
      shown={['current_password', 'password']}
      confirmLabel="Change password"
      runningLabel="Changing …"
      isRunning={save.isPending}
      changes={false}
      command={command('users', 'password', email)}
    >
      <TextField
        label="Current password"
        type="password"
        autoComplete="current-password"
        required
        value={current}
        onValue={setCurrent}
        error={errors.current_password}
      />
      <NewPasswordField label="New password" value={password} onValue={setPassword} error={errors.password} />
    </FormDialog>
  )
}
