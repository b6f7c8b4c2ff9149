/**
 * `pipectl keys …`: the API keys of the workspace. A complete key is printed only once, on stdout, when it is
 * created.
 */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type ApiKey, type ApiKeyCreate, type ApiKeyScope, apiKeyScopes } from '../../contract/api-key.ts'
import { ago, parseDuration, until } from '../../platform/quantities.ts'
import { type Client, openClient } from '../client/client.ts'
import { usageFailure } from '../client/failure.ts'
import { nextName } from '../client/key-name.ts'
import { connect, findTarget, type Target } from './connection.ts'
import { addSettingFlags } from './daemon-commands.ts'
import { daemonSettings } from './daemon-settings.ts'
import { type CommonOptions, clientCommand, define, group } from './define.ts'
import { repeated } from './flag-options.ts'
import { io } from './io.ts'
import { listView, oneView, print } from './output.ts'
import { readProfiles, writeProfiles } from './profile-store.ts'
import { findPipe, only } from './references.ts'
import { confirm, say } from './terminal.ts'

interface CreateOptions {
  scope: ApiKeyScope[]
  pipe: string[]
  expires?: string
  local?: boolean
  workspace?: string
  dataDir?: string
  config?: string
}

export function addKeysCommands(program: Command): void {
  const keys = group(program, 'keys', 'API keys of the workspace')
  addListCommand(keys)
  addCreateCommand(keys)
  clientCommand(keys, {
    usage: 'revoke <key>',
    summary: 'revoke a key, by its name, id or a prefix of the id; it stops working immediately',
    examples: ['pipectl keys revoke shop-backend --yes'],
    output: false,
    destructive: true,
    action: async (client, [reference], options) => {
      const key = await findKey(client, reference!)
      await confirm(`Revoke key ${key.api_key_name} (${key.api_key_prefix}…)?`, options.yes)
      await client.call('revokeApiKey', { path: { api_key_id: key.api_key_id } })
      say(`Revoked key ${key.api_key_name}.`)
    },
  })
  addRotateCommand(keys)
  clientCommand(keys, {
    usage: 'purge',
    summary: 'remove the revoked and expired keys from the list',
    examples: ['pipectl keys purge --yes'],
    output: false,
    destructive: true,
    action: async (client, _, options) => {
      await confirm('Remove all revoked and expired keys from the list?', options.yes)
      const { purged } = (await client.call('purgeApiKeys')).body
      say(`Removed ${purged} ${purged === 1 ? 'key' : 'keys'}.`)
    },
  })
}

function addListCommand(keys: Command): void {
  clientCommand(keys, {
    usage: 'list',
    summary: 'list the keys, without their secret part',
    examples: ['pipectl keys list'],
    action: async (client, _, options) => {
      const reply = await client.call('listApiKeys')
      const list = reply.body.api_keys
      const isBound = list.some((one) => one.api_key_pipe_ids !== null)
      const pipes = isBound ? (await client.call('listPipes')).body.pipes : []
      const names = new Map(pipes.map((pipe) => [pipe.pipe_id, pipe.pipe_name]))
      const now = Date.now()
      const pipesOf = ({ api_key_pipe_ids: ids }: ApiKey) =>
        ids?.map((id) => names.get(id) ?? `(deleted) ${id}`).join(' ') ?? 'all'
      const view = listView(list, {
        json: reply.text,
        name: (one) => one.api_key_name,
        columns: [
          [{ label: 'NAME', shrinksTo: 14 }, (one) => one.api_key_name],
          ['STATUS', (one) => one.api_key_status],
          [{ label: 'SCOPES', shrinksTo: 12 }, (one) => one.api_key_scopes.join(' ')],
          [{ label: 'PIPES', shrinksTo: 10, gives: 1 }, pipesOf],
          [{ label: 'LAST USED', gives: 2 }, (one) => ago(one.api_key_last_used_ts, now)],
          [{ label: 'EXPIRES', gives: 3 }, (one) => expiry(one.api_key_expires_ts, now)],
          [{ label: 'STARTS WITH', gives: 4 }, (one) => one.api_key_prefix],
          [{ label: 'KEY ID', isSpare: true }, (one) => one.api_key_id],
        ],
      })
      await print(view, options.output)
    },
  })
}

function expiry(timestamp: string | null, nowMs: number): string {
  if (timestamp === null) return 'never'
  return Date.parse(timestamp) <= nowMs ? ago(timestamp, nowMs) : until(timestamp, nowMs)
}

function addCreateCommand(keys: Command): void {
  define<CreateOptions>(keys, {
    usage: 'create <name>',
    summary: 'create a key, which is shown only once',
    help: `An app that sends records needs only --scope ingest and its --pipe: a leaked key can then do nothing else.
With --local the key is created in the data directory, also while the daemon runs. Use it if all keys are lost.`,
    examples: [
      'pipectl keys create shop-backend --scope ingest --pipe shop --expires 90d -o json > shop-backend-key.json',
      'pipectl keys create dashboards --scope read',
      'pipectl keys create rescue --local --workspace default --data-dir /var/lib/pipectl',
    ],
    output: true,
    daemon: true,
    options: (command) => {
      command.addOption(
        new Option('--scope <scope>', 'what the key can do; can be repeated; manage allows everything')
          .choices(apiKeyScopes)
          .argParser((value: string, before: string[]) => [...before, requireScope(value)])
          .default([], 'manage'),
      )
      command.addOption(
        new Option('--pipe <pipe>', 'a pipe that the key can access; can be repeated')
          .argParser(repeated)
          .default([], 'all'),
      )
      command.option('--expires <when>', 'when it expires: 90d, 12h, or a time such as 2027-01-31T00:00:00Z')
      command.option('--local', 'create it in the data directory, without an API key')
      addSettingFlags(command, ['data_dir'])
      command.option('--workspace <name>', 'with --local: the workspace of the key (default: default)')
    },
    action: async ([name], options) => {
      const body: ApiKeyCreate = {
        api_key_name: name!,
        ...(options.scope.length === 0 ? {} : { api_key_scopes: options.scope }),
        ...(options.expires === undefined ? {} : { api_key_expires_ts: requireTime(options.expires) }),
      }
      const made = options.local === true ? await createLocally(body, options) : await create(body, options)
      await printKey(made, options)
    },
  })
}

interface MadeKey {
  api_key_id: string
  api_key: string
  api_key_name: string
}

async function create(body: ApiKeyCreate, options: CreateOptions & CommonOptions): Promise<MadeKey> {
  const stray = options.workspace ?? options.dataDir ?? options.config
  if (stray !== undefined) {
    throw usageFailure(
      '--workspace, --data-dir and --config need --local: over the API, the key determines the workspace',
      'omit them, or add --local',
    )
  }
  const client = await connect(options)
  const pipes = await Promise.all(options.pipe.map((reference) => findPipe(client, reference)))
  const ids = [...new Set(pipes.map((pipe) => pipe.pipe_id))]
  return (
    await client.call('createApiKey', { body: ids.length === 0 ? body : { ...body, api_key_pipe_ids: ids } })
  ).body
}

async function createLocally(body: ApiKeyCreate, options: CreateOptions): Promise<MadeKey> {
  const { createLocalKey } = await import('../../maintenance/workspaces.ts')
  const workspaceName = options.workspace ?? 'default'
  return await createLocalKey(daemonSettings(options), io().env, {
    workspaceName,
    body,
    pipes: options.pipe,
  })
}

async function printKey(
  { api_key, api_key_id, api_key_name }: MadeKey,
  options: CommonOptions,
): Promise<void> {
  say('This key is shown once and cannot be shown again: keep it now.')
  const shown = { api_key_id, api_key, api_key_name }
  const rows = Object.entries({ api_key, api_key_id, api_key_name })
  await print(oneView(JSON.stringify(shown), api_key_name, rows), options.output)
}

interface RotateOptions {
  name?: string
  overlap: string
  expires?: string
}

function addRotateCommand(keys: Command): void {
  define<RotateOptions>(keys, {
    usage: 'rotate [key]',
    summary: 'replace a key with a new one with the same rights; the old one expires after the overlap',
    help: `Without KEY, the key of the profile in use is replaced, and the profile gets the new key; otherwise the new key is printed, once.
The old key stops working after --overlap. Use 0 if a key was leaked.`,
    examples: [
      'pipectl keys rotate --profile prod --yes',
      'pipectl keys rotate shop-backend --overlap 2d --yes -o json > shop-backend-key.json',
    ],
    output: true,
    daemon: true,
    destructive: true,
    options: (command) => {
      command.option('--name <name>', 'name of the new key (default: the old name with the time)')
      command.option('--overlap <time>', 'how long the old key still works: 7d, 12h, 0', '7d')
      command.option('--expires <when>', 'when the new key expires (default: as the old one)')
    },
    action: async ([reference], options) => {
      const overlap = options.overlap === '0' ? 0 : requireSeconds('--overlap', options.overlap)
      if (reference === undefined) {
        await rotateOwn(await findTarget(options), overlap, options)
        return
      }
      const client = await connect(options)
      const old = await findKey(client, reference)
      await confirm(`Replace key ${old.api_key_name} (${old.api_key_prefix}…)?`, options.yes)
      const { body } = await client.call('rotateApiKey', {
        path: { api_key_id: old.api_key_id },
        body: rotation(old, overlap, options),
      })
      say(`${old.api_key_name} ${endOf(body.replaced.api_key_expires_ts)}.`)
      await printKey(body, options)
    },
  })
}

function rotation(old: ApiKey, overlapSeconds: number, { name, expires }: RotateOptions) {
  return {
    api_key_name: name ?? nextName(old.api_key_name, new Date()),
    overlap_seconds: overlapSeconds,
    ...(expires === undefined ? {} : { api_key_expires_ts: requireTime(expires) }),
  }
}

function endOf(expires: string | null): string {
  return expires === null ? 'is revoked' : `works until ${expires}`
}

/** An active key, by name, id or the start of its id. */
async function findKey(client: Client, reference: string): Promise<ApiKey> {
  const active = (await client.call('listApiKeys')).body.api_keys.filter(
    (one) => one.api_key_status === 'active',
  )
  const named = active.filter((one) => one.api_key_name === reference)
  const matches =
    named.length > 0
      ? named
      : active.filter((one) => reference.length >= 4 && one.api_key_id.startsWith(reference.toLowerCase()))
  return only('key', reference, matches, { names: active.map((one) => one.api_key_name), show: keyLine })
}

/** Enough time to store the new key and test it. */
const switchSeconds = 3_600

/**
 * Every step leaves a working profile: the new key is stored and tested before the old one ends. If the old key ends
 * immediately, the new one revokes it, because a key cannot revoke itself.
 */
async function rotateOwn(
  target: Target,
  overlapSeconds: number,
  options: RotateOptions & CommonOptions,
): Promise<void> {
  const { apiKey, profile: profileName } = target
  if (apiKey === null || profileName === null || target.apiKeyOrigin !== 'profile') {
    throw usageFailure(
      'only the key of a profile can be rotated without its name, and the key in use is not from a profile',
      'name the key, or the profile with --profile, or store one with `pipectl profile add NAME`',
    )
  }
  const client = openClient(target)
  const old = await ownKey(client, apiKey)
  await confirm(`Replace key ${old.api_key_name} of profile ${profileName}?`, options.yes)
  const wanted = rotation(old, overlapSeconds === 0 ? switchSeconds : overlapSeconds, options)
  const { body: created } = await client.call('rotateApiKey', {
    path: { api_key_id: old.api_key_id },
    body: wanted,
  })
  const profiles = await readProfiles(io().env)
  const profile = profiles.profiles.get(profileName)
  if (profile === undefined) throw new Error(`profile ${profileName} vanished while its key was rotated`)
  profiles.profiles.set(profileName, { ...profile, api_key: created.api_key })
  const file = await writeProfiles(io().env, profiles)
  const renewed = openClient({ ...target, apiKey: created.api_key })
  await renewed.call('listApiKeys')
  if (overlapSeconds === 0) await renewed.call('revokeApiKey', { path: { api_key_id: old.api_key_id } })
  const end = endOf(overlapSeconds === 0 ? null : created.replaced.api_key_expires_ts)
  say(`Profile ${profileName} now uses key ${created.api_key_name} (${file}); ${old.api_key_name} ${end}.`)
}

const keyLine = (one: ApiKey) => `${one.api_key_id}  ${one.api_key_name}`

/** Finds the key in use by the part of it that the daemon shows. */
async function ownKey(client: Client, apiKey: string): Promise<ApiKey> {
  const { api_keys: all } = (await client.call('listApiKeys')).body
  const own = all.filter((one) => one.api_key_status === 'active' && apiKey.startsWith(one.api_key_prefix))
  return only('key', apiKey.slice(0, 12), own, { names: [], show: keyLine })
}

function requireScope(text: string): ApiKeyScope {
  const scope = apiKeyScopes.find((one) => one === text)
  if (scope !== undefined) return scope
  throw new InvalidArgumentError(`Allowed choices are ${apiKeyScopes.join(', ')}.`)
}

function requireSeconds(option: string, text: string): number {
  const seconds = parseDuration(text)
  if (seconds !== null) return seconds
  throw usageFailure(`${option} is ${JSON.stringify(text)}`, 'give a time such as 7d, 12h or 30m')
}

/** Converts a duration from now, or a time, into the form of the API. */
function requireTime(text: string): string {
  const seconds = parseDuration(text)
  if (seconds !== null) return new Date(Date.now() + seconds * 1_000).toISOString()
  const isMoment = /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/i.test(text) && !Number.isNaN(Date.parse(text))
  if (isMoment) return new Date(text).toISOString()
  throw usageFailure(
    `--expires is ${JSON.stringify(text)}`,
    'give a time such as 90d or 12h, or a moment such as 2027-01-31T00:00:00Z',
  )
}
