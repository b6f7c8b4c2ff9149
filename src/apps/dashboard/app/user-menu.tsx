/** The menu of the signed-in user: theme, password, sign-out. */
import { lazy, Suspense, useState } from 'react'
import { useSession } from '../data/session-context.ts'
import { signOut } from '../data/sign-out.ts'
import { Outside } from '../ui/text.tsx'
import styles from './shell.module.css'
import type { UserMenuProps } from './user-menu-items.tsx'

// The package of the menu is half as large as the rest of a page, so it is loaded at first use.
const Items = lazy(() =>
  import('./user-menu-items.tsx').then((module) => ({ default: module.UserMenuItems })),
)
const PasswordDialog = lazy(() =>
  import('./password-dialog.tsx').then((module) => ({ default: module.PasswordDialog })),
)

export function UserMenu() {
  const session = useSession()
  const [isOpen, setOpen] = useState<boolean | null>(null)
  const [isChangingPassword, setChangingPassword] = useState(false)
  if (session === null) return null
  const { user } = session
  const trigger = (
    <button
      type="button"
      className={styles.menuButton}
      aria-haspopup="menu"
      aria-label={`Account of ${user.user_email}`}
      onClick={() => setOpen((before) => before ?? true)}
    >
      <Outside text={user.user_email} />
    </button>
  )
  const props: Omit<UserMenuProps, 'children'> = {
    role: user.user_role,
    workspace: session.workspace.workspace_name,
    isOpen: isOpen === true,
    onOpen: setOpen,
    onPassword: () => setChangingPassword(true),
    onSignOut: () => void signOut(),
  }
  return (
    <>
      {isOpen === null ? (
        trigger
      ) : (
        <Suspense fallback={trigger}>
          <Items {...props}>{trigger}</Items>
        </Suspense>
      )}
      {isChangingPassword ? (
        <Suspense fallback={null}>
          <PasswordDialog email={user.user_email} onClose={() => setChangingPassword(false)} />
        </Suspense>
      ) : null}
    </>
  )
}
