/** Operations on the users of a workspace. `management/` serves them. */
import { created, everyManaged, managed, noContent, type Operation, ok, withBody } from './operation.ts'
import { responseBodies } from './responses.ts'
import { SetupLink, SetupLinkCreate, UserCreate, UserList, UserUpdate } from './user.ts'

/** Passwords are hashed one at a time, and only a limited number of requests wait. */
const withPassword = ['sign_in_busy', ...withBody] as const

export const userOperations = [
  {
    ...managed('listUsers', 'nothing'),
    summary: 'List the users who can sign in to the dashboard',
    needs: 'manage',
    success: ok('All users', UserList),
    errors: everyManaged,
  },
  {
    ...managed('createUser', 'nothing'),
    summary: 'Create a user with a password',
    request: UserCreate,
    success: created('Created', responseBodies.user),
    errors: ['duplicate_user_email', 'workspace_full', ...withPassword],
  },
  {
    ...managed('updateUser', 'nothing'),
    summary: 'Change the role or the password of a user, which ends every session of the user',
    request: UserUpdate,
    success: ok('The changed user', responseBodies.user),
    errors: ['user_not_found', 'last_admin', ...withPassword],
  },
  {
    ...managed('deleteUser', 'nothing'),
    summary: 'Delete a user and end all sessions of the user',
    success: noContent('Deleted'),
    errors: ['user_not_found', 'last_admin', ...everyManaged],
  },
  {
    ...managed('createSetupLink', 'nothing'),
    summary: 'Create a link with which a person can create an account of that role, once, within 24 hours',
    request: SetupLinkCreate,
    success: created('The link, which is shown only in this response', SetupLink),
    errors: ['workspace_full', ...withBody],
  },
] as const satisfies readonly Operation[]
