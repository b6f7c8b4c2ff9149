/** Sign-in, and the first account with a setup link. Both are pages; sign-in is a dialog too. Not part of other pages. */
import { type FormEvent, useState } from 'react'
import { dashboard } from '../data/api.ts'
import { Button, formStyles } from '../ui/controls.tsx'
import { FailureNotice, fieldErrors } from '../ui/failure.tsx'
import { TextField } from '../ui/fields.tsx'
import { Notice } from '../ui/layout.tsx'
import { NewPasswordField } from '../ui/new-password-field.tsx'
import { FrontPage } from './front-page.tsx'

export function SignInForm({ onDone, email: given = '' }: { onDone: () => Promise<void>; email?: string }) {
  const [email, setEmail] = useState(given)
  const [password, setPassword] = useState('')
  const { submit, failure, isRunning } = useSubmit(() => dashboard.session.signIn(email, password), onDone)
  return (
    <form className={formStyles.form} onSubmit={submit}>
      <TextField
        label="E-mail"
        type="email"
        autoComplete="username"
        required
        value={email}
        onValue={setEmail}
      />
      <TextField
        label="Password"
        type="password"
        autoComplete="current-password"
        required
        value={password}
        onValue={setPassword}
      />
      <FailureNotice failure={signInWords(failure)} />
      <Button type="submit" look="primary" isBusy={isRunning}>
        {isRunning ? 'Signing in …' : 'Sign in'}
      </Button>
    </form>
  )
}

/** The 401 of a wrong password does not mean that a session ended. */
function signInWords(failure: unknown): unknown {
  if (!(failure instanceof Error) || !('body' in failure)) return failure
  const { message } = failure.body as { message?: unknown }
  return typeof message === 'string' ? new Error(message) : failure
}

/** `/dashboard/setup#TOKEN`: the token is a fragment so that it is in no server's log. */
export function SetupPage() {
  const [token] = useState(() => location.hash.slice(1))
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const { submit, failure, isRunning } = useSubmit(
    () => dashboard.session.setUp(token, email, password),
    async () => location.replace(import.meta.env.BASE_URL),
  )
  const errors = fieldErrors(failure)
  if (token === '') {
    return (
      <FrontPage title="Set up">
        <Notice kind="warn">
          This link is incomplete: its token is missing. Open the complete link, or create a new one:{' '}
          <code>pipectl users setup-link</code>
        </Notice>
      </FrontPage>
    )
  }
  return (
    <FrontPage title="Set up your access">
      <form className={formStyles.form} onSubmit={submit}>
        <TextField
          label="E-mail"
          type="email"
          autoComplete="username"
          required
          value={email}
          onValue={setEmail}
          hint="You sign in with it. pipectl never sends e-mail."
          error={errors.email}
        />
        <NewPasswordField
          label="Password"
          value={password}
          onValue={setPassword}
          advice=". A sentence is a good password."
          error={errors.password}
        />
        <FailureNotice failure={signInWords(failure)} shown={['email', 'password']} />
        <Button type="submit" look="primary" isBusy={isRunning}>
          {isRunning ? 'Creating …' : 'Create my account'}
        </Button>
      </form>
    </FrontPage>
  )
}

function useSubmit(run: () => Promise<unknown>, onDone: () => Promise<void>) {
  const [failure, setFailure] = useState<unknown>(null)
  const [isRunning, setRunning] = useState(false)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setRunning(true)
    setFailure(null)
    run()
      .then(onDone)
      .catch(setFailure)
      .finally(() => setRunning(false))
  }
  return { submit, failure, isRunning }
}
