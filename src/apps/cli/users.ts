/**
 * `pipectl users …`: the users who can sign in to the dashboard. Works through the API of a daemon, or with
 * --data-dir directly on a data directory. The latter needs no key: for the first user, and if the last password is
 * lost.
 */
import type { Command } from 'commander'
import type { SetupLink, User } from '../../contract/user.ts'
import { ago } from '../../platform/quantities.ts'
import { unchecked } from '../client/client.ts'
import { usageFailure } from '../client/failure.ts'
import { connect } from './connection.ts'
import { addSettingFlags, dashboardOrigin } from './daemon-commands.ts'
import { daemonSettings } from './daemon-settings.ts'
import { type CommonOptions, define, group } from './define.ts'
import { io } from './io.ts'
import { listView, oneView, print, rowsOf, type View } from './output.ts'
import { only } from './references.ts'
import { askSecret, canAsk, confirm, say } from './terminal.ts'

interface UsersOptions {
  dataDir?: string
  config?: string
  workspace?: string
  role?: string
}

/** The same operations through the API and on a data directory. */
interface Users {
  list(): Promise<User[]>
  create(body: object): Promise<User>
  update(userId: string, body: object): Promise<unknown>
  delete(userId: string): Promise<unknown>
  createSetupLink(body: object): Promise<SetupLink>
  /** The URL of the dashboard. */
  url: string
}

const roleOption = ['--role <role>', 'admin or viewer'] as const

const passwordHelp = `The password (10 to 1,000 characters) is read from a prompt on a terminal, otherwise from the first line of stdin.
With --data-dir the command works on a data directory: run it on the machine of the daemon, as its user.`

export function addUsersCommands(program: Command): void {
  const users = group(program, 'users', 'people who can sign in to the dashboard')
  define<UsersOptions>(users, {
    usage: 'create <email>',
    summary: 'create a user with a password',
    help: passwordHelp,
    examples: [
      'pipectl users create ada@example.com',
      'pipectl users create bob@example.com --role viewer --data-dir /var/lib/pipectl < password.txt',
    ],
    output: true,
    daemon: true,
    options: (command) => addDataDir(command).option(...roleOption, 'admin'),
    action: ([email], options) =>
      withUsers(options, async ({ create }) => {
        const password = await newPassword(options)
        const user = await create({ user_email: email, user_role: options.role, password })
        const { user_email, user_role, user_id } = user
        const rows = rowsOf({ user_email, user_role, user_id })
        await print(oneView(JSON.stringify({ user }), user_email, rows), options.output)
      }),
  })
  define<UsersOptions>(users, {
    usage: 'list',
    summary: 'list the users',
    examples: ['pipectl users list', 'pipectl users list --data-dir /var/lib/pipectl'],
    output: true,
    daemon: true,
    options: addDataDir,
    action: (_, options) =>
      withUsers(options, async ({ list }) => print(viewOf(await list()), options.output)),
  })
  addChanging(users)
  define<UsersOptions>(users, {
    usage: 'setup-link',
    summary: 'print a link that creates one account, within 24 hours',
    help: 'Everyone who has the link can use it: treat it like a password.',
    examples: [
      'pipectl users setup-link --role viewer',
      'pipectl users setup-link --data-dir /var/lib/pipectl',
    ],
    output: true,
    daemon: true,
    options: (command) => addDataDir(command).option(...roleOption, 'admin'),
    action: (_, options) =>
      withUsers(options, async ({ createSetupLink, url }) => {
        const { setup_path, setup_expires_ts } = await createSetupLink({ user_role: options.role })
        say('This link is shown once. It works once, until the time below.')
        const link = { setup_url: `${url}${setup_path}`, setup_expires_ts }
        await print(oneView(JSON.stringify(link), link.setup_url, rowsOf(link)), options.output)
      }),
  })
}

function addChanging(users: Command): void {
  define<UsersOptions>(users, {
    usage: 'password <email>',
    summary: 'set the password of a user, and end all sessions of the user',
    help: passwordHelp,
    examples: ['pipectl users password ada@example.com --data-dir /var/lib/pipectl'],
    daemon: true,
    options: addDataDir,
    action: ([email], options) =>
      withUsers(options, async (all) => {
        const user = await findUser(all, email!)
        await all.update(user.user_id, { password: await newPassword(options) })
        say(`${user.user_email} has a new password and is signed out everywhere.`)
      }),
  })
  define<UsersOptions>(users, {
    usage: 'role <email> <role>',
    summary: 'make a user admin or viewer, and end all sessions of the user',
    examples: [
      'pipectl users role bob@example.com viewer',
      'pipectl users role ada@example.com admin --data-dir /var/lib/pipectl',
    ],
    daemon: true,
    options: addDataDir,
    action: ([email, role], options) =>
      withUsers(options, async (all) => {
        const user = await findUser(all, email!)
        await all.update(user.user_id, { user_role: role })
        say(`${user.user_email} is ${role} now and is signed out everywhere.`)
      }),
  })
  define<UsersOptions>(users, {
    usage: 'delete <email>',
    summary: 'delete a user, and end all sessions of the user',
    examples: ['pipectl users delete bob@example.com --yes'],
    daemon: true,
    destructive: true,
    options: addDataDir,
    action: ([email], options) =>
      withUsers(options, async (all) => {
        const user = await findUser(all, email!)
        await confirm(`Delete user ${user.user_email} (${user.user_role})?`, options.yes)
        await all.delete(user.user_id)
        say(`Deleted user ${user.user_email}.`)
      }),
  })
}

function addDataDir(command: Command): Command {
  addSettingFlags(command, ['data_dir'])
  return command.option(
    '--workspace <name>',
    'with --data-dir: the workspace of the users (default: default)',
  )
}

async function withUsers<T>(
  options: UsersOptions & CommonOptions,
  use: (users: Users) => Promise<T>,
): Promise<T> {
  if (options.dataDir === undefined && options.config === undefined) {
    if (options.workspace !== undefined) {
      throw usageFailure(
        '--workspace needs --data-dir: over the API, the key determines the workspace',
        'omit it, or add --data-dir',
      )
    }
    const { url, call } = await connect(options)
    return await use({
      url,
      list: async () => (await call('listUsers')).body.users,
      create: async (body) => (await call('createUser', { body: unchecked<'createUser'>(body) })).body.user,
      update: (user_id, body) =>
        call('updateUser', { path: { user_id }, body: unchecked<'updateUser'>(body) }),
      delete: (user_id) => call('deleteUser', { path: { user_id } }),
      createSetupLink: async (body) =>
        (await call('createSetupLink', { body: unchecked<'createSetupLink'>(body) })).body,
    })
  }
  const settings = daemonSettings(options)
  const { withLocalUsers } = await import('../../maintenance/workspaces.ts')
  return await withLocalUsers(settings, io().env, options.workspace ?? 'default', (users) =>
    use({ ...users, url: dashboardOrigin(settings) }),
  )
}

async function findUser({ list }: Users, email: string): Promise<User> {
  const wanted = email.toLowerCase()
  const all = await list()
  const found = all.filter((one) => one.user_email === wanted || one.user_id === wanted)
  return only('user', email, found, {
    names: all.map((one) => one.user_email),
    show: (one) => `${one.user_id}  ${one.user_email}`,
  })
}

/** Never from an argument, because other users of the machine could read it in the process list. */
async function newPassword({ apiKeyStdin }: CommonOptions): Promise<string> {
  if (canAsk()) {
    const password = await askSecret('New password: ')
    if ((await askSecret('Again: ')) === password) return password
    throw usageFailure('the two passwords differ; nothing was changed', 'try again')
  }
  if (apiKeyStdin === true) {
    throw usageFailure(
      'stdin cannot hold both the API key and the password',
      'give the key with --api-key-file or PIPECTL_API_KEY',
    )
  }
  return io().readStdin().split(/\r?\n/)[0] ?? ''
}

function viewOf(users: readonly User[]): View {
  const now = Date.now()
  return listView(users, {
    json: JSON.stringify({ users }),
    name: (one) => one.user_email,
    columns: [
      [{ label: 'E-MAIL', shrinksTo: 24 }, (one) => one.user_email],
      ['ROLE', (one) => one.user_role],
      ['LAST SIGNED IN', (one) => ago(one.user_last_sign_in_ts, now)],
      [{ label: 'CREATED', gives: 1 }, (one) => ago(one.user_created_ts, now)],
      [{ label: 'USER ID', isSpare: true }, (one) => one.user_id],
    ],
    empty: 'no users yet; create one with `pipectl users create EMAIL`',
  })
}
