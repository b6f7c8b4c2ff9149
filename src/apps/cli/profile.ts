/** `pipectl profile …`: stored daemons with their keys. */
import type { Command } from 'commander'
import { openClient } from '../client/client.ts'
import { type Failure, notFoundFailure, usageFailure } from '../client/failure.ts'
import { defaultUrl, findTarget } from './connection.ts'
import { type CommonOptions, define, group } from './define.ts'
import { io } from './io.ts'
import { listView, print, type View } from './output.ts'
import { type Profile, profilesFile, readProfiles, writeProfiles } from './profile-store.ts'
import { askSecret, canAsk, confirm, say } from './terminal.ts'

export function addProfileCommands(program: Command): void {
  const profile = group(program, 'profile', 'stored addresses and keys, to switch between daemons')
  define<{ check: boolean }>(profile, {
    usage: 'add <name>',
    summary: 'store an address and a key under a name (or replace them), and use it from now on',
    help: 'The key is read from --api-key-file, --api-key-stdin or PIPECTL_API_KEY, or from a prompt.',
    examples: [
      'pipectl profile add prod --server https://pipes.example.com --api-key-file first-key.json',
      'pipectl profile add local --api-key-stdin < key.txt',
    ],
    data: true,
    options: (command) => command.option('--no-check', 'store it without a test request'),
    action: async ([name], options) => {
      const problem = `${JSON.stringify(name)} is not a name for a profile`
      if (!/^[A-Za-z0-9_-]{1,64}$/.test(name!))
        throw usageFailure(problem, 'use letters, digits, hyphens and underscores')
      const stored = await givenProfile(options)
      if (options.check) await openClient({ url: stored.url, apiKey: stored.api_key }).call('listApiKeys')
      const profiles = await readProfiles(io().env)
      profiles.profiles.set(name!, stored)
      profiles.current = name!
      const file = await writeProfiles(io().env, profiles)
      say(`Stored profile ${name} for ${stored.url} in ${file}; it is in use now.`)
    },
  })
  define(profile, {
    usage: 'use <name>',
    summary: 'use a profile from now on',
    examples: ['pipectl profile use prod'],
    action: async ([name]) => {
      const profiles = await readProfiles(io().env)
      if (!profiles.profiles.has(name!)) throw noProfile(name!, [...profiles.profiles.keys()])
      profiles.current = name!
      await writeProfiles(io().env, profiles)
      say(`Using profile ${name}.`)
    },
  })
  define(profile, {
    usage: 'list',
    summary: 'list the profiles; keys are not shown',
    examples: ['pipectl profile list'],
    output: true,
    action: async (_, options) => {
      const { current, profiles } = await readProfiles(io().env)
      await print(viewOf(profiles, current), options.output)
    },
  })
  define(profile, {
    usage: 'remove <name>',
    summary: 'remove a profile; its key stays valid until it is revoked',
    examples: ['pipectl profile remove staging --yes'],
    destructive: true,
    action: async ([name], options) => {
      const profiles = await readProfiles(io().env)
      if (!profiles.profiles.has(name!)) throw noProfile(name!, [...profiles.profiles.keys()])
      await confirm(`Remove profile ${name} and its key?`, options.yes)
      profiles.profiles.delete(name!)
      if (profiles.current === name) profiles.current = null
      await writeProfiles(io().env, profiles)
      say(`Removed profile ${name}.${profiles.current === null ? ' No profile is in use now.' : ''}`)
    },
  })
}

/** A new profile takes neither address nor key from the profile in use. Throws Failure (usage) without a key. */
async function givenProfile(options: CommonOptions): Promise<Profile & { api_key: string }> {
  const target = await findTarget(
    { ...options, profile: undefined },
    { ...io().env, PIPECTL_PROFILE: undefined },
  )
  const given = target.apiKeyOrigin === 'profile' ? null : target.apiKey
  const key = given ?? (canAsk() ? (await askSecret('API key: ')).trim() : null)
  if (key === null)
    throw usageFailure(
      'no API key was given for the profile',
      'use --api-key-file, --api-key-stdin or PIPECTL_API_KEY',
    )
  const hasDataUrl = target.dataUrlOrigin === 'flag' || target.dataUrlOrigin === 'environment'
  return {
    url: target.urlOrigin === 'profile' ? defaultUrl : target.url,
    ...(hasDataUrl && { data_url: target.dataUrl }),
    api_key: key,
  }
}

function viewOf(profiles: ReadonlyMap<string, Profile>, current: string | null): View {
  const list = [...profiles].map(([name, one]) => ({
    name,
    url: one.url,
    data_url: one.data_url ?? null,
    api_key_prefix: one.api_key?.slice(0, 12) ?? null,
    current: name === current,
  }))
  return listView(list, {
    json: JSON.stringify({ profiles: list }),
    name: (one) => one.name,
    columns: [
      ['', (one) => (one.current ? '*' : '')],
      [{ label: 'NAME', shrinksTo: 12 }, (one) => one.name],
      [{ label: 'ADDRESS', shrinksTo: 24 }, (one) => one.url],
      [{ label: 'KEY STARTS WITH', gives: 1 }, (one) => one.api_key_prefix ?? '-'],
    ],
    empty: `no profiles in ${profilesFile(io().env)}; create one with \`pipectl profile add NAME\``,
  })
}

function noProfile(name: string, known: string[]): Failure {
  const hint =
    known.length === 0 ? 'create one with `pipectl profile add NAME`' : `use one of: ${known.join(', ')}`
  return notFoundFailure(`there is no profile ${JSON.stringify(name)}`, hint)
}
