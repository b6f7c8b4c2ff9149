/**
 * Sign-in to the dashboard: bodies of the operations below `/dashboard/api/v1` that `/v1` does not have.
 * Rules: docs/dev/contract.md#sign-in-for-people. The session is a cookie that scripts cannot read.
 *
 *   POST   …/session           SignIn          → 204 + cookie   sign_in_failed, too_many_attempts, sign_in_busy
 *   GET    …/session                           → 200 CurrentSession   session_required
 *   DELETE …/session                           → 204, removes the cookie
 *   PUT    …/session/password  PasswordChange  → 204 + a new cookie; all other sessions of the user end. A wrong current
 *                                              password is a validation_error of current_password
 *   POST   …/setup             SetUp           → 204 + cookie   setup_link_invalid, duplicate_user_email
 *
 * Every method except GET requires a matching `Origin` (`origin_mismatch`) and, except for sign-in and setup, `X-CSRF-Token`
 * (`csrf_token_invalid`). All operations of `/v1` except ingest and pull are also available under this path.
 */
import Type, { type Static } from 'typebox'
import { closed, positive, string, timestamp, uuid } from './schema-parts.ts'
import { Email, Password, User } from './user.ts'

/**
 * The password as the user typed it. Only its size is checked, so that a response reveals nothing about the account.
 */
const typedPassword = Type.String({ maxLength: 1_000 })

/** POST /dashboard/api/v1/session */
export const SignIn = Type.Object({ email: Type.String({ maxLength: 254 }), password: typedPassword }, closed)
export type SignIn = Static<typeof SignIn>

/** POST /dashboard/api/v1/setup. `token` is the fragment of the setup link. */
export const SetUp = Type.Object(
  { token: Type.String({ minLength: 1, maxLength: 100 }), email: Email, password: Password },
  closed,
)
export type SetUp = Static<typeof SetUp>

/** PUT /dashboard/api/v1/session/password, for the signed-in user. */
export const PasswordChange = Type.Object({ current_password: typedPassword, password: Password }, closed)
export type PasswordChange = Static<typeof PasswordChange>

/** GET /dashboard/api/v1/session */
export const CurrentSession = Type.Object({
  user: User,
  workspace: Type.Object({ workspace_id: uuid(), workspace_name: Type.String() }),
  csrf_token: string(
    'Must be sent as `X-CSRF-Token` with every request except GET. It changes with each sign-in.',
  ),
  /** The session ends at this time in any case, and earlier after the given idle time in seconds. */
  session_expires_ts: timestamp(),
  session_idle_seconds: positive(),
  data_url: string('The address that records are sent to, which can differ from that of the dashboard.'),
})
export type CurrentSession = Static<typeof CurrentSession>
