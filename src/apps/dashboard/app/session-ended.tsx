/** The dialog of a session that has ended. The page behind it stays as it is. */
import { Dialog } from '../ui/dialog.tsx'
import { SignInForm } from './sign-in.tsx'

export function SessionEnded({ email, onDone }: { email: string; onDone: () => Promise<void> }) {
  return (
    <Dialog title="Your session has ended" open top>
      <p>Sign in to continue. What you typed is kept.</p>
      <SignInForm onDone={onDone} email={email} />
    </Dialog>
  )
}
