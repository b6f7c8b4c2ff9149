/** The link with which the first admin of a new workspace creates an account. */
import { checkedCall } from '../api/management/call.ts'
import { userUseCases } from '../api/management/users.ts'
import { localPrincipal } from '../contract/principal.ts'
import type { SetupLink } from '../contract/user.ts'
import { Passwords } from '../metadata/password-hash.ts'
import type { Metadata } from '../metadata/store.ts'
import { systemUser } from '../platform/system-user.ts'

export function firstSetupLink(metadata: Metadata, workspaceId: string): Promise<SetupLink> {
  const { createSetupLink } = userUseCases({ metadata, passwords: new Passwords(), now: Date.now })
  const principal = localPrincipal(workspaceId, systemUser())
  return createSetupLink(checkedCall('createSetupLink', { principal, body: { user_role: 'admin' } }))
}
