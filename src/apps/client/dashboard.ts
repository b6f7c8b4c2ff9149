/**
 * The operations that the dashboard's API has in addition to `/v1`: sign-in and setup. The session is a cookie, which
 * the browser stores. Every method except GET sends the CSRF token of `current`.
 */
import type { CurrentSession } from '../../contract/session.ts'
import type { SetupLink, User, UserCreate, UserRole, UserUpdate } from '../../contract/user.ts'
import { type SendOptions, send } from './http.ts'

/** `url`: the part of the address before `/v1`. */
export function openDashboardClient(url: string, changeHeaders: () => Record<string, string>) {
  const call = async <T>(method: string, path: string, options?: SendOptions): Promise<T> => {
    const { text } = await send(url, { apiKey: null, changeHeaders }, { ...options, method, path })
    return (text === '' ? null : JSON.parse(text)) as T
  }
  const user = (userId: string) => `/v1/users/${encodeURIComponent(userId)}`
  return {
    session: {
      current: (signal?: AbortSignal) => call<CurrentSession>('GET', '/v1/session', { signal }),
      signIn: (email: string, password: string) =>
        call<null>('POST', '/v1/session', { body: { email, password } }),
      signOut: () => call<null>('DELETE', '/v1/session'),
      changePassword: (currentPassword: string, password: string) =>
        call<null>('PUT', '/v1/session/password', {
          body: { current_password: currentPassword, password },
        }),
      /** `token`: the fragment of a setup link. */
      setUp: (token: string, email: string, password: string) =>
        call<null>('POST', '/v1/setup', { body: { token, email, password } }),
    },
    users: {
      list: (signal?: AbortSignal) => call<{ users: User[] }>('GET', '/v1/users', { signal }),
      create: (body: UserCreate) => call<unknown>('POST', '/v1/users', { body }),
      update: (userId: string, body: UserUpdate) => call<unknown>('PATCH', user(userId), { body }),
      delete: (userId: string) => call<null>('DELETE', user(userId)),
      createSetupLink: (role: UserRole) =>
        call<SetupLink>('POST', '/v1/setup-links', { body: { user_role: role } }),
    },
  }
}
