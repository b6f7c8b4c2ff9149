/** Users who sign in to the dashboard. Rules: docs/dev/contract.md#sign-in-for-people. */
import Type, { type Static } from 'typebox'
import { closed, nullable, string, timestamp, uuid } from './schema-parts.ts'
import { emailPattern } from './validate.ts'

/** An `admin` has every right in the workspace, a `viewer` can only read. */
export const userRoles = ['admin', 'viewer'] as const
export type UserRole = (typeof userRoles)[number]

/** In characters. There are no rules about character classes, because length makes a password hard to guess. */
export const passwordLength = { min: 10, max: 1_000 } as const
/** The limit of RFC 5321. */
const maxEmailLength = 254

/** Case-insensitive; stored and shown in lower case. pipectl never sends mail to it. */
export const Email = Type.String({ minLength: 1, maxLength: maxEmailLength, pattern: emailPattern })
export const Password = Type.String({ minLength: passwordLength.min, maxLength: passwordLength.max })

export const UserCreate = Type.Object(
  { user_email: Email, user_role: Type.Enum([...userRoles]), password: Password },
  closed,
)
export type UserCreate = Static<typeof UserCreate>

/** Every change ends all sessions of the user. */
export const UserUpdate = Type.Object(
  { user_role: Type.Optional(Type.Enum([...userRoles])), password: Type.Optional(Password) },
  closed,
)
export type UserUpdate = Static<typeof UserUpdate>

export const User = Type.Object({
  user_id: uuid(),
  user_email: Type.String(),
  user_role: Type.Enum([...userRoles]),
  user_created_ts: timestamp(),
  user_last_sign_in_ts: nullable(timestamp()),
})
export type User = Static<typeof User>

export const UserList = Type.Object({ users: Type.Array(User) })

/** A single-use link with which a person creates an account. */
export const SetupLinkCreate = Type.Object({ user_role: Type.Enum([...userRoles]) }, closed)
export type SetupLinkCreate = Static<typeof SetupLinkCreate>

export const SetupLink = Type.Object({
  setup_path: string(
    'A path below the address of the management API: `/dashboard/setup#TOKEN`. It is shown only in this response.',
  ),
  setup_expires_ts: timestamp(),
})
export type SetupLink = Static<typeof SetupLink>
