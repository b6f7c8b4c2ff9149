/** `pipectl keys …`: the workspace's API keys. A whole key is printed once, on stdout, when it is made. */
import type { Command } from 'commander'
import { type Client, openClient } from '../client/client.ts'
import { exitCodes, Failure } from '../client/failure.ts'
import type { ApiKey } from '../contract/api-key.ts'
import { connect, findTarget, type Target } from './connection.ts'
import { define, formats, group } from './define.ts'
import { oneView, print } from './output.ts'
import { readProfiles, writeProfiles } from './profile-store.ts'
import { only } from './references.ts'
import { confirm, say } from './terminal.ts'

export function addKeysCommands(program: Command): void {
  const keys = group(program, 'keys', 'API keys of the workspace')
  define(keys, {
    usage: 'list',
    summary: 'list the keys, without their secret part',
    examples: ['pipectl keys list'],
    output: formats,
    daemon: true,
    action: async (_, options) => {
      const reply = await (await connect(options)).keys.list()
      const list = reply.body.api_keys
      const view = {
        json: reply.text,
        items: () => list.map((one) => JSON.stringify(one)),
        names: () => list.map((one) => one.api_key_name),
        table: () => ({
          columns: ['NAME', 'STATUS', 'STARTS WITH', 'CREATED', 'KEY ID'],
          rows: list.map((one) => [
            one.api_key_name,
            one.api_key_status,
            one.api_key_prefix,
            one.api_key_created_ts,
            one.api_key_id,
          ]),
        }),
      }
      await print(view, options.output)
    },
  })
  define(keys, {
    usage: 'create <name>',
    summary: 'create a key; it is shown once and can never be shown again',
    examples: ['pipectl keys create shop-backend -o json > shop-backend-key.json'],
    output: formats,
    daemon: true,
    action: async ([name], options) => {
      const reply = await (await connect(options)).keys.create(name!)
      const { api_key: key, api_key_id: id } = reply.body
      say('This key is shown once and cannot be shown again: keep it now.')
      const rows = [
        ['api_key', key],
        ['api_key_id', id],
        ['api_key_name', reply.body.api_key_name],
      ]
      await print(oneView(reply.text, reply.body.api_key_name, rows), options.output)
    },
  })
  define(keys, {
    usage: 'revoke <key>',
    summary: 'revoke a key, named by its name, id or the start of its id; it stops working at once',
    examples: ['pipectl keys revoke shop-backend --yes'],
    daemon: true,
    destructive: true,
    action: async ([reference], options) => {
      const client = await connect(options)
      const key = await findKey(client, reference!)
      await confirm(`Revoke key ${key.api_key_name} (${key.api_key_prefix}…)?`, options.yes)
      await client.keys.revoke(key.api_key_id)
      say(`Revoked key ${key.api_key_name}.`)
    },
  })
  define<{ name?: string }>(keys, {
    usage: 'rotate',
    summary:
      'replace the key of the profile in use: create a new one, switch the profile to it, revoke the old one',
    examples: ['pipectl keys rotate --profile prod --yes'],
    daemon: true,
    destructive: true,
    options: (command) =>
      command.option('--name <name>', 'name of the new key (default: the old name with the time)'),
    action: async (_, options) => {
      const target = await findTarget(options)
      await rotate(target, options.name, options.yes)
    },
  })
}

/** A key that is still active, by name, id or start of its id. */
async function findKey(client: Client, reference: string): Promise<ApiKey> {
  const active = (await client.keys.list()).body.api_keys.filter((one) => one.api_key_status === 'active')
  const named = active.filter((one) => one.api_key_name === reference)
  const matches =
    named.length > 0
      ? named
      : active.filter((one) => reference.length >= 4 && one.api_key_id.startsWith(reference.toLowerCase()))
  return only('key', reference, matches, (one) => `${one.api_key_id}  ${one.api_key_name}`)
}

/**
 * Each step leaves a working profile behind: the new key is stored and tried before the old one is revoked, and it is
 * the new one that revokes (a key cannot revoke itself).
 */
async function rotate(target: Target, name: string | undefined, yes: boolean | undefined): Promise<void> {
  const { apiKey, profile: profileName } = target
  if (apiKey === null || profileName === null || target.apiKeyOrigin !== 'profile') {
    throw new Failure(
      exitCodes.usage,
      'only the key of a profile can be rotated, and the key in use does not come from one',
      'name the profile with --profile, store one with `pipectl profile add NAME`, or use `pipectl keys create` and `revoke`',
    )
  }
  const old = await ownKey(openClient(target), apiKey)
  await confirm(`Replace key ${old.api_key_name} of profile ${profileName}?`, yes)
  const created = (await openClient(target).keys.create(name ?? nextName(old.api_key_name, new Date()))).body
  const profiles = await readProfiles(process.env)
  const profile = profiles.profiles.get(profileName)
  if (profile === undefined) throw new Error(`profile ${profileName} vanished while its key was rotated`)
  profiles.profiles.set(profileName, { ...profile, api_key: created.api_key })
  const file = await writeProfiles(process.env, profiles)
  const renewed = openClient({ ...target, apiKey: created.api_key })
  await renewed.keys.list()
  await renewed.keys.revoke(old.api_key_id)
  say(
    `Profile ${profileName} now uses key ${created.api_key_name} (${file}); ${old.api_key_name} is revoked.`,
  )
}

/** The key in use, found by the part of it that the daemon shows. */
async function ownKey(client: Client, apiKey: string): Promise<ApiKey> {
  const { api_keys: all } = (await client.keys.list()).body
  const own = all.filter((one) => one.api_key_status === 'active' && apiKey.startsWith(one.api_key_prefix))
  return only('key', apiKey.slice(0, 12), own, (one) => `${one.api_key_id}  ${one.api_key_name}`)
}

/** `default` → `default-20260131T060000`; an earlier time is replaced, so names do not grow. */
export function nextName(name: string, now: Date): string {
  const time = now.toISOString().replace(/[-:]|\.\d+Z$/g, '')
  return `${name.replace(/-\d{8}T\d{6}$/, '').slice(0, 84)}-${time}`
}
