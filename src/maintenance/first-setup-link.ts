/** The link with which the first admin of a new workspace makes an account. */
import { userUseCases } from '../api/management/users.ts'
import type { SetupLink } from '../contract/user.ts'
import { Passwords } from '../metadata/password-hash.ts'
import type { Metadata } from '../metadata/store.ts'

export function firstSetupLink(metadata: Metadata, workspaceId: string): Promise<SetupLink> {
  const { createSetupLink } = userUseCases({ metadata, passwords: new Passwords(), now: Date.now })
  return createSetupLink(workspaceId, { user_role: 'admin' })
}
