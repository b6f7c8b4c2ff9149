/** Operations on the users of a workspace. `management/` serves them. */
import { everyManaged, type Operation, withBody } from './operation.ts'
import { at } from './operation-paths.ts'
import { responseBodies } from './responses.ts'
import { SetupLinkCreate, UserCreate, UserUpdate } from './user.ts'

/** Passwords are hashed one at a time, and only a limited number of requests wait. */
const withPassword = ['sign_in_busy', ...withBody] as const

export const userOperations = [
  {
    ...at('listUsers'),
    area: 'management',
    summary: 'List the users who can sign in to the dashboard',
    auth: 'key',
    boundKeys: 'nothing',
    needs: 'manage',
    success: { status: 200, description: 'All users', schema: responseBodies.userList },
    errors: everyManaged,
  },
  {
    ...at('createUser'),
    area: 'management',
    summary: 'Create a user with a password',
    auth: 'key',
    boundKeys: 'nothing',
    request: UserCreate,
    success: { status: 201, description: 'Created', schema: responseBodies.user },
    errors: ['duplicate_user_email', 'workspace_full', ...withPassword],
  },
  {
    ...at('updateUser'),
    area: 'management',
    summary: 'Change the role or the password of a user, which ends every session of the user',
    auth: 'key',
    boundKeys: 'nothing',
    request: UserUpdate,
    success: { status: 200, description: 'The changed user', schema: responseBodies.user },
    errors: ['user_not_found', 'last_admin', ...withPassword],
  },
  {
    ...at('deleteUser'),
    area: 'management',
    summary: 'Delete a user and end all sessions of the user',
    auth: 'key',
    boundKeys: 'nothing',
    success: { status: 204, description: 'Deleted' },
    errors: ['user_not_found', 'last_admin', ...everyManaged],
  },
  {
    ...at('createSetupLink'),
    area: 'management',
    summary: 'Create a link with which a person can create an account of that role, once, within 24 hours',
    auth: 'key',
    boundKeys: 'nothing',
    request: SetupLinkCreate,
    success: {
      status: 201,
      description: 'The link, which is shown only in this response',
      schema: responseBodies.setupLink,
    },
    errors: ['workspace_full', ...withBody],
  },
] as const satisfies readonly Operation[]
